"""SysStream: who listens hears, nobody else is disturbed, and it does not feed itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.sysstream import NAME
from millrace.errors import PlanError, StoreFullError
from millrace.session.telling import tell_of_itself
from millrace.state.memory_root import MemoryRoot
from millrace.time import HOUR, SECOND

TRADES = "symbol text, price double, ts timestamp"
DEAR = "SELECT symbol, count(*) AS n FROM trades [RANGE 10 SECONDS] GROUP BY symbol"


class Hand:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.at = 1_800_000_000 * SECOND

    def now(self) -> int:
        return self.at


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def session(clock: Hand) -> Iterator[millrace.Session]:
    with millrace.Session(MemoryRoot(), threads=False, clock=clock) as made:
        made.stream("trades", millrace.Feed(TRADES), time="ts")
        made.query("SELECT symbol FROM trades WHERE price > 0", name="cheap")
        made.query(DEAR, name="counts")
        made.table("limits", "symbol text").insert([{"symbol": "S0"}])
        yield made


def started(session: millrace.Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def trades(clock: Hand, n_rows: int = 3) -> list[dict[str, object]]:
    at = datetime.fromtimestamp(clock.at / SECOND, UTC)
    return [{"symbol": f"S{each}", "price": float(each), "ts": at} for each in range(n_rows)]


def pushed(run: LocalRun, clock: Hand, n_epochs: int, *, seconds: float = 1.0) -> None:
    for _ in range(n_epochs):
        clock.at += int(seconds * SECOND)
        run.feed(trades=trades(clock))


def told(session: millrace.Session) -> list[dict[str, Any]]:
    return [dict(each) for each in session.history(NAME).to_pylist()]


def test_nothing_is_told_while_nobody_listens(session: millrace.Session, clock: Hand) -> None:
    tell_of_itself(session)
    pushed(started(session), clock, 5)

    assert told(session) == []


def test_a_query_that_reads_it_hears_of_streams_operators_stores_and_the_engine(
    session: millrace.Session, clock: Hand
) -> None:
    tell_of_itself(session)
    rates = "SELECT name, fval FROM sysstream WHERE type = 'stream' AND property = 'rate'"
    query = session.query(rates, name="rates")
    pushed(started(session), clock, 4)

    answers = [row for row in query.results().to_pylist() if row["name"] == "trades"]
    assert [row["fval"] for row in answers] == [3.0, 3.0, 3.0]  # the fourth waits for an epoch
    types = {row["type"] for row in told(session)}
    parts = {"index", "family", "table", "operator", "store"}
    assert types == {"stream", "query", "epoch", "engine", *parts}
    last = {(row["type"], row["name"], row["property"]): row for row in told(session)}
    assert last["engine", "engine", "queries"]["ival"] == 3
    assert last["query", "cheap", "results"]["ival"] == 2
    assert last["operator", "aggregate r1", "rows_in"]["query"] == "counts"
    assert last["operator", "aggregate r1", "state_bytes"]["ival"] > 0


def test_an_index_a_family_and_a_table_tell_what_passes_them_and_what_they_hold(
    session: millrace.Session, clock: Hand
) -> None:
    session.query("SELECT price FROM trades WHERE price > 1000", name="never")
    telling, run = tell_of_itself(session), started(session)
    telling.ask(clock.now())
    pushed(run, clock, 3)
    session.standing_table("limits").insert([{"symbol": "S1"}, {"symbol": "S1"}])
    session.standing_table("limits").delete("symbol = 'S0'")
    pushed(run, clock, 2)

    rows = sorted(told(session), key=lambda row: row["ts"])
    last = {(row["type"], row["name"], row["property"]): row for row in rows}
    assert last["index", "trades", "rows"]["ival"] == 3
    assert last["index", "trades", "selectivity"]["fval"] == pytest.approx(2 / 3)
    assert last["index", "trades", "seconds"]["fval"] > 0
    assert last["index", "trades", "bytes"]["ival"] > 100
    families = {row["query"]: name for (kind, name, _), row in last.items() if kind == "family"}
    assert families.keys() == {"cheap", "never"}
    assert last["family", families["cheap"], "results"]["ival"] == 2
    assert last["family", families["cheap"], "selectivity"]["fval"] == pytest.approx(2 / 3)
    assert last["family", families["never"], "rate"]["fval"] == 0  # or a graph would not end at 0
    assert last["table", "limits", "rows"]["ival"] == 2
    assert ("index", NAME, "rows") not in last


def test_who_asks_first_is_given_the_past(session: millrace.Session, clock: Hand) -> None:
    telling, run = tell_of_itself(session), started(session)
    pushed(run, clock, 10)

    telling.ask(clock.now())
    pushed(run, clock, 2)

    epochs = [row for row in told(session) if (row["type"], row["property"]) == ("epoch", "rows")]
    assert [row["ival"] for row in epochs] == [3] * 11
    assert len({row["ts"] for row in epochs}) == 11


def test_a_server_tells_a_little_while_nobody_listens_and_all_when_somebody_does(
    session: millrace.Session, clock: Hand
) -> None:
    telling, run = tell_of_itself(session, unheard=5 * SECOND), started(session)
    pushed(run, clock, 42, seconds=0.5)

    quiet = told(session)
    assert {row["type"] for row in quiet} == {"stream", "epoch", "engine"}
    assert len({row["ts"] for row in quiet}) == 5  # the first at once
    rates = [
        row["fval"]
        for row in sorted(quiet, key=lambda row: row["ts"])
        if (row["type"], row["property"]) == ("stream", "rate")
    ]
    assert rates[-1] == pytest.approx(6.0)

    telling.ask(clock.now())
    pushed(run, clock, 8, seconds=0.5)
    rows = [row for row in told(session) if (row["type"], row["property"]) == ("epoch", "rows")]
    assert {"operator", "store", "index"} <= {row["type"] for row in told(session)}
    assert len(rows) > 6
    assert sum(row["ival"] for row in rows) == 3 * 49  # the last has still to be told


def test_a_server_without_rows_does_not_grow(session: millrace.Session, clock: Hand) -> None:
    tell_of_itself(session, unheard=5 * SECOND)
    run = started(session)
    pushed(run, clock, 3)
    run.nudge()
    before = told(session)
    assert before

    for _ in range(20):
        clock.at += 60 * SECOND
        run.nudge()

    assert told(session) == before


def test_it_goes_on_for_an_hour_after_it_was_asked(session: millrace.Session, clock: Hand) -> None:
    telling, run = tell_of_itself(session), started(session)
    telling.ask(clock.now())
    pushed(run, clock, 3)
    before = len(told(session))
    assert before

    clock.at += HOUR
    pushed(run, clock, 3)

    assert not [row for row in told(session) if row["ts"].timestamp() > clock.at / SECOND - 60]


def test_it_is_told_at_most_once_a_second(session: millrace.Session, clock: Hand) -> None:
    telling, run = tell_of_itself(session), started(session)
    telling.ask(clock.now())
    pushed(run, clock, 40, seconds=0.1)

    counts = [row for row in told(session) if (row["type"], row["property"]) == ("epoch", "n")]
    assert len(counts) in (3, 4)
    assert sum(row["ival"] for row in counts) <= 40


def test_a_rate_is_over_a_second_or_more_and_never_over_a_moment(
    session: millrace.Session, clock: Hand
) -> None:
    telling, run = tell_of_itself(session), started(session)
    pushed(run, clock, 1)
    telling.ask(clock.now())
    for seconds in (0.1, 0.5, 0.55) * 12:
        pushed(run, clock, 1, seconds=seconds)

    wanted = "stream", "trades", "rate"
    rows = told(session)
    rates = [row["fval"] for row in rows if (row["type"], row["name"], row["property"]) == wanted]
    assert len(rates) >= 8
    assert 5.5 < min(rates[2:]) <= max(rates) < 9  # 9 rows in 1.15 s, or 6 in 1.05 s


def test_it_does_not_feed_itself(session: millrace.Session, clock: Hand) -> None:
    telling, run = tell_of_itself(session), started(session)
    telling.ask(clock.now())
    pushed(run, clock, 3)
    run.nudge()
    quiet = len(told(session))

    for _ in range(5):
        clock.at += 2 * SECOND
        run.nudge()

    assert len(told(session)) == quiet


def test_answers_are_the_same_with_and_without_it(clock: Hand) -> None:
    answers, counts = [], []
    for telling in (False, True):
        with millrace.Session(MemoryRoot(), threads=False, clock=Hand()) as session:
            session.stream("trades", millrace.Feed(TRADES), time="ts")
            queries = [session.query(DEAR, name="counts"), session.query("SELECT * FROM trades")]
            if telling:
                tell_of_itself(session).ask(clock.now())
            pushed(started(session), Hand(), 6)
            answers.append([each.results().to_pylist() for each in queries])

            counts.append(session.engine.manifest.facts["counts"])

    assert answers[0] == answers[1]
    assert answers[0][1]
    assert counts[0] == counts[1]


def test_a_session_that_opens_the_root_again_goes_on_telling(clock: Hand) -> None:
    root = MemoryRoot()
    with millrace.Session(root, threads=False, clock=clock) as first:
        tell_of_itself(first)

    with millrace.Session(root, threads=False, clock=clock) as second:
        second.start()
        assert second.engine.sysstream is not None


def test_an_epoch_does_not_fail_because_nothing_could_be_told(
    session: millrace.Session, clock: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: object) -> None:
        raise StoreFullError("the disk is full")

    telling, run = tell_of_itself(session), started(session)
    telling.deliver = full
    telling.ask(clock.now())
    pushed(run, clock, 3)

    assert run.feed(trades=trades(clock)).rows == 3
    assert "sysstream not told: the disk is full" in caplog.text


def test_it_is_not_dropped(session: millrace.Session) -> None:
    tell_of_itself(session)

    with pytest.raises(PlanError, match='stream name "sysstream" is reserved'):
        session.drop_stream(NAME)


def test_its_name_is_reserved(session: millrace.Session) -> None:
    with pytest.raises(PlanError, match='stream name "SysStream" is reserved'):
        session.stream("SysStream", millrace.Feed(TRADES), time="ts")
