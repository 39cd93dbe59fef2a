"""EXPLAIN ANALYZE: rows in and out of each operator, what stores hold, and whom it is asked of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.errors import PlanError
from millrace.state.memory_root import MemoryRoot

TRADES = "symbol text, price double, ts timestamp"
DEAR = """\
SELECT symbol, count(*) AS n FROM trades [RANGE 10 SECONDS] WHERE price > 1 GROUP BY symbol"""
SHARDS = {
    "together": Settings(spread="never"),
    "one shard": Settings(shards=1, spread="always"),
    "two shards": Settings(shards=2, spread="always"),
}


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def rows(*seconds: int) -> list[dict[str, object]]:
    return [
        {"symbol": f"S{second % 4}", "price": float(second % 3), "ts": at(second)}
        for second in seconds
    ]


@pytest.fixture(params=SHARDS)
def session(request: pytest.FixtureRequest) -> Iterator[millrace.Session]:
    settings = SHARDS[request.param]
    with millrace.Session(MemoryRoot(), threads=False, settings=settings) as made:
        made.stream("trades", millrace.Feed(TRADES), time="ts")
        yield made


def fed(session: millrace.Session, *epochs: range) -> None:
    run = session.start()
    assert isinstance(run, LocalRun)
    for each in epochs:
        run.feed(trades=rows(*each))


def explained(session: millrace.Session, statement: str) -> str:
    [outcome] = session.execute(statement)
    return outcome.message


def flows(text: str) -> dict[str, list[str]]:
    """Return rows in and out, in all epochs and in the last one, by operator."""
    found = {}
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.removeprefix("plan").strip())
        if len(cells) >= 7 and cells[0][0].isdigit():
            found[cells[-1].partition(" ")[0]] = [*cells[:2], *cells[3:5]]
    return found


def test_rows_in_and_out_are_counted(session: millrace.Session) -> None:
    query = session.query(DEAR, name="dear")
    fed(session, range(12), range(12, 18))  # what is before 17 is complete; every third is dear

    assert flows(query.explain(analyze=True)) == {
        "seq-window": ["17", "17", "6", "6"],
        "select": ["17", "5", "6", "2"],
        "aggregate": ["7", "7", "4", "4"],  # three groups; then two come, and two are seen to go
        "project": ["7", "7", "4", "4"],
        "istream": ["7", "5", "4", "2"],
        "dstream": ["7", "2", "4", "2"],
    }


def test_the_text_is_the_name_of_a_query_that_asks_the_same(session: millrace.Session) -> None:
    session.query(DEAR, name="dear")
    session.query("SELECT symbol FROM trades WHERE price > 1", name="plain")
    fed(session, range(3))
    same = DEAR.replace("10 SECONDS", "INTERVAL '10' SECOND")

    assert explained(session, f"EXPLAIN ANALYZE {same}") == explained(
        session, "EXPLAIN ANALYZE QUERY dear"
    )
    plain = explained(session, "EXPLAIN ANALYZE SELECT symbol FROM trades WHERE price > 1")
    assert "answers  1 rows in the last 1 epochs" in plain
    for other in (DEAR.replace("10", "11"), "SELECT symbol FROM trades WHERE price > 2"):
        with pytest.raises(PlanError, match="no standing query asks this") as refused:
            session.execute(f"EXPLAIN ANALYZE {other}")
        assert refused.value.hint == "Register it with CREATE QUERY, or leave ANALYZE out."


def test_what_is_shared_is_computed_and_shown_once(session: millrace.Session) -> None:
    asked = "SELECT symbol FROM trades [RANGE 10 SECONDS] t WHERE price > (SELECT avg(price) FROM "
    query = session.query(f"{asked} trades [RANGE 5 SECONDS] u)", name="above")
    fed(session, range(12), range(12, 18))
    text = query.explain(analyze=True)

    assert flows(text)["istream"][0] == flows(text)["dstream"][0]
    assert len([line for line in text.splitlines() if "aggregate: avg(u.price)" in line]) == 1


def test_stores_are_told_with_what_they_hold_and_how_much(session: millrace.Session) -> None:
    query = session.query(DEAR, name="dear")

    words = "about 52 bytes a row, for the groups of the rows of trades of the last 10 seconds"
    assert f"r2.all.n.counts  {words}\n" in query.explain()
    fed(session, range(12), range(12, 18))
    [line] = [each for each in query.explain().splitlines() if "r2.all.n.counts" in each]
    found = re.search(r": about (\d+) rows, (\d+) B; now (\d+) rows, (\d+) B$", line)
    assert found is not None
    n_expected, n_bytes, n_now, _ = map(int, found.groups())
    assert (n_expected, n_bytes) == (10, 520)  # a row a second
    assert 3 <= n_now <= 8  # not all are folded yet


def test_shards_are_told_apart() -> None:
    settings = Settings(shards=2, spread="always")
    with millrace.Session(MemoryRoot(), threads=False, settings=settings) as session:
        session.stream("trades", millrace.Feed(TRADES), time="ts")
        query = session.query(DEAR, name="dear")
        fed(session, range(12), range(12, 18))

        [line] = [
            each for each in query.explain(analyze=True).splitlines() if each.startswith("shards")
        ]
    assert re.fullmatch(
        r"shards   0: \d+ rows, \d\.\d{3} s; 1: \d+ rows, \d\.\d{3} s; "
        r"the busiest has \d\.\d times the mean",
        line,
    )


def test_before_the_first_epoch_there_is_nothing_to_tell(session: millrace.Session) -> None:
    query = session.query(DEAR, name="dear")

    text = query.explain(analyze=True)

    assert "work     none yet: no epoch has moved the query on since this engine started" in text
    assert text.startswith(query.explain().split("\nruns ")[0])


def test_a_query_that_failed_says_so(session: millrace.Session) -> None:
    query = session.query(
        "SELECT symbol, (SELECT price FROM trades [ROWS 2] u) AS other FROM trades [ROWS 1] t",
        name="several",
    )
    fed(session, range(5), range(5, 9))

    assert "state    suspended: a subquery that stands for one value" in query.explain(analyze=True)


def test_what_one_operator_does_at_once_is_told_of_that_one(session: millrace.Session) -> None:
    session.execute(
        "CREATE QUERY TEMPLATE sized (size bigint) AS SELECT RSTREAM(symbol, count(*) AS n) "
        "EVERY 5 SECONDS FROM trades [RANGE :size] GROUP BY symbol; "
        "INSERT INTO sized VALUES (5000000), (7000000)"
    )
    fed(session, range(12), range(12, 18))

    text = explained(session, "EXPLAIN ANALYZE QUERY sized")

    assert flows(text) == {"rstream": ["17", "26", "6", "8"]}  # one symbol at 0, then all four
    assert "s0.queries    about 56 bytes a row, for the queries that share the plan; now 2" in text
    assert "s0.panes.due  about 68 bytes a row, for the panes of the widest window" in text
    assert "panes    elements are added up once for all queries, by pane, cell and group" in text
    assert "         2 different windows: panes of 1 second, 7 in the widest" in text


def test_stages_of_a_plan_are_added_up(session: millrace.Session) -> None:
    counts = "SELECT symbol, count(*) AS n FROM trades [RANGE 10 SECONDS] GROUP BY symbol"
    query = session.query(f"SELECT n, count(*) AS symbols FROM ({counts}) GROUP BY n", name="crowd")
    fed(session, range(12), range(12, 18))

    found = flows(query.explain(analyze=True))

    assert found["seq-window"] == ["17", "17", "6", "6"]
    assert found["hop"][0] == found["hop"][1] == found["project"][1]
