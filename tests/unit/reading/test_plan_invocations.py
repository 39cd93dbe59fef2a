"""Plans whose results wait, in every policy, against what it means to invoke a query."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace import failpoints
from millrace.engine.decision import Identity
from millrace.engine.inprocess import InProcess
from millrace.engine.local import Feed
from millrace.errors import LostAnswersError
from millrace.reading.changes import changes, oldest_cursor
from millrace.session import Query, Session
from millrace.session.planning import bound_relation, declared_in
from millrace.state.memory_root import MemoryRoot
from millrace.testing.configurations import CONFIGURATIONS, Configuration
from millrace.testing.oracle.epochs import Asked, Epoch, Outcome, Row, outcome_of
from millrace.testing.oracle.invocations import (
    Answer,
    Came,
    Edge,
    horizon_of,
    invoked,
    told_by_plan,
)
from millrace.testing.spreading import spread
from millrace.time import ManualClock

COLUMNS = "part text, at bigint, ts timestamp, k bigint, v bigint"
DELAY, RETAIN, KEPT = 5, 100, (15, 40)
POLICIES = ("eager", "none")
STREAMS = ("s", "t")
SHAPES = (
    "SELECT {one} FROM s [{w}]",
    "SELECT k, {one} FROM s [{w}] WHERE v > {n} GROUP BY k",
    "SELECT {how}(at, v) FROM s [{w}] WHERE v > {n}",
    "SELECT RSTREAM(k, {one}) EVERY {n}0 us FROM s [{w}] GROUP BY k",
    "SELECT {how}(s.at, t.at AS other) FROM s [{w}], t [{x}] WHERE s.k = t.k",
    "SELECT s.at, t.at AS other FROM s [{w}], t [{x}] WHERE s.v < t.v - {n}",
    "SELECT s.at, t.at AS other FROM s [{w}] {side} JOIN t [{x}] ON s.k = t.k",
    "SELECT s.k, {one} FROM s [{w}], t [{x}] WHERE s.k = t.k GROUP BY s.k",
    "SELECT m, count(*) AS n FROM (SELECT k, {one} FROM s [{w}] GROUP BY k) GROUP BY m",
    "SELECT at FROM s [{w}] WHERE k {no} IN (SELECT k FROM t [{x}])",
    "SELECT DISTINCT k FROM s [{w}] UNION SELECT k FROM t [{x}]",
    "SELECT count(*) AS n FROM (SELECT ISTREAM(k, {one}) FROM s [{w}] GROUP BY k) [{x}]",
)


def a_text(random: Random) -> str:
    """Return a query of any shape, with windows that forget."""
    sizes = [f"RANGE {random.randrange(1, 20)} us" for _ in "wx"]
    sizes = [each + random.choice(["", "", f" SLIDE {random.randrange(2, 9)} us"])
             for each in sizes]  # fmt: skip
    return random.choice(SHAPES).format(
        w=sizes[0],
        x=sizes[1],
        n=random.randrange(1, 5),
        one=random.choice(["count(*)", "sum(s.v)", "max(s.v)", "avg(s.v)"]) + " AS m",
        how=random.choice(["ISTREAM", "DSTREAM"]),
        side=random.choice(["LEFT", "FULL"]),
        no=random.choice(["", "NOT"]),
    )


DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEWER = settings(max_examples=max(DRAWN // 6, 1))


class World:
    """A session over two streams, and beside it what was fed and asked since the beginning."""

    def __init__(self, how: Configuration, seed: int) -> None:
        self.random, self.how = Random(seed), how
        self.root, self.clock = MemoryRoot(), ManualClock()
        self.epochs: list[Epoch] = []
        self.queries: dict[str, Query] = {}
        self.stood: dict[str, tuple[str, int, int]] = {}
        self.places = {"a": 0, "b": 0}
        self.open()

    def open(self) -> None:
        self.session = Session(self.root, clock=self.clock, threads=False)
        for name in STREAMS:
            self.session.stream(
                name, Feed(COLUMNS), time="ts", delay=DELAY, partition="part", order="at",
                retain=RETAIN,
            )  # fmt: skip
        self.session.engine.delivery.committed(self.session.engine.manifest)
        for name in self.queries:
            found = self.session.standing(name)
            assert isinstance(found, Query)
            self.queries[name] = found

    def register(self) -> None:
        """Ask one of the questions in every policy."""
        number, text = len(self.stood), a_text(self.random)
        retain = self.random.choice(KEPT)
        for policy in POLICIES:
            name = f"{policy}_{number}"
            self.queries[name] = self.session.query(text, name=name, retain=retain, policy=policy)
            self.stood[name] = text, retain, len(self.epochs)

    def repolice(self) -> None:
        """Let a query keep answers in another way, unless it is run with others that are alike."""
        alone = [each for each in self.queries.values() if not each.feed.joined]
        if alone:
            self.random.choice(alone).set_policy(self.random.choice(POLICIES))

    def drop(self) -> None:
        if self.queries:
            self.queries.pop(self.random.choice([*self.queries])).drop()

    def reopen(self) -> None:
        self.session.close()
        self.open()

    def feed(self) -> None:
        epoch, engine = len(self.epochs), self.session.engine
        engine.settings = self.how.settings_of(epoch)
        arrivals = {
            stream: {part: self._rows(epoch, part) for part in self.places} for stream in STREAMS
        }
        self.epochs.append(Epoch(arrivals, self.clock.now()))
        tasks = []
        for name, partitions in arrivals.items():
            spec = engine.registry.catalog.stream(name)
            tasks += spread(spec, partitions, self.how.n_tasks, self.random)
        identity = Identity("test", epoch, f"{epoch}")
        if self.random.random() < 0.2:
            self.crash(identity, tasks)
        execution = InProcess(self.root, tasks, {}, self.how.arranged)
        self.session.engine.run(identity, execution)

    def crash(self, identity: Identity, tasks: list[Any]) -> None:
        """Begin an epoch and end before it is committed; what was decided is read back then."""
        execution = InProcess(self.root, tasks, {}, self.how.arranged)
        failpoints.arm("commit.before", "raise")
        try:
            with pytest.raises(failpoints.InjectedCrash):
                self.session.engine.run(identity, execution)
        finally:
            failpoints.disarm()
        self.reopen()

    def _rows(self, epoch: int, part: str) -> list[Row]:
        rows: list[Row] = []
        for _ in range(self.random.randrange(4)):
            self.places[part] += 1
            late = 20 if self.random.random() < 0.1 else 0
            time = max(6 * epoch + self.random.randrange(-4, 8) - late, 0)
            key, value = self.random.choice([0, 1, None]), self.random.choice([1, 3, 5, 8, None])
            row = {"part": part, "at": self.places[part], "ts": time, "k": key, "v": value}
            rows.append(row)
        return rows

    def outcome(self) -> Outcome:
        """Return what all queries have answered, by the definition."""
        specs = [self.session.engine.registry.catalog.stream(name) for name in STREAMS]
        every = [Asked(spec.name, spec.name, lambda _: True, lambda row: (row,)) for spec in specs]
        outcome = outcome_of(specs, self.epochs, every)
        marks = [
            dict(outcome_of(specs, self.epochs[: number + 1], []).watermarks)
            for number in range(len(self.epochs))
        ]
        rows = {
            name: [
                (epoch, time, row[0])
                for epoch, time, late, row in outcome.answers.get(name, [])
                if not late
            ]
            for name in STREAMS
        }
        came = Came(declared_in(self.session), rows, marks)  # type: ignore[arg-type]

        @cache
        def told(text: str, first: int) -> list[Answer]:
            plan = bound_relation(text, self.session).plan
            return told_by_plan(plan, _streams(text), came, first)

        for name in self.queries:
            text, _, first = self.stood[name]
            outcome.answers[name] = told(text, first)
        return outcome

    def check(self) -> None:
        """Invoke every query in a window of its own, and come back to it with a cursor."""
        outcome = self.outcome()
        for name, query in self.queries.items():
            text, retain, _ = self.stood[name]
            words, begin, end = self.window()
            expected = invoked(outcome, name, _streams(text), retain, begin, end)
            found = query.results(begin=words["begin"], end=words["end"])
            assert bag(found) == sorted(map(repr, expected)), (name, text, words)
            self.check_cursor(outcome, name, self.random.randrange(-1, len(self.epochs)))

    def check_cursor(self, outcome: Outcome, name: str, after: int) -> None:
        """Come back with a cursor: nothing is missed that has not expired, or it is told."""
        query, engine = self.queries[name], self.session.engine
        text, retain, first = self.stood[name]
        if first > engine.manifest.epoch:
            return
        horizon = horizon_of(outcome, _streams(text), retain)
        arguments = engine.root, engine.manifest, query.feed, query.id
        oldest = oldest_cursor(engine.manifest, query.feed)
        if after < oldest:
            with pytest.raises(LostAnswersError, match="no longer kept"):
                changes(*arguments, after)
            after = oldest
        table, _ = changes(*arguments, after)
        everything = {repr(each) for each in outcome.answers[name] if each[0] > after}
        fresh = [each for each in outcome.answers[name]
                 if each[0] > after and (horizon is None or each[1] >= horizon)]  # fmt: skip
        assert {repr(each) for each in fresh} <= {*bag(table)} <= everything

    def window(self) -> tuple[dict[str, str | int | None], Edge, Edge]:
        """Return a window of any kind, in words and for the oracle."""
        given: dict[str, str | int | None] = {}
        edges = []
        for word in ("begin", "end"):
            at = self.random.randrange(6 * len(self.epochs) + 10)
            kind = self.random.choice(["none", "at", "ago"])
            edges.append({"none": Edge(), "at": Edge(at=at), "ago": Edge(ago=at // 2)}[kind])
            given[word] = {"none": None, "at": at, "ago": f"NOW - {at // 2} us"}[kind]
        return given, edges[0], edges[1]


def _streams(text: str) -> list[str]:
    return [*STREAMS] if " t [" in text else ["s"]


def bag(table: pa.Table) -> list[str]:
    """Return answers as the oracle tells them, in any order."""
    names = [each for each in table.column_names if each not in ("_time", "_late", "_epoch")]
    columns = [table["_epoch"], table["_time"].cast(pa.int64()), table["_late"]]
    rows = zip(*(each.to_pylist() for each in columns), _values(table, names), strict=True)
    return sorted(map(repr, rows))


def _values(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    columns = [table.column(each).to_pylist() for each in names]
    return list(zip(*columns, strict=True))


@FEWER
@given(st.integers(0, 1 << 30), st.sampled_from(CONFIGURATIONS))
def test_any_interleaving_gives_what_invoking_means(seed: int, how: Configuration) -> None:
    with how.applied():
        world = World(how, seed)
        world.register()
        for _ in range(world.random.randrange(4, 16)):
            do = world.random.choice(
                ["feed"] * 7 + ["register", "drop", "reopen"] + ["repolice"] * 2
            )
            getattr(world, do)()
            if world.random.random() < 0.3:
                world.check()
        world.check()
        world.session.close()
