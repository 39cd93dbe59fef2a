"""The life of a standing plan: registered, paused, suspended, resumed, dropped, found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.errors import NameTakenError, PlanError
from millrace.time import ManualClock

COLUMNS = "symbol text, price double, ts timestamp"
TOTALS = "SELECT symbol, sum(price) AS total FROM trades [RANGE 10 us] GROUP BY symbol"
COUNT = "SELECT count(*) AS n FROM trades [RANGE 100 us]"


def opened(root: Path) -> millrace.Session:
    session = millrace.Session(root)
    session.function("careful", careful, returns="double")
    session.stream("trades", millrace.Feed(COLUMNS), time="ts")
    return session


def careful(values: pa.Array) -> pa.Array:
    if pc.any(pc.less(values, 0.0)).as_py():
        message = "a negative price"
        raise ValueError(message)
    return values


def started(session: millrace.Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def rows(*some: tuple[str, float, int]) -> pa.Table:
    symbols, prices, times = zip(*some, strict=True)
    stamps = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"symbol": symbols, "price": prices, "ts": stamps})


def told(query: millrace.Query) -> list[tuple[Any, ...]]:
    table = query.results()
    names = [name for name in table.column_names if name not in ("_late", "_epoch", "_query")]
    found = []
    for row in table.select(names).to_pylist():
        at = round(row.pop("_time").timestamp() * 1e6)
        found.append((at, *row.values()))
    return found


def test_a_relation_tells_what_comes_and_what_goes(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        query, run = session.query(TOTALS, name="totals"), started(session)
        run.feed(trades=rows(("a", 1.0, 5), ("a", 2.0, 7)))
        assert told(query) == [(5, 1, "a", 1.0)]
        run.feed(trades=rows(("b", 4.0, 30)))
        assert told(query)[1:] == [
            (7, -1, "a", 1.0), (7, 1, "a", 3.0), (16, -1, "a", 3.0), (16, 1, "a", 2.0),
            (18, -1, "a", 2.0),
        ]  # fmt: skip


def test_a_plan_goes_on_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        session.query(COUNT, name="n")
        started(session).feed(trades=rows(("a", 1.0, 5), ("b", 2.0, 9)))
    with opened(tmp_path) as session:
        query = session.query(COUNT, name="n")
        started(session).feed(trades=rows(("c", 4.0, 20), ("c", 4.0, 21)))
        assert told(query) == [(5, 1, 1), (9, -1, 1), (9, 1, 2), (20, -1, 2), (20, 1, 3)]


def test_a_plan_sees_what_comes_after_it_was_registered(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        run = started(session)
        run.feed(trades=rows(("a", 1.0, 5), ("a", 1.0, 9)))
        query = session.query(COUNT, name="n")
        run.feed(trades=rows(("a", 1.0, 12), ("a", 1.0, 15)))
        assert told(query) == [(9, 1, 0), (12, -1, 0), (12, 1, 1)]


def test_a_paused_plan_is_silent_and_up_to_date_when_it_is_resumed(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        query, run = session.query(COUNT, name="n"), started(session)
        run.feed(trades=rows(("a", 1.0, 5), ("a", 1.0, 6)))
        query.pause()
        run.feed(trades=rows(("a", 1.0, 7), ("a", 1.0, 8)))
        query.resume()
        run.feed(trades=rows(("a", 1.0, 9), ("a", 1.0, 10)))
        assert told(query) == [(5, 1, 1), (8, -1, 3), (8, 1, 4), (9, -1, 4), (9, 1, 5)]


def test_a_plan_that_fails_is_suspended_and_begins_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        text = "SELECT sum(careful(price)) AS total FROM trades [RANGE 100 us]"
        query, other = session.query(text, name="q"), session.query(COUNT, name="n")
        run = started(session)
        run.feed(trades=rows(("a", 1.0, 5), ("a", -1.0, 6), ("a", 2.0, 7)))
        assert query.failure is not None
        assert "negative" in str(query.failure)
        assert told(query) == []
        assert told(other) == [(5, 1, 1), (6, -1, 1), (6, 1, 2)]
        query.resume()
        run.feed(trades=rows(("a", 8.0, 8), ("a", 0.0, 9)))
        assert query.failure is None
        assert told(query) == [(7, 1, None), (8, -1, None), (8, 1, 8.0)]


def test_a_dropped_plan_leaves_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        query, run = session.query(TOTALS, name="totals"), started(session)
        run.feed(trades=rows(("a", 1.0, 5), ("a", 2.0, 7)))
        query.drop()
        run.feed(trades=rows(("a", 1.0, 8)))
        stores = session.engine.manifest.stores
        assert not [each for each in stores if each.startswith(("state/", "elements/"))]
        again = session.query(COUNT, name="totals")
        run.feed(trades=rows(("a", 1.0, 9)))
        assert told(again)[-1] == (8, 1, 0)


def test_the_same_text_is_the_same_query_and_another_is_not(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        assert session.query(TOTALS, name="q").id == session.query(TOTALS, name="q").id
        with pytest.raises(NameTakenError, match='"q" exists already'):
            session.query(COUNT, name="q")


def test_what_remembers_every_row_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    with opened(tmp_path) as session:
        text = "SELECT a.symbol FROM trades a JOIN trades b ON a.symbol = b.symbol"
        with pytest.raises(PlanError, match="more and more") as refused:
            session.query(text, name="pairs")
        assert refused.value.detail == 'The join remembers every row of "trades".'
        assert "unbounded" in refused.value.hint
        session.query(text, name="pairs", unbounded=True)


def test_rows_leave_a_window_though_nothing_comes(tmp_path: Path) -> None:
    """A stream that is silent for longer than `idle` goes on in time as the clock does."""
    clock = ManualClock(start=1_000)
    with millrace.Session(tmp_path, clock=clock) as session:
        session.stream("trades", millrace.Feed(COLUMNS), time="ts", idle="5 us")
        query, run = session.query(TOTALS, name="totals"), started(session)
        run.feed(trades=rows(("a", 1.0, 5), ("a", 2.0, 7)))
        clock.set(1_008)  # 8 us later, 3 of them beyond `idle`: it is 10
        run.feed()
        assert told(query)[1:] == [(7, -1, "a", 1.0), (7, 1, "a", 3.0)]
        clock.set(1_015)  # 17
        run.feed()
        assert told(query)[3:] == [(16, -1, "a", 3.0), (16, 1, "a", 2.0)]
        run.feed(trades=rows(("a", 4.0, 16), ("a", 8.0, 40)))  # the first is late by now
        assert told(query)[5:] == [(18, -1, "a", 2.0)]
        assert session.late_rows("trades").num_rows == 1
