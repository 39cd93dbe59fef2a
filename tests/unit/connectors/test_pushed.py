"""The push log: what was appended is read once, whoever appends, reads, deletes or dies."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.connectors import pushed
from millrace.connectors.formats.decoded import reject_table
from millrace.connectors.pushed import Batch, PushLog, read_file
from millrace.errors import CorruptionError
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.state.names import Entry, numbered

SCHEMA = Schema.of("n bigint")
FOLDER = "pushed/s_1"


def batch(*numbers: int, key: str = "") -> Batch:
    return Batch(pa.record_batch({"n": pa.array(numbers, pa.int64())}), "push/", key)


def read(root: MemoryRoot, log: PushLog, start: int, stop: int) -> list[int]:
    files = log.files(start, stop)
    return [
        number
        for file in files
        for decoded, _ in read_file(root, FOLDER, file, SCHEMA)
        for number in decoded.rows.column(0).to_pylist()
    ]


def test_batches_are_read_in_the_order_of_their_files() -> None:
    root = MemoryRoot()
    first, second = PushLog(root, FOLDER), PushLog(root, FOLDER)

    numbers = [
        first.append([batch(1), batch(2)]),
        second.append([batch(3)]),
        first.append([batch(4)]),
    ]

    log = PushLog(root, FOLDER)
    assert numbers == [0, 1, 2]
    assert log.refresh() == 3
    assert read(root, log, 0, 3) == [1, 2, 3, 4]


def test_an_epoch_takes_as_many_rows_as_it_may_and_one_file_at_least() -> None:
    log = PushLog(MemoryRoot(), FOLDER)
    for size in (5, 5, 50, 5):
        log.append([batch(*range(size))])

    log.refresh()

    assert [log.advance(start, 10) for start in range(4)] == [2, 2, 3, 4]


def test_what_is_consumed_is_deleted_and_numbers_go_on() -> None:
    root = MemoryRoot()
    log = PushLog(root, FOLDER)
    for number in range(3):
        log.append([batch(number)])

    log.refresh()
    log.consume(3)

    names = [entry.name for entry in root.list(f"{FOLDER}/")]
    assert [name for name in names if "/done/" not in name] == [numbered(FOLDER, 2)]
    assert PushLog(root, FOLDER).append([batch(3)]) == 3


def test_rejects_travel_with_their_places() -> None:
    root = MemoryRoot()
    rejects = reject_table([(1, "bad", b"x")])
    given = Batch(pa.record_batch({"n": pa.array([10, 12])}), "push/acme", "", rejects)
    PushLog(root, FOLDER).append([given])

    [file] = PushLog(root, FOLDER).files(0, 1)
    [(decoded, origin)] = read_file(root, FOLDER, file, SCHEMA)

    assert origin == "push/acme"
    assert decoded.ordinals.tolist() == [0, 2]
    assert decoded.rejects.equals(rejects)


def test_a_file_that_was_changed_is_not_believed() -> None:
    root = MemoryRoot()
    PushLog(root, FOLDER).append([batch(1, 2, 3)])
    name = numbered(FOLDER, 0)
    data = bytearray(root.get(name))
    values = b"".join(each.to_bytes(8, "little") for each in (1, 2, 3))
    data[data.index(values)] ^= 1
    root.put(name, bytes(data))

    [file] = PushLog(root, FOLDER).files(0, 1)
    with pytest.raises(CorruptionError, match="damaged"):
        list(read_file(root, FOLDER, file, SCHEMA))


@given(
    st.lists(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=3), max_size=8),
    st.data(),
)
def test_of_batches_with_one_key_the_first_counts(
    files: list[list[str]], data: st.DataObject
) -> None:
    """The definition: go through all batches in order and keep those whose key is new."""
    root = MemoryRoot()
    expected, seen, number = [], set(), 0
    for keys in files:
        given = []
        for key in keys:
            given.append(batch(number, key=key))
            if not key or key not in seen:
                expected.append(number)
            seen.add(key)
            number += 1
        PushLog(root, FOLDER).append(given)

    found, start = [], 0
    while start < len(files):
        log = PushLog(root, FOLDER)  # each epoch may be read by another process, or twice
        stop = data.draw(st.integers(start + 1, len(files)), "stop")
        log.refresh()
        once = read(root, log, start, stop)
        assert read(root, PushLog(root, FOLDER), start, stop) == once
        found += once
        if data.draw(st.booleans(), "consume"):
            log.consume(stop)
        start = stop

    assert found == expected


def test_a_number_that_was_consumed_is_not_taken_again() -> None:
    root = MemoryRoot()
    idle, busy, engine = (PushLog(root, FOLDER) for _ in range(3))
    idle.append([batch(0, key="first")])
    for number in range(1, 6):
        busy.append([batch(number)])
    engine.refresh()
    assert read(root, engine, 0, 6) == [*range(6)]
    engine.consume(6)

    late = idle.append([batch(6, key="late")])

    assert late == 6
    assert engine.refresh() == 7
    assert read(root, engine, 6, 7) == [6]


@given(st.lists(st.sampled_from(["a", "b", "read", "consume", "restart"]), max_size=60))
def test_what_is_acknowledged_is_read_once_whoever_appends(steps: list[str]) -> None:
    root = MemoryRoot()
    logs = {name: PushLog(root, FOLDER) for name in ("a", "b", "engine")}
    written, found, offset = 0, list[int](), 0
    for step in [*steps, "read"]:
        match step:
            case "a" | "b":
                logs[step].append([batch(written, key=str(written))])
                written += 1
            case "read":
                stop = logs["engine"].refresh()
                found += read(root, logs["engine"], offset, stop)
                offset = stop
            case "consume":
                logs["engine"].consume(offset)
            case "restart":
                logs["engine"] = PushLog(root, FOLDER)

    assert found == [*range(written)]


def test_keys_of_pages_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "KEPT_KEYS", 2)
    root = MemoryRoot()
    log = PushLog(root, FOLDER)
    for number in range(40):
        log.append([batch(number, key=str(number))])
        stop = log.refresh()
        log.files(stop - 1, stop)
        log.consume(stop)

    assert len(log._first) < 10
    again = PushLog(root, FOLDER)
    again.append([batch(40, key="0"), batch(41, key="39")])
    assert read(root, again, 40, 41) == read(root, log, 40, 41) == [40]


class Watched(MemoryRoot):
    """Counts the entries that were listed, and may lose a page between its listing and reading."""

    n_listed = 0
    losing = ""

    def list(self, prefix: str) -> list[Entry]:
        """List, and count."""
        found = super().list(prefix)
        self.n_listed += len(found)
        return found

    def get(self, name: str) -> bytes:
        """Read; the page that is to be lost was merged into a newer one just before."""
        if name == self.losing:
            folder, _, number = name.rpartition("/")
            self.losing = ""
            self.put(numbered(folder, int(number) + 1), self.get(name))
            self.delete(name)
        return super().get(name)


def test_what_an_epoch_costs_does_not_depend_on_what_waits() -> None:
    costs = []
    for n_waiting in (10, 500):
        root = Watched()
        gateway, weighing, engine = (PushLog(root, FOLDER) for _ in range(3))
        for number in range(n_waiting):
            gateway.append([batch(number, key=str(number))])
        weighing.backlog()
        engine.refresh()
        root.n_listed = 0
        for stop in range(1, 6):
            assert read(root, engine, stop - 1, stop) == [stop - 1]
            engine.consume(stop)
            weighing.backlog()
        costs.append(root.n_listed)

    assert costs[0] == costs[1]


@given(st.lists(st.sampled_from(["a", "b", "read", "consume", "restart"]), max_size=40))
def test_the_backlog_is_what_stands_in_the_folder(steps: list[str]) -> None:
    root = MemoryRoot()
    logs = {name: PushLog(root, FOLDER) for name in ("a", "b", "engine", "weighing")}
    offset = 0
    for step in steps:
        match step:
            case "a" | "b":
                logs[step].append([batch(offset)])
            case "read":
                offset = logs["engine"].refresh()
            case "consume":
                logs["engine"].consume(offset)
            case "restart":
                logs["engine"] = PushLog(root, FOLDER)
        depth = FOLDER.count("/") + 1
        files = [each for each in root.list(f"{FOLDER}/") if each.name.count("/") == depth]
        assert logs["weighing"].backlog() == sum(each.size for each in files)


def test_pages_of_keys_are_few_and_remember_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "KEPT_KEYS", 50)
    root = MemoryRoot()
    log = PushLog(root, FOLDER)
    for number in range(300):
        log.append([batch(number, key=str(number))])
        stop = log.refresh()
        log.files(stop - 1, stop)
        log.consume(stop)
        assert len(root.list(f"{FOLDER}/keys/")) <= 10

    again = PushLog(root, FOLDER)
    again.append([batch(number, key=str(number)) for number in range(299 - 50, 300)])
    assert read(root, again, 300, 301) == []
    assert len(log._first) <= 4 * 50


def test_a_page_of_keys_that_is_merged_while_it_is_looked_for_is_found_in_the_other() -> None:
    root = Watched()
    log = PushLog(root, FOLDER)
    for number in range(3):
        log.append([batch(number, key=str(number))])
    log.refresh()
    log.consume(2)
    log.append([batch(3, key="1"), batch(4, key="4")])
    [page] = root.list(f"{FOLDER}/keys/")
    root.losing = page.name

    assert read(root, PushLog(root, FOLDER), 2, 4) == [2, 4]


def test_what_a_restored_root_has_still_to_read_is_read() -> None:
    root = MemoryRoot()
    log = PushLog(root, FOLDER)
    for number in range(4):
        log.append([batch(number, key=str(number))])
    files = {entry.name: root.get(entry.name) for entry in root.list(f"{FOLDER}/")}
    log.refresh()
    log.files(0, 3)
    log.consume(3)
    for name, data in files.items():  # as of an epoch that had counted the first of them
        root.put(name, data)

    restored = PushLog(root, FOLDER)
    restored.refresh()

    assert read(root, restored, 1, 4) == [1, 2, 3]
    restored.consume(4)
    assert restored.append([batch(4)]) == 4
    assert read(root, restored, 4, 5) == [4]
