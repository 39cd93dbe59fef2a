"""Rows that would stop a stream if they were not set aside, and rows that come very late."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import millrace
from millrace.connectors.decode import whole_file
from millrace.errors import OutageError, SchemaError
from millrace.state.memory_root import MemoryRoot
from millrace.time import DAY, ManualClock

STAMP = pa.timestamp("us", tz="UTC")


def session_on(schema: str, clock: ManualClock) -> millrace.Session:
    session = millrace.Session(MemoryRoot(), clock=clock, threads=False)
    session.stream("s", millrace.Feed(schema), time="ts")
    session.query(millrace.select("s"), name="all")
    return session


def test_a_value_out_of_range_is_a_dead_letter_and_its_neighbours_are_not() -> None:
    session = session_on("n int, ts timestamp", ManualClock(start=DAY))
    run = session.start()

    rows = {"n": pa.array([1, 2**40, 3]), "ts": pa.array([1, 2, 3], STAMP)}
    done = run.feed(s=pa.table(rows))  # type: ignore[attr-defined]

    assert (done.rows, done.dead, done.results) == (3, 1, 2)
    [letter] = session.dead_letters().to_pylist()
    assert letter["position"] == 1
    assert "1099511627776 is outside the range of int" in letter["reason"]


def test_a_dead_row_with_a_time_beyond_the_calendar_is_still_kept() -> None:
    session = session_on("other timestamp, ts timestamp", ManualClock(start=DAY))
    run = session.start()

    rows = {"other": pa.array([2**60], STAMP), "ts": pa.array([None], STAMP)}
    run.feed(s=pa.table(rows))  # type: ignore[attr-defined]

    [letter] = session.dead_letters().to_pylist()
    assert str(2**60) in letter["raw"].decode()


def test_rows_that_come_very_late_are_kept_from_when_they_came() -> None:
    clock = ManualClock(start=20_000 * DAY)
    session = session_on("n bigint, ts timestamp", clock)
    run = session.start()

    for number, day in enumerate([100, 90, 99, 10_000, 102]):
        rows = {"n": [number], "ts": pa.array([day * DAY], STAMP)}
        run.feed(s=pa.table(rows))  # type: ignore[attr-defined]
        clock.advance("1 s")

    assert session.late_rows("s")["n"].to_pylist() == [1, 2, 4]

    clock.advance("8 days")
    run.feed()  # type: ignore[attr-defined]
    assert session.late_rows("s").num_rows == 0


def test_a_binary_partition_column_is_refused() -> None:
    session = millrace.Session(MemoryRoot(), threads=False)

    with pytest.raises(SchemaError, match='partition column "p" of stream "s" is binary'):
        session.stream(
            "s", millrace.Feed("p binary, o bigint, ts timestamp"), time="ts", partition="p",
            order="o",
        )  # fmt: skip


def test_a_passing_fault_of_the_disk_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_path: object) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(Path, "stat", broken)
    with pytest.raises(OutageError, match="cannot be read now"):
        whole_file(str(tmp_path / "x.ndjson"))
