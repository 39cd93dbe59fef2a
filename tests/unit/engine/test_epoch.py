"""Epochs against what they mean: for any rows, cuts, tasks, shards and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace import failpoints
from millrace.connectors.files import Files
from millrace.connectors.sinks import MemorySink
from millrace.engine import facts
from millrace.engine.decision import Decision, Identity
from millrace.engine.epoch import Execution
from millrace.engine.inprocess import InProcess
from millrace.engine.local import Feed
from millrace.engine.receipt import Receipt
from millrace.engine.reconsider import reconsidered
from millrace.engine.registry import read_catalog
from millrace.engine.standing import sources_of
from millrace.engine.streams import StreamSpec
from millrace.engine.supervise import ExecutionError
from millrace.engine.tally import Segment, Tally
from millrace.errors import StoreFullError
from millrace.operators.select import Function
from millrace.plan.nodes import Selection, select
from millrace.plan.term import call, col
from millrace.session import Query, Session
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Data, Root
from millrace.testing.bag import Bag, bag, bag_of
from millrace.testing.configurations import CONFIGURATIONS, Configuration, configuration
from millrace.testing.mortal_root import MortalRoot
from millrace.testing.oracle.epochs import Asked, Epoch, Outcome, Row, outcome_of
from millrace.testing.spreading import spread
from millrace.time import ManualClock

SCHEMA = "part text, at bigint, ts timestamp, value double, tag text"
NAMES = ["part", "at", "ts", "value", "tag"]
STREAMS = ("kafka", "files", "plain")  # order declared, ordered by nature, no order at all
PARTITIONS = ("a", "b", "c")
DELAY, RETAIN, IDLE = 5, 25, 3

FEWER = settings(max_examples=max(settings.default.max_examples // 4, 1))  # type: ignore[union-attr]

Rows = Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class Question:
    """One query, in our language and in Python."""

    selection: Selection
    asked: Asked


def question(name: str, stream: str, first: int, stop: int) -> Question:
    match name:
        case "all":
            return Question(
                select(stream), Asked(name, stream, lambda _: True, _values, first, stop)
            )
        case "positive":
            return Question(
                select(stream, "tag", where=col("value") > 0.0),
                Asked(name, stream, _positive, lambda row: (row["tag"],), first, stop),
            )
        case _:
            return Question(
                select(stream, "value", where=(col("tag") == "x") | col("value").is_null()),
                Asked(name, stream, _tagged, lambda row: (row["value"],), first, stop),
            )


def _values(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in NAMES)


def _positive(row: Row) -> bool:
    value = row["value"]
    return isinstance(value, float) and not value <= 0.0  # NaN is greater than every number


def _tagged(row: Row) -> bool:
    return row["tag"] == "x" or row["value"] is None


@st.composite
def some_rows(draw: st.DrawFn) -> dict[str, object]:
    return {
        "ts": draw(st.one_of(st.none(), st.integers(0, 40), st.integers(0, 40))),
        "value": draw(st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")])),
        "tag": draw(st.sampled_from(["x", "y", None])),
    }


@st.composite
def some_epochs(draw: st.DrawFn) -> list[Epoch]:
    """Draw epochs; each row knows its partition and its place in it."""
    places = dict.fromkeys([*PARTITIONS, ""], 0)
    clock = 0
    epochs = []
    for _ in range(draw(st.integers(1, 4))):
        clock += draw(st.integers(0, 2))
        arrivals: dict[str, Rows] = {}
        for stream in STREAMS:
            names = PARTITIONS if stream == "kafka" else ("",)
            drawn = {name: draw(st.lists(some_rows(), max_size=6)) for name in names}
            arrivals[stream] = {
                name: [_placed(row, name, places) for row in rows] for name, rows in drawn.items()
            }
        epochs.append(Epoch(arrivals, clock))
    return epochs


def _placed(row: dict[str, object], partition: str, places: dict[str, int]) -> Row:
    places[partition] += 1
    return {"part": partition or None, "at": places[partition], **row}


@st.composite
def some_questions(draw: st.DrawFn) -> list[Question]:
    chosen = []
    for number, name in enumerate(("all", "positive", "tagged")):
        first = draw(st.integers(0, 2))
        chosen.append(question(name, STREAMS[number], first, first + draw(st.integers(1, 4))))
    return chosen


class Played:
    """A session that has run some epochs under a configuration."""

    def __init__(
        self, how: Configuration, *, idle: int | None = None, root: Root | None = None
    ) -> None:
        self.how, self.root, self.clock = how, root or MemoryRoot(), ManualClock()
        self.session = Session(self.root, clock=self.clock, threads=False)
        feed = Feed(SCHEMA)
        self.session.stream(
            "kafka", feed, time="ts", delay=DELAY, partition="part", order="at",
            key="tag", retain=RETAIN, idle=idle,
        )  # fmt: skip
        self.session.stream(
            "files", Files("/nowhere"), schema=SCHEMA, time="ts", delay=DELAY, retain=RETAIN
        )
        self.session.stream("plain", feed, time="ts", delay=DELAY, key="value", retain=RETAIN)
        self.sink = MemorySink()
        self.session.sink(self.sink)
        self.session.engine.delivery.committed(self.session.engine.manifest)

    @property
    def streams(self) -> list[StreamSpec]:
        return list(self.session.engine.registry.catalog.streams.values())

    def run(self, epochs: Sequence[Epoch], questions: Sequence[Question], seed: int) -> None:
        random = Random(seed)
        with self.how.applied():
            for number, epoch in enumerate(epochs):
                self._ask(questions, number)
                self.clock.set(epoch.clock)
                self._run(number, epoch, random, {}, lambda inner: inner)

    def _ask(self, questions: Sequence[Question], number: int) -> None:
        for each in questions:
            if each.asked.first == number:
                self.session.query(each.selection, name=each.asked.name)
            if each.asked.stop == number:
                self.session.change({"do": "drop feed", "name": each.asked.name})

    def run_one(
        self,
        number: int,
        epoch: Epoch,
        *,
        functions: Mapping[str, Function] | None = None,
        wrap: Callable[[InProcess], Execution] = lambda inner: inner,
        pump: bool = True,
    ) -> None:
        with self.how.applied():
            self._run(number, epoch, Random(0), functions or {}, wrap, pump=pump)

    def last_decision(self) -> Decision:
        return Decision.read(self.root, self.root.list("epochs/")[-1].name)

    def query(self, name: str) -> Query:
        found = self.session.standing(name)
        assert isinstance(found, Query)
        return found

    def _run(
        self,
        number: int,
        epoch: Epoch,
        random: Random,
        functions: Mapping[str, Function],
        wrap: Callable[[InProcess], Execution],
        *,
        pump: bool = True,
    ) -> None:
        engine = self.session.engine
        engine.settings = self.how.settings_of(number)
        tasks = [
            task
            for spec in self.streams
            for task in spread(spec, epoch.arrivals[spec.name], self.how.n_tasks, random)
        ]
        execution = InProcess(self.root, tasks, functions, self.how.arranged)
        engine.run(Identity("query", number, f"digest {number}"), wrap(execution))
        if pump:
            engine.delivery.pump()

    def answers(self, name: str) -> Bag:
        if not self.sink.n_rows(name):
            return bag([])
        table = self.sink.table(name)
        own = [each for each in table.column_names if not each.startswith("_")]
        return bag_of(table, ["_epoch", "_time", "_late", *own])


def check(played: Played, expected: Outcome, questions: Sequence[Question]) -> None:
    for each in questions:
        rows = [
            (epoch, time, late, *values)
            for epoch, time, late, values in expected.answers.get(each.asked.name, [])
        ]
        assert played.answers(each.asked.name) == bag(rows), each.asked.name
    session = played.session
    for stream in STREAMS:
        kept = expected.history.get(stream, [])
        assert bag_of(session.history(stream), NAMES) == bag(map(_values, kept)), stream
        late = [(stream, row["at"], *_values(row)) for _, row in expected.late.get(stream, [])]
        found = bag_of(session.late_rows(stream), ["_source", "_position", *NAMES])
        assert found == bag(late), stream
    letters = [(s, s, row["at"]) for s in STREAMS for _, row in expected.dead.get(s, [])]
    assert bag_of(session.dead_letters(), ["stream", "source", "position"]) == bag(letters)
    manifest, catalog = session.engine.manifest, session.engine.registry.catalog
    clocks = {name: each for name, each in facts.clocks(manifest, catalog).items() if each}
    assert clocks == {name: each for name, each in expected.clocks.items() if each}
    assert facts.watermarks(manifest, catalog) == expected.watermarks


@FEWER
@given(
    some_epochs(), some_questions(), st.sampled_from(CONFIGURATIONS), st.none() | st.just(IDLE),
    st.integers(0, 1000),
)  # fmt: skip
def test_epochs_mean_what_the_oracle_says(
    epochs: list[Epoch], questions: list[Question], how: Configuration, idle: int | None, seed: int
) -> None:
    played = Played(how, idle=idle)
    played.run(epochs, questions, seed)

    check(played, outcome_of(played.streams, epochs, [each.asked for each in questions]), questions)


@FEWER
@given(
    some_epochs(),
    st.lists(st.sampled_from(CONFIGURATIONS), min_size=2, max_size=2, unique=True),
    st.integers(0, 1000),
)
def test_cuts_into_epochs_do_not_matter_where_sources_have_order(
    epochs: list[Epoch], two: list[Configuration], seed: int
) -> None:
    """Every partition has a row in the first epoch: one that is new later meets a watermark."""
    first = Epoch({name: _first_rows(name) for name in STREAMS})
    whole = Epoch({name: _joined(epochs, name) for name in STREAMS})
    outcomes = []
    for how, cut in zip(two, ([first, *epochs], [first, whole]), strict=True):
        played = Played(how)
        played.run(cut, [question("all", "kafka", 0, 99)], seed)
        outcomes.append(_without_epochs(played))

    assert outcomes[0] == outcomes[1]


def _first_rows(stream: str) -> Rows:
    names = PARTITIONS if stream == "kafka" else ("",)
    row = {"at": 0, "ts": 0, "value": 1.0, "tag": "x"}
    return {name: [{"part": name or None, **row}] for name in names}


def _joined(epochs: Sequence[Epoch], stream: str) -> Rows:
    names = PARTITIONS if stream == "kafka" else ("",)
    return {
        name: [row for epoch in epochs for row in epoch.arrivals[stream][name]] for name in names
    }


def _without_epochs(played: Played) -> list[object]:
    session, answers = played.session, played.sink.table("all")
    found: list[object] = [bag_of(answers, ["_time", "_late", *NAMES])]
    for stream in ("kafka", "files"):
        found.append(bag_of(session.history(stream), NAMES))
        found.append(bag_of(session.late_rows(stream), ["_position", *NAMES]))
    found.append(bag_of(session.dead_letters(), ["stream", "position"]))
    found.append(session.engine.manifest.facts["clocks"])
    found.append(session.engine.manifest.facts["watermarks"])
    return found


def rows(*times: int | None, first: int = 0, part: str = "a") -> dict[str, list[Row]]:
    return {
        part: [
            {"part": part, "at": first + at, "ts": time, "value": float(at), "tag": "x"}
            for at, time in enumerate(times)
        ]
    }


def only(stream: str, partitions: Mapping[str, Sequence[Row]]) -> Epoch:
    return Epoch({name: partitions if name == stream else {} for name in STREAMS})


def test_a_stream_declared_anew_has_no_past() -> None:
    played = Played(configuration("plain"))
    played.run([only("kafka", rows(1_000))], [], 0)
    session = played.session
    session.drop_stream("kafka")
    session.stream("kafka", Feed(SCHEMA), time="ts", partition="part", order="at", retain=RETAIN)

    played.run_one(1, only("kafka", rows(1, 2)))

    assert session.late_rows("kafka").num_rows == 0
    assert session.history("kafka").num_rows == 2
    assert session.engine.manifest.facts["clocks"]["kafka"] == {"a": 2}


def test_answers_of_a_dropped_query_are_delivered_and_then_forgotten() -> None:
    played = Played(configuration("plain"))
    played.session.query(select("kafka"), name="all")
    played.run_one(0, only("kafka", rows(1, 2, 3)), pump=False)
    played.session.change({"do": "drop feed", "name": "all"})
    played.run_one(1, only("kafka", {}))

    assert played.sink.n_rows("all") == 3
    for number in (2, 3):
        played.run_one(number, only("kafka", {}))
    assert not [name for name in played.session.engine.manifest.stores if "all" in name]


def test_segments_of_other_cuts_are_decided_anew() -> None:
    """A replay may find its partitions cut elsewhere; see `reconsidered`."""
    played = Played(configuration("plain"))
    played.run([only("kafka", rows(1))], [], 0)
    catalog = played.session.engine.registry.catalog
    decision = played.last_decision()
    before: dict[str, list[tuple[list[int | str], int]]] = {"a": [([0], 50), ([10], 60)]}
    logged = replace(decision, segments={"kafka": before})
    cut_elsewhere = [Segment("a", [0], 40, 40), Segment("a", [5], 60, 45)]
    receipts = [Receipt(0, tallies=(Tally("kafka", segments=tuple(cut_elsewhere)),))]

    again = reconsidered(logged, catalog, receipts)

    assert again is not None
    assert again.segments == {"kafka": {"a": [([0], 40), ([5], 60)]}}
    assert reconsidered(again, catalog, receipts) is None


class Exploding:
    """An execution whose tasks die while some queries run."""

    def __init__(self, inner: InProcess, culprits: set[int]) -> None:
        self.inner, self.culprits, self.n_runs = inner, culprits, 0

    def execute(self, decision: Decision) -> list[Receipt]:
        self.n_runs += 1
        if self.n_runs == 1:
            raise ExecutionError("no room", signature="full", blames_query=False)
        running = self.culprits & self.running(decision)
        if running:
            raise ExecutionError(f"died of {min(running)}", signature=f"died of {min(running)}")
        return self.inner.execute(decision)

    def running(self, decision: Decision) -> set[int]:
        """Find who would be answered, as the tasks do."""
        catalog = read_catalog(self.inner.root, decision.catalog)
        sources = sources_of(self.inner.root, catalog, decision, "kafka")
        outs = [
            np.zeros(each.run.n, np.bool_) if each.out is None else each.out for each in sources
        ]
        pairs = zip(sources, outs, strict=True)
        return {qid for each, out in pairs for qid in each.run.qids[~out].tolist()}


@pytest.mark.parametrize("culprits", [{3}, {1, 8}, {2, 3, 4}])
@pytest.mark.parametrize("alone", [True, False])
def test_queries_that_take_tasks_down_are_quarantined_and_the_others_go_on(
    culprits: set[int], *, alone: bool
) -> None:
    """Whether each has a feed of its own, or all are of one family."""
    played = Played(configuration("plain"))
    for number in range(1, 9):
        asked = select("kafka", "at", where=col("at") > -number)
        into = None if alone else "shared"
        played.session.query(asked, name=f"q{number}", into=into, keep=100)
    queries = {number: played.query(f"q{number}") for number in range(1, 9)}
    guilty = {queries[number].id for number in culprits}

    played.run_one(0, only("kafka", rows(1, 2)), wrap=lambda inner: Exploding(inner, guilty))

    for number, query in queries.items():
        if number in culprits:
            assert query.failure is not None
            assert query.failure["code"] == "quarantined"
            assert query.failure["message"] == f"died of {query.id}"
            assert query.results().num_rows == 0
        else:
            assert query.failure is None
            assert query.results().num_rows == 2
    assert played.sink.n_rows() == 2 * (8 - len(culprits))


def test_a_culprit_that_was_dropped_after_the_epoch_was_decided_is_still_found() -> None:
    played = Played(configuration("plain"))
    played.session.query(select("kafka", "at"), name="good")
    bad = played.session.query(select("kafka", "tag"), name="bad")

    class DroppedMeanwhile(Exploding):
        def execute(self, decision: Decision) -> list[Receipt]:
            if self.n_runs == 1:
                bad.drop()
            return super().execute(decision)

    played.run_one(
        0, only("kafka", rows(1, 2)), wrap=lambda inner: DroppedMeanwhile(inner, {bad.id})
    )

    assert (played.sink.n_rows("good"), played.sink.n_rows("bad")) == (2, 0)
    played.run_one(1, only("kafka", rows(3, first=2)))
    assert played.session.engine.manifest.facts["suspended"] == {}


def test_what_a_quarantined_query_computes_is_computed_no_more() -> None:
    """It is quarantined because computing it ends the process."""
    calls: list[int] = []

    def deadly(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        return values

    class Dying(Exploding):
        def execute(self, decision: Decision) -> list[Receipt]:
            receipts = self.inner.execute(decision)
            if calls:
                calls.clear()
                raise ExecutionError("died", signature="died")
            return receipts

    played = Played(configuration("plain"))
    played.session.function("deadly", deadly, returns="double")
    shared: dict[str, Any] = {"into": "shared", "keep": 10}
    dead = [
        played.session.query(
            select("kafka", "at", where=call("deadly", col("value")) > 0), **shared
        ),
        played.session.query(
            select("kafka", at=call("deadly", col("value")).cast("bigint")), **shared
        ),
    ]
    fine = played.session.query(select("kafka", "at", where=col("value") >= 0.0), **shared)
    played.session.sink(MemorySink("shared", name="counts", fan_out="counts"))
    functions = {"deadly": deadly}

    played.run_one(
        0, only("kafka", rows(1, 2)), functions=functions, wrap=lambda inner: Dying(inner, set())
    )
    played.run_one(1, only("kafka", rows(3, first=2)), functions=functions)

    assert [each.failure is not None for each in dead] == [True, True]
    assert fine.results().num_rows == 3
    assert calls == []


def test_a_query_that_raises_is_suspended_with_nothing_kept_until_it_is_resumed() -> None:
    def touchy(values: pa.Array) -> pa.Array:
        if 1.0 in values.to_pylist():
            raise ZeroDivisionError("one")
        return pa.repeat(pa.scalar(value=True), len(values))

    played = Played(configuration("tasks"))
    played.session.function("touchy", touchy, returns="boolean")
    query = played.session.query(select("kafka", where=call("touchy", col("value"))), name="touchy")
    played.session.query(select("kafka"), name="all")
    functions = {"touchy": touchy}
    played.run_one(0, only("kafka", rows(5, 6, 7)), functions=functions)
    played.run_one(1, only("kafka", rows(8, first=4)), functions=functions)

    assert query.failure is not None
    assert (query.failure["code"], query.failure["message"]) == ("ZeroDivisionError", "one")
    assert query.failure["epoch"] == 0
    assert (played.sink.n_rows("touchy"), played.sink.n_rows("all")) == (0, 4)
    assert played.session.engine.manifest.facts["counts"]["results"] == 4
    query.resume()
    assert query.failure is None
    played.run_one(2, only("kafka", rows(9, first=5)), functions=functions)
    assert played.sink.n_rows("touchy") == 1


def test_a_failure_that_no_query_is_to_blame_for_goes_up_in_the_end() -> None:
    class Broken:
        n_runs = 0

        def execute(self, _decision: Decision) -> list[Receipt]:
            self.n_runs += 1
            raise ExecutionError("damaged", signature="damaged", blames_query=False)

    played, broken = Played(configuration("plain")), Broken()
    played.session.engine.wait = lambda _seconds: None

    with pytest.raises(ExecutionError, match="damaged"):
        played.session.engine.run(Identity("query", 0, ""), broken)

    assert broken.n_runs == 8
    played.run_one(0, only("kafka", rows(1)))
    assert played.session.engine.manifest.epoch == 0


def test_a_full_disk_is_waited_for() -> None:
    class Full(MortalRoot):
        n_refused = 3

        def put_if_absent(self, name: str, data: Data) -> bool:
            if name.startswith("commits/") and self.n_refused:
                self.n_refused -= 1
                raise StoreFullError("no room is left")
            return super().put_if_absent(name, data)

    waits: list[float] = []
    played = Played(configuration("plain"), root=Full(MemoryRoot()))
    played.session.engine.wait = waits.append
    played.run_one(0, only("kafka", rows(1)))

    assert len(waits) == 3
    assert played.session.engine.manifest.epoch == 0


def test_a_replay_does_what_was_decided_the_first_time() -> None:
    """Though the clock, the settings and the queries have moved on since."""
    files = MemoryRoot()
    first = Played(configuration("plain"), root=MortalRoot(files))
    first.clock.set(500)
    failpoints.arm("receipts.after", "raise")
    try:
        with pytest.raises(failpoints.InjectedCrash):
            first.run_one(0, only("kafka", rows(1, None)))
    finally:
        failpoints.disarm()
    second = Played(configuration("spread"), root=MortalRoot(files))
    second.clock.set(900)
    second.session.query(select("kafka"), name="all")

    second.run_one(0, only("kafka", rows(1, None)))

    assert second.session.dead_letters().column("_time").to_pylist() == [500]
    assert second.sink.n_rows("all") == 0
    assert not second.last_decision().spread
    second.run_one(1, only("kafka", rows(2, None, first=2)))
    assert second.session.dead_letters().column("_time").to_pylist() == [500, 900]
    assert second.sink.n_rows("all") == 1


def test_sinks_are_told_of_an_epoch_that_failed_after_its_commit() -> None:
    played = Played(configuration("plain"))
    played.session.query(select("kafka"), name="all")
    epoch = only("kafka", rows(1, 2))
    failpoints.arm("commit.after", "fail")
    try:
        with pytest.raises(OSError, match=r"commit\.after"):
            played.run_one(0, epoch)
    finally:
        failpoints.disarm()

    played.run_one(0, epoch)

    assert played.session.engine.manifest.epoch == 0
    assert played.sink.n_rows("all") == 2
