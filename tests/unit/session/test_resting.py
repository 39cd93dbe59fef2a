"""Plans whose answers are found anew: what may be asked for, what is stored, who wakes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from millrace.connectors.sinks import MemorySink
from millrace.engine.decide import TICK, next_due
from millrace.engine.local import Feed, LocalRun
from millrace.errors import LostAnswersError, NameTakenError, PlanError, StoreError
from millrace.reading import plans_anew
from millrace.reading.changes import changes
from millrace.reading.reader import Reader
from millrace.session import Query, Session
from millrace.session.script import Script
from millrace.state.memory_root import MemoryRoot
from millrace.time import ManualClock

SUMS = "SELECT k, sum(x) AS total FROM s [RANGE 5 us] GROUP BY k"
PAIRS = "SELECT ISTREAM(s.x, t.x AS y) FROM s [RANGE 5 us], t [RANGE 7 us] WHERE s.k = t.k"


class Program:
    """A session over streams `s` and `t`, which retain rows for 50 us, and `u`, which does not."""

    def __init__(self) -> None:
        self.root = MemoryRoot()
        self.session = Session(self.root, threads=False)
        for name, retain in (("s", 50), ("t", 50), ("u", None)):
            schema = "k bigint, x bigint, ts timestamp"
            self.session.stream(name, Feed(schema), time="ts", retain=retain)
        self.session.table("limits", "k bigint, least bigint")
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def ask(self, text: str, policy: str = "none", name: str = "", **more: Any) -> Query:
        return self.session.query(text, name=name or policy, policy=policy, retain=20, **more)

    def both(self, text: str) -> tuple[Query, Query]:
        return self.ask(text, "eager"), self.ask(text, "none")

    def feed(self, *times: int) -> None:
        """Feed a row of each time to both streams."""
        stamps = pa.array(times, pa.timestamp("us", "UTC"))
        keys = pa.array([time % 3 for time in times], pa.int64())
        rows = pa.table({"k": keys, "x": pa.array(times, pa.int64()), "ts": stamps})
        self.run.feed(s=rows, t=rows)

    def rows_in(self, prefix: str) -> int:
        stores = self.session.engine.manifest.stores
        return sum(each.rows for name, each in stores.items() if name.startswith(prefix))


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (SUMS, {"policy": "lazy"}, 'policy "lazy" is for selections of one stream'),
        (SUMS, {"retain": 45}, 'need the rows of stream "s"'),
        (SUMS.replace(" s ", " u "), {}, 'need the rows of stream "u"'),
        (SUMS.replace("5 us", "60 us"), {"retain": None}, 'need the rows of stream "s"'),
        (SUMS.replace("RANGE 5 us", "ROWS 5"), {}, "depend on all that ever came"),
        (SUMS.replace("[RANGE 5 us]", ""), {}, "depend on all that ever came"),
        (PAIRS.replace("t [RANGE 7 us]", "limits t").replace("t.x", "t.least"), {},
         'need what table "limits" held then'),
        (SUMS, {"history": 10}, "answers about history are not kept"),
    ],
)  # fmt: skip
def test_what_cannot_be_found_anew_is_refused(
    text: str, more: dict[str, Any], message: str
) -> None:
    program = Program()
    asked = {"policy": "none", "retain": 20, **more}

    with pytest.raises(PlanError, match=message):
        program.session.query(text, name="q", **asked)
    assert "q" not in program.session.engine.registry.catalog.feeds


def test_a_template_is_one_plan_for_all_its_queries() -> None:
    program = Program()
    text = SUMS.replace("GROUP", "WHERE x > :low GROUP")

    with pytest.raises(PlanError, match='"of" are told by one plan for many queries'):
        program.session.template("of", text, low="bigint", retain=20, policy="none")
    program.ask(SUMS.replace("GROUP", "WHERE x > 1 GROUP"), "eager", "first")
    alike = program.ask(SUMS.replace("GROUP", "WHERE x > 2 GROUP"), "eager", "second")
    assert alike.feed.joined
    with pytest.raises(PlanError, match='"second" are told by one plan for many queries'):
        alike.set_policy("none")


def test_answers_are_retained_for_as_long_as_they_can_be_found_if_nothing_is_said() -> None:
    program = Program()

    query = program.session.query(SUMS, name="q", policy="none")

    assert query.feed.retain == 50 - 6  # a row that counts for 5 us is gone 6 us later


def test_nothing_of_an_answer_is_stored_and_nothing_is_computed() -> None:
    program = Program()
    query = program.ask(SUMS)
    for time in range(10):
        program.feed(time)

    assert query.results().num_rows > 10
    assert program.rows_in("results/") == program.rows_in("state/") == 0
    assert program.rows_in("elements/") == 10
    assert not program.session.statistics()[-1].results
    assert "kept     for 20 microseconds: nothing for the query" in query.explain()


def test_what_is_kept_for_answers_is_bounded() -> None:
    program = Program()
    program.ask(PAIRS)
    for time in range(0, 240, 4):
        program.feed(*range(time, time + 4))

    assert program.rows_in("rows/") > 2 * 50
    assert program.rows_in("elements/") < 2 * 2 * (20 + 8)
    assert program.rows_in("marks/") < 2 * (20 + 8)


@pytest.mark.parametrize("text", [SUMS, PAIRS])
def test_a_sink_wakes_a_plan_and_gets_what_an_eager_one_tells(text: str) -> None:
    program = Program()
    eager, found = program.both(text)
    for time in range(6):
        program.feed(time)

    sink = MemorySink("none")
    program.session.sink(sink)
    for time in range(6, 10):
        program.feed(time)

    program.session.engine.delivery.pump()
    table = sink.table("none")
    first = min(table["_epoch"].to_pylist())
    kept = eager.results()
    assert table.to_pylist() == [each for each in kept.to_pylist() if each["_epoch"] >= first]
    assert found.results().equals(kept)


def test_an_altered_query_tells_the_same_and_may_be_declared_again() -> None:
    program = Program()
    eager, changed = program.both(SUMS)
    script = Script(program.session)
    for policy in ("eager", "none", "eager", "none"):
        list(script.run(f"ALTER QUERY \"none\" SET (policy = '{policy}')"))
        start = program.session.engine.manifest.epoch + 1
        for time in range(start, start + 9):
            program.feed(time)
            assert changed.results().equals(eager.results())

    assert program.ask(SUMS, "none").id == changed.id
    with pytest.raises(NameTakenError):
        program.session.query(SUMS, name="none", retain=19, policy="none")


def test_a_reader_in_another_process_finds_the_same() -> None:
    program = Program()
    _, query = program.both(PAIRS)
    reader = Reader(program.root)
    reader.open()
    for time in range(12):
        program.feed(time)
    reader.follow()

    for window in ({}, {"begin": "NOW - 5 us"}, {"begin": 4, "end": 8}, {"last": 2}):
        found = reader.answers(query.feed, query.id, **window)
        assert found.equals(query.results(**window))
        assert found.num_rows
    reader.close()


def test_a_reader_is_told_of_what_has_expired() -> None:
    program = Program()
    _, query = program.both(SUMS)
    for time in range(40):
        program.feed(time)
    engine = program.session.engine

    with pytest.raises(LostAnswersError, match="20 microseconds are kept") as missed:
        changes(engine.root, engine.manifest, query.feed, query.id, 3)

    oldest = int(missed.value.oldest)
    table, _ = changes(engine.root, engine.manifest, query.feed, query.id, oldest)
    assert table.num_rows == query.results().num_rows


def test_too_many_rows_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    query = program.ask(SUMS)
    for time in range(12):
        program.feed(time)
    monkeypatch.setattr(plans_anew, "MOST_ELEMENTS", 9)

    with pytest.raises(PlanError, match="found anew among too many rows"):
        query.results()
    assert query.results(begin="NOW - 2 us").num_rows


def test_what_cannot_be_computed_is_told_when_it_is_asked_for() -> None:
    program = Program()
    query = program.ask("SELECT sum(x + 4611686018427387904) AS n FROM s [RANGE 5 us]")
    program.feed(12, 13, 14)
    program.feed(30)

    with pytest.raises(StoreError, match='answers of "none" cannot be computed'):
        query.results()


def test_a_stream_goes_on_retaining_what_answers_are_found_in() -> None:
    program = Program()
    query = program.ask(PAIRS)

    with pytest.raises(PlanError, match='"none" are found anew in rows of stream "t"') as refused:
        program.session.retain("t", 25)
    assert "They need those of 28 microseconds" in refused.value.detail
    program.session.retain("t", 28)
    query.drop()
    program.session.retain("t", 5)


@pytest.mark.parametrize("policy", ["eager", "none"])
def test_time_passes_on_a_silent_stream_for_as_long_as_answers_may_change(policy: str) -> None:
    clock = ManualClock()
    session = Session(MemoryRoot(), clock=clock, threads=False)
    session.stream("s", Feed("k bigint, x bigint, ts timestamp"), time="ts", retain=50, idle=5)
    session.query(SUMS, name="q", retain=20, policy=policy)
    run = session.start()
    assert isinstance(run, LocalRun)
    row = pa.table({"k": [1], "x": [1], "ts": pa.array([3], pa.timestamp("us", "UTC"))})
    run.feed(s=row)
    engine, due = session.engine, []

    for now in (10, 11, 20):
        clock.set(now)
        run.feed(s=row.slice(0, 0))
        due.append(next_due(engine.manifest, engine.registry.catalog))

    assert due == [10 + TICK, 11 + TICK, None]
    assert session.standing("q").results()["_change"].to_pylist() == [1, -1]
