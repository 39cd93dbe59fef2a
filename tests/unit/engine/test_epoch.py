"""Epochs against what they mean: for any rows, cuts, tasks, shards and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.connectors.files import Files
from millrace.connectors.sinks import MemorySink
from millrace.engine import facts
from millrace.engine.decision import Identity
from millrace.engine.inprocess import InProcess
from millrace.engine.local import Feed
from millrace.plan.expressions import col
from millrace.plan.nodes import Selection, select
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.testing.bag import Bag, bag, bag_of
from millrace.testing.configurations import CONFIGURATIONS, Configuration, configuration
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
    return isinstance(value, float) and value > 0.0


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

    def __init__(self, how: Configuration, *, idle: int | None = None) -> None:
        self.how, self.root, self.clock = how, MemoryRoot(), ManualClock()
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
    def streams(self) -> list:  # type: ignore[type-arg]
        return list(self.session.engine.registry.catalog.streams.values())

    def run(self, epochs: Sequence[Epoch], questions: Sequence[Question], seed: int) -> None:
        random = Random(seed)
        with self.how.applied():
            for number, epoch in enumerate(epochs):
                self._ask(questions, number)
                self.clock.set(epoch.clock)
                self._run(number, epoch, random)

    def _ask(self, questions: Sequence[Question], number: int) -> None:
        for each in questions:
            if each.asked.first == number:
                self.session.query(each.asked.name, each.selection)
            if each.asked.stop == number:
                self.session.change({"do": "drop query", "name": each.asked.name})

    def _run(self, number: int, epoch: Epoch, random: Random) -> None:
        engine = self.session.engine
        engine.settings = self.how.settings_of(number)
        tasks = [
            task
            for spec in self.streams
            for task in spread(spec, epoch.arrivals[spec.name], self.how.n_tasks, random)
        ]
        execution = InProcess(self.root, tasks, arrange=self.how.arranged)
        engine.run(Identity("query", number, f"digest {number}"), execution)
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
