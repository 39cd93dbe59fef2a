"""Answers that are kept for some time: what may be asked for, what it means, and what goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.connectors.sinks import MemorySink
from millrace.engine.local import Feed, LocalRun
from millrace.engine.row_ids import query_of_key
from millrace.errors import (
    LostAnswersError,
    MillraceError,
    PlanError,
    StoreError,
    UnknownNameError,
)
from millrace.reading.answers import answers
from millrace.reading.changes import changes
from millrace.reading.fan_out import changes_of
from millrace.session import Query, Session
from millrace.session.script import Script
from millrace.state.memory_root import MemoryRoot
from millrace.state.run_store import load_manifest
from millrace.state.store import scan


class Program:
    """A session over two streams, one of which retains its rows for 50 us."""

    def __init__(self, root: MemoryRoot | None = None) -> None:
        self.root = root or MemoryRoot()
        self.session = Session(self.root, threads=False)
        self.session.stream("s", Feed("x bigint, ts timestamp"), time="ts", retain=50)
        self.session.stream("t", Feed("y bigint, ts timestamp"), time="ts")
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def feed(self, *times: int, stream: str = "s") -> None:
        """Feed rows whose value is their time."""
        column = "x" if stream == "s" else "y"
        rows = pa.table(
            {column: pa.array(times, pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC"))}
        )
        self.run.feed(**{stream: rows})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"retain": "1 hour", "keep": 5}, "either by their number or for some time"),
        ({"retain": 0}, "retained for no time at all"),
        ({"policy": "lazy"}, 'policy "lazy" needs to know for how long'),
        ({"policy": "some", "retain": 5}, '"some" is not a policy'),
        ({"policy": "none", "retain": 51}, 'need the rows of stream "s"'),
    ],
)
def test_what_contradicts_itself_is_refused(asked: dict[str, Any], message: str) -> None:
    program = Program()

    with pytest.raises(PlanError, match=message):
        program.session.query("SELECT x FROM s", name="q", **asked)
    assert "q" not in program.session.engine.registry.catalog.feeds


def test_answers_found_anew_need_a_stream_that_retains_its_rows() -> None:
    program = Program()

    with pytest.raises(PlanError, match='need the rows of stream "t"') as refused:
        program.session.query("SELECT y FROM t", policy="none")

    assert "It retains no rows." in refused.value.detail
    assert program.session.query("SELECT x FROM s", policy="none").feed.retain == 50


def test_a_plan_tells_rows_of_its_own() -> None:
    program = Program()
    text = "SELECT count(*) AS n FROM s [RANGE 5 us]"

    with pytest.raises(PlanError, match='policy "lazy" is for selections'):
        program.session.query(text, name="n", retain=20, policy="lazy")
    assert program.session.query(text, name="n", retain=20).feed.policy == "eager"


def test_a_feed_keeps_what_was_asked_when_it_was_made() -> None:
    program = Program()
    session = program.session
    session.query("SELECT x FROM s", name="a", into="shared", retain=20)

    session.query("SELECT x FROM s WHERE x > 1", name="b", into="shared")
    session.query("SELECT x FROM s WHERE x > 2", name="c", into="shared", retain=20)
    with pytest.raises(PlanError, match='the answers of "shared" are kept otherwise'):
        session.query("SELECT x FROM s WHERE x > 3", name="d", into="shared", retain=30)
    session.query("SELECT x FROM s", name="own", retain=20, policy="eager")
    with pytest.raises(PlanError, match='"own" are kept otherwise'):
        session.query("SELECT x FROM s", name="own", retain=20, policy="lazy")
    session.template("of", "SELECT x FROM s WHERE x > :low", low="bigint", retain=20)
    with pytest.raises(PlanError, match="Their retention is 20 microseconds"):
        session.template("of", "SELECT x FROM s WHERE x > :low", low="bigint", retain=21)


def test_a_plan_is_asked_for_any_window_within_its_retention() -> None:
    program = Program()
    query = program.session.query(
        "SELECT ISTREAM(x) FROM s [RANGE 5 us] WHERE x % 2 = 0", name="even", retain=20
    )
    for time in range(0, 60, 3):
        program.feed(time)

    told = query.results().column("x").to_pylist()
    assert told == [x for x in range(0, 57, 3) if x % 2 == 0 and x >= 57 - 20]
    window = query.results(begin=42, end="NOW - 6 us").column("x").to_pylist()
    assert window == [x for x in range(42, 58 - 6) if x in told]


def test_a_reader_of_a_plan_is_told_of_what_it_missed() -> None:
    program = Program()
    query = program.session.query("SELECT ISTREAM(x) FROM s [RANGE 5 us]", name="q", retain=9)
    for time in range(60):
        program.feed(time)
    engine = program.session.engine

    with pytest.raises(LostAnswersError, match="9 microseconds are kept") as missed:
        changes(engine.root, engine.manifest, query.feed, query.id, 3)

    oldest = int(missed.value.oldest)
    table, cursor = changes(engine.root, engine.manifest, query.feed, query.id, oldest)
    told = table.column("x").to_pylist()
    assert told == [*range(60 - len(told) - 1, 59)]
    assert len(told) >= 9
    assert cursor == engine.manifest.epoch


@pytest.mark.parametrize("policy", ["lazy", "eager", "none"])
def test_a_row_expires_with_the_watermark_and_not_before(policy: str) -> None:
    program = Program()
    query = program.session.query("SELECT x FROM s", name="q", retain=10, policy=policy)

    program.feed(0, 5, 10)
    assert query.results().column("x").to_pylist() == [0, 5, 10]
    program.feed(11)
    assert query.results().column("x").to_pylist() == [5, 10, 11]
    program.feed(2)  # late, and within retention
    assert query.results().column("x").to_pylist() == [5, 10, 11, 2]
    assert query.results(last=2).column("_late").to_pylist() == [False, True]
    program.feed(100)
    assert query.results().column("x").to_pylist() == [100]


@pytest.mark.parametrize(
    "policies",
    [
        ("lazy", "none", "lazy", "eager"),
        ("eager", "lazy", "eager", "none"),
        ("none", "eager", "none", "lazy"),
    ],
)
def test_a_policy_changes_and_the_answers_do_not(policies: tuple[str, ...]) -> None:
    program = Program()
    first, *others = policies
    query = program.session.query("SELECT x FROM s", name="q", retain=10, policy=first)
    program.session.sink(MemorySink("q"))  # it wants rows, whatever else is kept of them
    engine = program.session.engine

    for now in range(0, 60, 3):
        if now % 9 == 6 and others:
            query.set_policy(others.pop(0))
        program.feed(now, now + 1)
        newest = now + 1
        expected = [x for x in range(newest + 1) if x % 3 != 2 and x >= newest - 10]
        assert query.results()["x"].to_pylist() == expected
        assert query.results(last=3)["x"].to_pylist() == expected[-3:]
        seen = max(engine.manifest.epoch - 3, -1)
        table, _ = changes(engine.root, engine.manifest, query.feed, query.id, seen)
        assert table.equals(query.results().filter(pc.field("_epoch") > seen))

    assert not others
    [[policy, _, _]] = engine.manifest.facts["policies"]["1"]  # the others have expired
    assert policy == policies[-1]


def test_statements_change_how_answers_are_kept() -> None:
    program = Program()
    session, script = program.session, Script(program.session)
    session.query("SELECT x FROM s", name="q", retain=10)
    template = session.template("t", "SELECT x FROM s WHERE x > :low", low="bigint", retain=10)
    template.insert({"low": [1]})
    told = [
        each.message
        for each in script.run(
            "ALTER QUERY q SET (policy = 'eager'); ALTER TEMPLATE t SET (policy = 'none');"
            "ALTER STREAM s SET (retain = 20 us);"
        )
    ]
    program.feed(3)

    assert told[0] == "query \"q\" has policy = 'eager' from the next epoch on"
    assert session.standing("q").feed.policy == "eager"
    assert template.feed.policy == "none"
    assert session.streams["s"].retain == 20
    assert template.results()["x"].to_pylist() == session.standing("q").results()["x"].to_pylist()
    for text in (
        "ALTER QUERY t SET (policy = 'lazy')",
        "ALTER TEMPLATE q SET (policy = 'lazy')",
        "ALTER STREAM u SET (retain = '1 day')",
    ):
        with pytest.raises(UnknownNameError, match="does not exist"):
            list(script.run(text))


def test_rows_in_which_answers_are_found_anew_are_kept_for_as_long() -> None:
    program = Program()
    query = program.session.query("SELECT x FROM s", name="q", retain=10, policy="none")
    program.feed(3)

    program.session.retain("s", 10)
    with pytest.raises(PlanError, match='answers of "q" are found anew in rows of stream "s"'):
        program.session.retain("s", 9)
    query.set_policy("lazy")
    program.feed(4)
    with pytest.raises(PlanError, match="found anew"):
        program.session.retain("s", 9)  # the row of 3 is still an answer
    program.feed(20)
    program.session.retain("s", 9)

    assert query.results()["x"].to_pylist() == [20]


def test_a_policy_that_was_changed_stays_for_who_declares_the_query_again() -> None:
    program = Program()
    query = program.session.query("SELECT x FROM s", name="q", retain=10, policy="lazy")
    query.set_policy("eager")
    program.feed(1)
    program.session.close()

    again = Program(program.root)
    query = again.session.query("SELECT x FROM s", name="q", retain=10, policy="lazy")

    assert query.feed.policy == "eager"
    assert query.results()["x"].to_pylist() == [1]
    with pytest.raises(PlanError, match='"q" are kept otherwise'):
        again.session.query("SELECT x FROM s", name="q", retain=10, policy="none")


def test_policies_that_cannot_be_are_refused() -> None:
    session = Program().session
    numbered = session.query("SELECT x FROM s", name="numbered")
    plan = session.query("SELECT count(*) AS n FROM s [RANGE 5 us]", name="plan", retain=20)
    long = session.query("SELECT x FROM s", name="long", retain=51)
    past = session.query("SELECT x FROM s", name="past", retain=20, history=10)
    shared = session.query("SELECT x FROM s", name="shared", into="feed", retain=20)
    text = "SELECT x FROM s WHERE x > :low"
    template = session.template("of", text, low="bigint", retain=20)
    [qid] = template.insert({"low": [1]}).to_pylist()
    before = session.engine.registry.catalog.sequence

    for query, policy, message in (
        (numbered, "lazy", 'the answers of "numbered" are kept by their number'),
        (plan, "lazy", 'policy "lazy" is for selections of one stream'),
        (long, "none", 'need the rows of stream "s"'),
        (past, "none", "answers about history are not kept"),
        (long, "some", '"some" is not a policy'),
        (shared, "eager", 'kept with those of others in "feed"'),
        (template.query(qid), "eager", 'kept with those of others in "of"'),
    ):
        with pytest.raises(PlanError, match=message):
            query.set_policy(policy)

    assert session.engine.registry.catalog.sequence == before


@pytest.mark.parametrize("policy", ["lazy", "eager", "none"])
def test_other_processes_read_what_is_committed(policy: str) -> None:
    program = Program()
    query = program.session.query("SELECT x * 2 AS y FROM s", name="q", retain=10, policy=policy)
    program.feed(1, 2)

    manifest = load_manifest(program.root)
    feed = query.feed

    assert answers(program.root, manifest, feed, query.id).column("y").to_pylist() == [2, 4]
    assert answers(program.root, manifest, feed).column("y").to_pylist() == [2, 4]


def test_queries_that_are_dropped_leave_nothing_behind() -> None:
    program = Program()
    template = program.session.template(
        "of", "SELECT x FROM s WHERE x % :m = 0", m="bigint", retain=1_000
    )
    ids = template.insert({"m": list(range(1, 41))}).to_pylist()
    for time in range(40):
        program.feed(time)
    template.delete(ids[1:])

    assert set(template.results().column("_query").to_pylist()) == {ids[0]}
    for time in range(40, 200):
        program.feed(time)
        if time % 20 == 0:  # index files are rewritten as others come
            template.insert({"m": [1_000_000 + time]})

    assert sum(template.results().column("_query").to_numpy() == ids[0]) == 200
    [(_, state)] = [
        each
        for each in program.session.engine.manifest.stores.items()
        if each[0].startswith("found/")
    ]
    kept = np.unique(query_of_key(scan(program.root, state).column("_key").to_numpy()))
    assert len(kept) < 40


def test_stores_go_with_the_last_query_that_needs_them() -> None:
    program = Program()
    query = program.session.query("SELECT x FROM s", name="q", retain=10)
    program.feed(1)
    stores = program.session.engine.manifest.stores
    assert {"seen/s.1", "found/s.1/10"} <= {*stores}

    query.drop()
    program.feed(2)

    left = program.session.engine.manifest.stores
    assert not [each for each in left if each.startswith(("seen/", "found/"))]


def test_what_is_paused_gathers_nothing() -> None:
    program = Program()
    query = program.session.query("SELECT x FROM s", name="q", retain=100)
    program.feed(1)
    query.pause()
    program.feed(2)
    assert query.results().column("x").to_pylist() == [1]
    query.resume()
    program.feed(3)

    assert query.results().column("x").to_pylist() == [1, 3]


def test_constants_that_were_changed_hold_from_then_on() -> None:
    program = Program()
    template = program.session.template(
        "of", "SELECT x FROM s WHERE x > :low", low="bigint", retain=100
    )
    [qid] = template.insert({"low": [1]}).to_pylist()
    program.feed(1, 2, 3)
    template.update({"_query": [qid], "low": [5]})
    program.feed(4, 5, 6)

    assert template.query(qid).results().column("x").to_pylist() == [2, 3, 6]


def test_what_cannot_be_computed_is_told_when_it_is_asked_for() -> None:
    program = Program()
    session = program.session

    def fussy(values: pa.Array) -> pa.Array:
        message = "not today"
        raise ValueError(message)

    session.function("fussy", fussy, returns="bigint")
    query = session.query("SELECT fussy(x) AS y FROM s", name="q", retain=100)
    program.feed(1)

    with pytest.raises(StoreError, match='answers of "q" cannot be computed') as told:
        query.results()
    assert "not today" in told.value.detail


def test_many_subscribers_are_served_in_one_pass() -> None:
    program = Program()
    session = program.session
    template = session.template(
        "of", "SELECT x, :low AS low FROM s WHERE x > :low", low="bigint", retain=100
    )
    asked: list[Query] = [
        session.query(f"SELECT x FROM s WHERE x > {low}", name=f"q{low}", retain=100)
        for low in range(8)
    ]
    asked += [
        session.query(f"SELECT x + 1 AS x FROM s WHERE x < {low}", name=f"r{low}", retain=100)
        for low in range(8)
    ]
    asked += [session.query("SELECT x FROM s", name="rows", retain=40, policy="eager")]
    asked += [
        session.query(f"SELECT x FROM s WHERE x > {low}", name=f"h{low}", retain=100, history=40)
        for low in range(2)
    ]
    asked += [template.query(qid) for qid in template.insert({"low": [1, 3]}).to_pylist()]
    program.feed(1, 2, 3)
    seen = session.engine.manifest.epoch
    program.feed(4, 5)
    program.feed(6, 7)

    engine = session.engine
    pairs = [(each.feed, each.id) for each in asked]
    found = changes_of(engine.root, engine.manifest, pairs, seen)

    for query in asked:
        alone, _ = changes(engine.root, engine.manifest, query.feed, query.id, seen)
        mine = found.get((query.feed.name, query.id), alone.slice(0, 0))
        assert mine.equals(alone)
    assert ("r1", asked[9].id) not in found


def test_answers_about_history_that_have_expired_are_missed_by_who_sees_history() -> None:
    program = Program()
    program.feed(*range(1, 40))
    before = program.session.engine.manifest.epoch
    past = program.session.query("SELECT x FROM s", name="past", retain=45, history=40)
    live = program.session.query("SELECT x FROM s", name="live", retain=45)
    program.feed(40)
    assert past.results()["x"].to_pylist() == [*range(1, 41)]
    engine = program.session.engine
    changes(engine.root, engine.manifest, past.feed, past.id, before)

    program.feed(60)
    program.feed(61)  # what is before 16 has expired

    with pytest.raises(LostAnswersError):
        changes(engine.root, engine.manifest, past.feed, past.id, before)
    table, _ = changes(engine.root, engine.manifest, live.feed, live.id, before)
    assert table["x"].to_pylist() == [40, 60, 61]


def test_every_refusal_is_ours() -> None:
    program = Program()
    query = program.session.query("SELECT x FROM s", name="q", retain=10)

    for begin in ("soon", True, "NOW - -3 s"):
        with pytest.raises(MillraceError):
            query.results(begin=begin)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("lazy", "each row once for all queries"),
        ("eager", "answers as rows of their own"),
        ("none", "nothing for the query"),
    ],
)
def test_an_explanation_says_how_answers_are_kept_and_how_many_there_were(
    policy: str, told: str
) -> None:
    program = Program()
    query = program.session.query("SELECT x FROM s", name="q", retain=10, policy=policy)
    program.feed(1, 2, 3)

    assert f"kept     for 10 microseconds: {told}" in query.explain()
    counted = program.session.statistics()[-1].results_by_query
    assert counted == ({} if policy == "none" else {"q": 3})
