"""The registry: what was acknowledged survives, what was refused has changed nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from millrace import failpoints
from millrace.engine.catalog import Catalog
from millrace.engine.registry import CHANGES, SNAPSHOTS, Registry, read_catalog
from millrace.engine.streams import StreamSpec
from millrace.errors import FencedError, NameTakenError, StoreError, StoreFullError
from millrace.schema import Schema
from millrace.state import log
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Data
from millrace.testing.mortal_root import MortalRoot
from millrace.testing.registering import (
    above,
    add_feed,
    add_queries,
    add_stream,
    ask,
    ask_many,
    constants,
    ids,
)

SCHEMA = Schema.of("symbol text, ts timestamp")


def add(name: str) -> dict[str, Any]:
    return {"do": "add stream", "stream": StreamSpec(name, SCHEMA, "ts").to_json()}


def names(catalog: Catalog) -> list[str]:
    return list(catalog.streams)


def test_a_change_is_there_for_the_next_who_opens_the_root() -> None:
    root = MemoryRoot()
    Registry.open(root).record([add("a"), add("b")])

    assert names(Registry.open(root).catalog) == ["a", "b"]
    assert Registry.open(root).catalog.sequence == 2


def test_changes_of_one_call_are_made_all_or_none() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([add("a")])

    with pytest.raises(NameTakenError):
        registry.record([add("b"), add("a")])

    assert names(registry.catalog) == names(Registry.open(root).catalog) == ["a"]
    registry.record([add("b")])
    assert names(Registry.open(root).catalog) == ["a", "b"]


def test_many_changes_leave_few_files_and_are_all_there() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    for number in range(300):
        registry.record([add(f"s{number}")])

    assert names(Registry.open(root).catalog) == [f"s{number}" for number in range(300)]
    assert Registry.open(root).catalog == registry.catalog
    assert len(root.list(f"{SNAPSHOTS}/")) == 2
    assert len(root.list(f"{CHANGES}/")) <= 128


def test_a_snapshot_that_fails_does_not_fail_the_change() -> None:
    class Full(MortalRoot):
        def put(self, name: str, data: Data) -> None:
            raise StoreFullError("no room is left")

    files = MemoryRoot()
    registry = Registry.open(Full(files))
    for number in range(70):
        registry.record([add(f"s{number}")])

    assert not files.list(f"{SNAPSHOTS}/")
    reopened = Registry.open(files)
    assert len(reopened.catalog.streams) == 70
    reopened.record([add("one more")])
    assert files.list(f"{SNAPSHOTS}/")


def test_an_engine_that_was_replaced_cannot_change_anything() -> None:
    def replaced() -> None:
        raise FencedError("the root has been taken over")

    root = MemoryRoot()
    with pytest.raises(FencedError):
        Registry.open(root, replaced).record([add("a")])

    assert names(Registry.open(root).catalog) == []


def test_of_two_who_change_at_once_the_second_is_told() -> None:
    root = MemoryRoot()
    first, second = Registry.open(root), Registry.open(root)
    first.record([add("a")])

    with pytest.raises(FencedError):
        second.record([add("b")])

    assert names(Registry.open(root).catalog) == ["a"]


@pytest.mark.parametrize(("point", "durable"), [("register.before", []), ("register.after", ["a"])])
def test_a_change_is_durable_before_it_is_acknowledged(point: str, durable: list[str]) -> None:
    root = MemoryRoot()
    failpoints.arm(point, "raise")
    try:
        with pytest.raises(failpoints.InjectedCrash):
            Registry.open(root).record([add("a")])
    finally:
        failpoints.disarm()

    assert names(Registry.open(root).catalog) == durable


def test_tasks_read_the_catalog_that_was_published() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    catalogs = []
    for number in range(3):
        registry.record([add(f"s{number}")])
        catalogs.append(registry.publish({}))
        registry.publish({})

    assert [read_catalog(root, each.file) for each in catalogs] == catalogs
    registry.forget_before(catalogs[-1].sequence)
    assert [each.name for each in root.list("catalogs/")] == [catalogs[-1].file]


class Slow(MortalRoot):
    """A root whose first change of the registry takes until others wait behind it."""

    def __init__(self, files: MemoryRoot) -> None:
        super().__init__(files)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def put_if_absent(self, name: str, data: Data) -> bool:
        if name.startswith(f"{CHANGES}/") and not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(10)
        elif name.startswith(f"{CHANGES}/") and self.error is not None:
            raise self.error
        return super().put_if_absent(name, data)


def together(root: Slow, registry: Registry, calls: list[Callable[[], Any]]) -> list[Any]:
    """Make calls while the first change is being written; return results or errors."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except BaseException as error:
            return error

    with ThreadPoolExecutor(len(calls) + 1) as pool:
        first = pool.submit(registry.record, [add("first")])
        assert root.begun.wait(10)
        waiting = [pool.submit(outcome, call) for call in calls]
        while len(registry._waiting) < len(calls):
            threading.Event().wait(0.001)
        root.go_on.set()
        first.result()
        return [each.result() for each in waiting]


def grouped() -> tuple[MemoryRoot, Slow, Registry]:
    files = MemoryRoot()
    Registry.open(files).record([add_stream(), add_feed("alerts", above(0.0), "shared")])
    root = Slow(files)
    return files, root, Registry.open(root)


