"""Lines of a graph are read from what a query answers, by the types of its columns."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.server.console.graphs import GRAPHS, MOST_LINES, lines_of, newest_of, series_of
from millrace.session.telling import tell_of_itself
from millrace.state.memory_root import MemoryRoot

SECOND = datetime(2026, 1, 1, tzinfo=UTC)


def answer(**columns: list[object]) -> pa.Table:
    n_rows = len(next(iter(columns.values())))
    times = pa.array([SECOND.replace(second=each) for each in range(n_rows)],
                     pa.timestamp("us", tz="UTC"))  # fmt: skip
    return pa.table({"ts": times, **columns})


def test_texts_tell_lines_apart_and_the_last_number_counts() -> None:
    lines = lines_of(answer(name=["a", "b", "a"], epoch=[7, 8, 9], fval=[1.0, 2.0, None]))

    begin = int(SECOND.timestamp() * 1_000)
    assert lines == {"a": [(begin, 1.0)], "b": [(begin + 1_000, 2.0)]}


def test_without_texts_there_is_one_line() -> None:
    assert list(lines_of(answer(fval=[1, 2]))) == [""]


@pytest.mark.parametrize("columns", [{"name": ["a"]}, {"_epoch": [3]}])
def test_what_has_no_number_has_no_lines(columns: dict[str, list[object]]) -> None:
    assert lines_of(answer(**columns)) == {}


def test_what_has_no_time_has_no_lines() -> None:
    assert lines_of(pa.table({"n": [1, 2]})) == {}


def test_the_newest_instant_is_exact() -> None:
    at = pa.array([1_000_001, 1_000_003], pa.timestamp("us", tz="UTC"))

    assert newest_of(pa.table({"ts": at, "n": [1, 2]})) == 1_000_003


def test_of_many_lines_the_highest_are_drawn() -> None:
    lines = {f"line {n:02}": [(0, 1.0), (1, float(n))] for n in range(20)}

    drawn = [each["name"] for each in series_of(lines)]

    assert drawn == [f"line {n:02}" for n in range(20 - MOST_LINES, 20)]


def test_every_graph_is_a_query_that_can_stand_and_answers() -> None:
    with millrace.Session(MemoryRoot(), threads=False) as session:
        session.stream("trades", millrace.Feed("symbol text, ts timestamp"), time="ts")
        tell_of_itself(session)
        session.query("SELECT symbol, count(*) AS n FROM trades [ROWS 3] GROUP BY symbol", name="c")
        session.sink(millrace.MemorySink())
        kept = {each.key: session.query(each.text, name=each.key) for each in GRAPHS.values()}
        run = session.start()
        assert isinstance(run, LocalRun)
        for _ in range(3):
            telling = session.engine.sysstream
            assert telling is not None
            telling._told_at = 0  # no waiting for seconds
            telling.gateways = {"gateway 1": {"rate": 2.0}}
            run.feed(trades=[{"symbol": "A", "ts": datetime.now(UTC)}])
        run.nudge()

        for key, query in kept.items():
            assert lines_of(query.results().drop_columns(["_time"])), key
