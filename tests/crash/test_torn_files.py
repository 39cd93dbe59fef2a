"""The newest file of each kind is torn, as by a crash of a disk that lied about syncing.

Either somebody says so, naming the file, or it does not matter. Nothing is read as data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace import failpoints
from millrace.errors import CorruptionError, MillraceError, StoreError
from millrace.failpoints import InjectedCrash
from millrace.state.memory_root import MemoryRoot
from millrace.testing.harness import Process, Record, conditions, contents, differences, fill
from millrace.testing.mortal_root import copied

Places = Callable[[], Path]

EPOCH = 13
DETECTED = ("commits/", "registry/", "epochs/", "catalogs/", "queries/")
HARMLESS = ("runs/", "snapshots/", "registry-snapshots/", "terms/")


def torn(record: Record, prefix: str, share: float, directory: Path) -> tuple[MemoryRoot, str]:
    """Tear the newest file of a kind in a root whose last engine died in the middle of an epoch."""
    files = copied(record.before[EPOCH][0])
    fill(directory, record.before[EPOCH][1])
    with conditions(record.how):
        process = Process(record.scenario, record.how, files, directory, EPOCH)
        failpoints.arm("receipts.after", "raise")
        with pytest.raises(InjectedCrash):
            process.step(EPOCH)
    process.die()
    failpoints.disarm()
    newest = files.list(prefix)[-1].name
    whole = files.get(newest)
    files.put(newest, whole[: int(len(whole) * share)])
    return files, newest


def go_on(record: Record, files: MemoryRoot, directory: Path) -> Process:
    with conditions(record.how):
        process = Process(record.scenario, record.how, files, directory, EPOCH)
        for epoch in range(EPOCH, record.scenario.n_epochs):
            process.step(epoch)
        process.close()
    return process


def check_sink(process: Process) -> None:
    """Raise what the sink has met: nobody else may have read the file so far."""
    for status in process.session.sinks():
        if status.state == "failing":
            raise StoreError(status.error)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("prefix", DETECTED)
def test_a_torn_file_that_matters_is_named(
    spread_record: Record, places: Places, prefix: str, share: float
) -> None:
    files, newest = torn(spread_record, prefix, share, directory := places())

    with pytest.raises(MillraceError) as found:
        check_sink(go_on(spread_record, files, directory))

    assert newest in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize("prefix", HARMLESS)
def test_a_torn_file_that_is_kept_twice_or_written_again_does_not_matter(
    spread_record: Record, places: Places, prefix: str
) -> None:
    files, _ = torn(spread_record, prefix, 0.5, directory := places())

    process = go_on(spread_record, files, directory)

    assert not differences(process.observe(), spread_record.after[-1])
    assert not differences(contents(directory), spread_record.delivered)


def test_a_torn_cursor_stops_its_sink_alone(spread_record: Record, places: Places) -> None:
    record = spread_record
    files, _ = torn(record, "cursors/", 0.5, directory := places())

    process = go_on(record, files, directory)

    assert not differences(process.observe(), record.after[-1])
    running, other, failing = sorted(process.session.sinks(), key=lambda each: each.state)[::-1]
    assert [running.state, other.state, failing.state] == ["running", "running", "failing"]
    assert "CorruptionError" in failing.error
    assert contents(directory).items() <= record.delivered.items()


def test_every_kind_of_file_is_torn_here(spread_record: Record, places: Places) -> None:
    record, directory = spread_record, places()
    files = copied(record.before[EPOCH][0])
    fill(directory, record.before[EPOCH][1])

    kinds = {entry.name.split("/")[0] + "/" for entry in files.list("")}

    assert kinds == {*DETECTED, *HARMLESS, "cursors/"}


def test_a_flipped_byte_in_a_run_is_never_read_as_data(
    spread_record: Record, places: Places
) -> None:
    files = copied(spread_record.before[EPOCH][0])
    newest = files.list("runs/")[-1].name
    data = bytearray(files.get(newest))
    data[70] ^= 1  # in the first section
    files.put(newest, bytes(data))

    with pytest.raises(CorruptionError, match=newest), conditions(spread_record.how):
        Process(spread_record.scenario, spread_record.how, files, places(), EPOCH).observe()