def test_callers_that_wait_share_one_entry_and_each_gets_its_own_ids() -> None:
    files, root, registry = grouped()
    sizes = [1, 3, 2, 5, 1, 4]

    def asking(n_queries: int) -> Callable[[], list[int]]:
        lows = [above(100.0 * n_queries + at) for at in range(n_queries)]
        return lambda: ask_many(registry, "alerts", *lows)

    found = together(root, registry, [asking(size) for size in sizes])

    assert len(files.list(f"{CHANGES}/")) == 3  # what was there, the first, and all others
    assert sorted(qid for some in found for qid in some) == list(range(1, sum(sizes) + 1))
    for again in (registry, Registry.open(files)):
        for size, qids in zip(sizes, found, strict=True):
            for at, qid in enumerate(qids):
                known = again.population.find(qid)
                assert known is not None
                assert known[1] == {"p0": 100.0 * size + at}


def test_of_callers_that_share_an_entry_only_the_one_that_does_not_fit_is_refused() -> None:
    files, root, registry = grouped()
    bad_table = constants(("double",), [[1.0]])

    found = together(
        root,
        registry,
        [
            lambda: registry.record([add("second")]),
            lambda: registry.record([add("third"), add("first")]),
            lambda: registry.record([{"do": "nonsense"}]),
            lambda: registry.record([{"do": "drop queries", "rows": 7}], [bad_table]),
            lambda: ask(registry, "big", above(1.0)),
            lambda: ask(registry, "big", above(1.0)),
        ],
    )

    assert found[0] == []
    assert [type(each) for each in found[1:4]] == [NameTakenError, AssertionError, IndexError]
    assert {type(each) for each in found[4:]} == {int, NameTakenError}
    assert names(Registry.open(files).catalog) == ["trades", "first", "second"]
    assert Registry.open(files).population.names == {"big": 1}


def test_of_callers_of_one_entry_the_second_may_not_change_what_the_first_has_dropped() -> None:
    files, root, registry = grouped()
    change, _ = add_queries("alerts", above(0.0))
    table = ids(1).append_column("p0", pa.array([5.0]))
    changed = {"do": "change queries", "family": change["family"], "rows": 0}
    before = Registry.open(files)
    ask_many(before, "alerts", above(1.0))
    registry = Registry.open(root)

    found = together(
        root,
        registry,
        [
            lambda: registry.record([{"do": "drop queries", "rows": 0}], [ids(1)]),
            lambda: registry.record([changed], [table]),
            lambda: registry.record([{"do": "pause", "qids": [1]}]),
        ],
    )

    again = Registry.open(files)
    if found[0] == []:  # it may also have come last
        assert again.population.find(1) is None
        assert again.population.n_rows == 0
        assert again.population.paused == set()


@pytest.mark.parametrize(
    "error", [StoreFullError("no room"), OSError("broken"), KeyboardInterrupt()]
)
def test_if_an_entry_cannot_be_written_every_caller_is_told_and_nothing_has_changed(
    error: BaseException,
) -> None:
    files, root, registry = grouped()
    root.error = error

    calls = [lambda: registry.record([add("a")]), lambda: registry.record([add("b")])]
    found = together(root, registry, calls)

    assert all(isinstance(each, StoreError | OSError | KeyboardInterrupt) for each in found)
    assert names(registry.catalog) == names(Registry.open(files).catalog) == ["trades", "first"]
    root.error = None
    registry.record([add("a")])
    assert names(Registry.open(files).catalog) == ["trades", "first", "a"]


def test_a_snapshot_holds_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Index files with who is dead in them, fresh rows, names, who is paused, and generations."""
    monkeypatch.setattr(log, "EVERY", 1_000)
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([add_stream(), add("quotes"), add_feed("alerts", above(0.0), "shared")])
    ask_many(registry, "alerts", above(1.0), above(2.0), above(3.0), names=["one", "two", "three"])
    registry.publish({})
    ask(registry, "big", above(9.0), keep=7)
    registry.record([{"do": "drop queries", "rows": 0}], [ids(2)])
    registry.record([{"do": "pause", "qids": [1, 4]}, {"do": "resume", "qids": [4]}])
    monkeypatch.setattr(log, "EVERY", 1)
    ask_many(registry, "alerts", above(5.0))
    (snapshot,) = root.list(f"{SNAPSHOTS}/")
    for entry in root.list(f"{CHANGES}/"):
        root.delete(entry.name)

    again = Registry.open(root)

    assert again.catalog == registry.catalog
    assert again.population.names == {"one": 1, "three": 3, "big": 4}
    assert (again.population.paused, again.population.generations) == ({1}, {4: 1})
    assert again.population.n_rows == 4
    found = {qid: again.population.find(qid) for qid in range(1, 6)}
    assert {qid: each and each[1]["p0"] for qid, each in found.items()} == {
        1: 1.0, 2: None, 3: 3.0, 4: 9.0, 5: 5.0,
    }  # fmt: skip
    assert again.catalog.feed("big").keep == 7
    again.record([{"do": "drop queries", "rows": 0}], [ids(1, 5)])
    assert again.population.n_rows == 2
    assert snapshot.name in {entry.name for entry in root.list("")}


@pytest.mark.parametrize("gone", [False, True])
def test_a_snapshot_whose_index_file_is_damaged_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, *, gone: bool
) -> None:
    monkeypatch.setattr(log, "EVERY", 1_000)
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([add_stream(), add_feed("alerts", above(0.0), "shared")])
    ask_many(registry, "alerts", above(1.0))
    registry.publish({})
    monkeypatch.setattr(log, "EVERY", 1)
    registry.record([add("quotes")])
    (index,) = root.list("queries/")
    if gone:
        root.delete(index.name)
    else:
        root.put(index.name, root.get(index.name)[:100])

    again = Registry.open(root)  # the log is still there

    assert again.catalog == registry.catalog
    assert again.population.find(1) is not None
    for entry in root.list(f"{CHANGES}/"):
        root.delete(entry.name)
    with pytest.raises(StoreError, match=index.name):
        Registry.open(root)
