"""Plans whose rows travel between shards: the same bytes, whatever the shards and the cuts."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millrace
from millrace.engine.chunk import pack_table
from millrace.engine.decision import Decision, attempts
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root

SCHEMA = "k text, v int, x double, ts timestamp"
QUERIES = {
    "regrouped": "SELECT a.v, count(*) AS n, sum(b.x) AS total FROM s [RANGE 6 s] a, "
    "t [RANGE 6 s] b WHERE a.k = b.k GROUP BY a.v",
    "chained": "SELECT a.k, c.k AS other FROM s [RANGE 3 s] a, t [RANGE 3 s] b, s [RANGE 3 s] c "
    "WHERE a.k = b.k AND b.v = c.v",
    "highest": "SELECT max(n) AS n, sum(total) AS total FROM (SELECT k, count(*) AS n, "
    "sum(x) AS total FROM s [RANGE 6 s] GROUP BY k)",
    "leaders": "SELECT k, n FROM (SELECT k, sum(x) AS n FROM s [RANGE 6 s] GROUP BY k) "
    "ORDER BY n DESC LIMIT 2",
    "last": "SELECT k, v FROM ISTREAM(SELECT a.k, a.v FROM s [RANGE 2 s] a, t [RANGE 2 s] b "
    "WHERE a.k = b.k) [ROWS 3] z",
    "shares": "SELECT k, sum(x) / (SELECT sum(x) FROM t [RANGE 6 s]) AS share "
    "FROM s [RANGE 6 s] GROUP BY k",
    "named": "SELECT r.name, count(*) AS n FROM s [RANGE 6 s] JOIN r ON s.k = r.k GROUP BY r.name",
}  # fmt: skip
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
N_SECONDS = 12


def rows(name: str, first: int, stop: int) -> pa.Table:
    """Return a few rows a second, of few values, and doubles that do not add up evenly."""
    drawn = []
    for second in range(first, stop):
        chance = random.Random(f"{name} {second}")
        drawn += [
            {
                "k": chance.choice(["a", "b", "c", "d", None]),
                "v": chance.choice([1, 2, 3, None]),
                "x": chance.choice([0.1, 1e16, -1e16, 3.3, None]),
                "ts": FIRST + timedelta(seconds=second),
            }
            for _ in range(4)
        ]
    return pa.Table.from_pylist(drawn, schema=Schema.of(SCHEMA).to_arrow())


def opened(root: Root, settings: Settings) -> tuple[millrace.Session, LocalRun]:
    session = millrace.Session(root, settings=settings)
    for name in ("s", "t"):
        session.stream(name, millrace.Feed(SCHEMA), time="ts")
    session.table("r", "k text, name text")
    run = session.start()
    assert isinstance(run, LocalRun)
    return session, run


def told(*, shards: list[int], every: int, hops: bool = True) -> dict[str, bytes]:
    """Run all queries, each epoch so many seconds long, with other shards after each restart."""
    root = MemoryRoot()
    for number, n_shards in enumerate(shards):
        settings = Settings(shards=n_shards, spread="always", hops=hops, backoff=0)
        session, run = opened(root, settings)
        if number == 0:
            session.standing_table("r").insert([{"k": each, "name": each * 2} for each in "abb"])
            for name, text in QUERIES.items():
                session.query(text, name=name)
        part = N_SECONDS // len(shards)
        for first in range(number * part, (number + 1) * part, every):
            stop = min(first + every, (number + 1) * part)
            run.feed(s=rows("s", first, stop), t=rows("t", first, stop))
        if number + 1 < len(shards):
            session.close()
    found = {}
    for name in QUERIES:
        query = session.standing(name)
        assert isinstance(query, millrace.Query)
        assert query.failure is None, query.failure
        found[name] = pack_table(query.results().drop_columns(["_epoch"]).combine_chunks())
    session.close()
    return found


def differing(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    return [name for name in expected if found[name] != expected[name]]


@pytest.fixture(scope="module")
def together() -> dict[str, bytes]:
    """What is told where one shard has all rows."""
    found = told(shards=[1], every=2)
    assert all(pa.ipc.open_stream(each).read_all().num_rows > 5 for each in found.values())
    return found


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "shards",
    [[2], pytest.param([7], marks=SLOW), [2, 4, 1, 3]],
    ids=str,
)
def test_the_bytes_do_not_depend_on_shards(shards: list[int], together: dict[str, bytes]) -> None:
    assert differing(told(shards=shards, every=2), together) == []


@pytest.mark.parametrize("every", [pytest.param(1, marks=SLOW), 5])
def test_nor_on_cuts(every: int, together: dict[str, bytes]) -> None:
    assert differing(told(shards=[3], every=every), together) == []


def test_nor_on_whether_rows_may_travel(together: dict[str, bytes]) -> None:
    assert differing(told(shards=[2], every=3, hops=False), together) == []


def hops_of(session: millrace.Session) -> dict[str, int]:
    feeds = session.engine.registry.catalog.plans()
    return {each.name: each.plan.hops for each in feeds if each.plan is not None}


def test_rows_travel_as_often_as_operators_ask_for() -> None:
    session, _ = opened(MemoryRoot(), Settings())
    for name, text in QUERIES.items():
        session.query(text, name=name)

    expected = {"regrouped": 1, "chained": 2, "highest": 1, "leaders": 1, "last": 1, "shares": 1}
    assert hops_of(session) == {**expected, "named": 1}
    session.close()


def test_an_epoch_has_the_stages_that_its_deepest_plan_asks_for() -> None:
    root = MemoryRoot()
    session, run = opened(root, Settings(shards=2, spread="always"))
    for name in ("regrouped", "chained"):
        session.query(QUERIES[name], name=name)
    before = run.feed(s=rows("s", 0, 2), t=rows("t", 0, 2))
    session.standing("chained").drop()
    after = run.feed(s=rows("s", 2, 4), t=rows("t", 2, 4))

    epochs = (before.epoch, after.epoch)
    decided = [Decision.read(root, attempts(root, epoch)[-1]) for epoch in epochs]

    assert [each.n_hops for each in decided] == [2, 1]
    assert replace(decided[0], spread=False).n_hops == 0
    assert replace(decided[0], shards=(0, 1024)).n_hops == 0
    session.close()


def fussy(values: pa.Array) -> pa.Array:
    """Refuse a count that is only reached behind the hop."""
    if pc.any(pc.greater(values, 3)).as_py():
        message = "too many"
        raise ValueError(message)
    return pc.greater(values, 0)


def test_a_failure_behind_a_hop_suspends_its_query_and_no_other() -> None:
    session, run = opened(MemoryRoot(), Settings(shards=2, spread="always", backoff=0))
    session.function("fussy", fussy, returns="boolean")
    text = QUERIES["regrouped"] + " HAVING fussy(count(*))"
    failing: Any = session.query(text, name="failing")
    going: Any = session.query(QUERIES["regrouped"], name="going")

    for second in range(6):
        run.feed(s=rows("s", second, second + 1), t=rows("t", second, second + 1))

    assert failing.failure is not None
    assert "too many" in str(failing.failure)
    assert going.failure is None
    assert going.results().num_rows > 5
    session.close()


def test_what_has_travelled_is_told_and_may_be_less_than_was_sent() -> None:
    session, run = opened(MemoryRoot(), Settings(shards=2, spread="always"))
    session.query(QUERIES["regrouped"], name="regrouped")
    for second in range(6):
        run.feed(s=rows("s", second, second + 1), t=rows("t", second, second + 1))

    [outcome] = session.execute("EXPLAIN ANALYZE QUERY regrouped")

    [line] = [each for each in outcome.message.splitlines() if each.endswith(" hop 1")]
    sent, arrived = map(int, line.split()[:2])
    assert sent > arrived > 0
    session.close()
