"""Two engines on one root whose lock is broken: the older one stops, the data is of one history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace import failpoints
from millrace.errors import FencedError
from millrace.state.run_store import load_manifest
from millrace.testing.harness import (
    Process,
    Record,
    check_sound,
    conditions,
    contents,
    differences,
    fill,
)
from millrace.testing.mortal_root import copied

Places = Callable[[], Path]


QUICK = ("log.after", "step.written", "commit.before", "deliver.promised")


@pytest.mark.parametrize(
    "point",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow)
     for each in failpoints.POINTS if not each.startswith("hop.")],
)  # fmt: skip
def test_the_older_engine_stops_wherever_the_newer_one_comes_in(
    spread_record: Record, point: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the older is at the point, the newer opens the root and runs the same epoch."""
    record, directory = spread_record, places()
    epoch = record.passings[point][len(record.passings[point]) // 2][0]
    files, delivered = record.before[epoch]
    files = copied(files)
    fill(directory, delivered)
    newer: list[Process] = []

    def meanwhile(_point: str) -> None:
        newer.append(Process(record.scenario, record.how, files, directory, epoch))
        newer[0].step(epoch)
        newer[0].step(epoch + 1)

    monkeypatch.setitem(failpoints.ACTIONS, "meanwhile", meanwhile)
    with conditions(record.how):
        older = Process(record.scenario, record.how, files, directory, max(epoch - 1, 0))
        failpoints.arm(point, "meanwhile")
        stopped = pytest.raises(FencedError)
        with stopped:
            older.step(epoch)
            older.step(epoch + 1)
        assert newer, "the point was reached"
        with stopped:
            older.session.change({"do": "drop feed", "name": "all"})
        for each in range(epoch + 2, epoch + 5):
            if each < record.scenario.n_epochs:
                newer[0].step(each)

    last = min(epoch + 4, record.scenario.n_epochs - 1)
    assert not differences(newer[0].observe(), record.after[last])
    expected = {
        name: data for name, data in record.delivered.items() if name in contents(directory)
    }
    assert not differences(contents(directory), expected)
    check_sound(files, snapshots_too=False)


def test_an_older_engine_delivers_nothing_more(spread_record: Record, places: Places) -> None:
    """Its sink would be due; the cursor belongs to the newer engine."""
    record, directory = spread_record, places()
    files = copied(record.before[4][0])
    fill(directory, record.before[4][1])
    with conditions(record.how):
        older = Process(record.scenario, record.how, files, directory, 4)
        older.engine.delivery.pump()
        newer = Process(record.scenario, record.how, files, directory, 4)
        newer.step(4)

        with pytest.raises(FencedError):
            older.engine.delivery.drain(0)

    assert {each.state for each in newer.session.sinks()} == {"running"}
    assert contents(directory) == {
        name: data for name, data in record.delivered.items() if name in contents(directory)
    }


def test_an_older_engine_commits_nothing_once_a_newer_one_has_come(
    spread_record: Record, places: Places
) -> None:
    """Not even an epoch that the newer one has not begun."""
    record, directory = spread_record, places()
    files = copied(record.before[4][0])
    fill(directory, record.before[4][1])
    with conditions(record.how):
        older = Process(record.scenario, record.how, files, directory, 4)
        newer = Process(record.scenario, record.how, files, directory, 4)

        with pytest.raises(FencedError, match="has been taken over"):
            older.step(4)

        assert newer.engine.manifest.epoch == load_manifest(files).epoch == 3
        newer.step(4)
        assert not differences(newer.observe(), record.after[4])
