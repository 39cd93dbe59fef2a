"""Results that wait, against what it means to invoke a query, in any order of events."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engine.decision import Identity
from millrace.engine.feeds import POLICIES
from millrace.engine.inprocess import InProcess
from millrace.engine.local import Feed
from millrace.errors import LostAnswersError
from millrace.reading import changes as changed
from millrace.reading.fan_out import changes_of
from millrace.session import Query, Session
from millrace.state.memory_root import MemoryRoot
from millrace.testing.configurations import CONFIGURATIONS, Configuration, configuration
from millrace.testing.oracle.epochs import Asked, Epoch, Outcome, Row, outcome_of
from millrace.testing.oracle.invocations import (
    Answer,
    Edge,
    horizon_of,
    invoked,
    oldest_cursor,
)
from millrace.testing.spreading import spread
from millrace.time import ManualClock

COLUMNS = "part text, at bigint, ts timestamp, value double, tag text"
DELAY, RETAIN, KEPT = 5, 60, (15, 40)
LOW = {"few": 3.0, "many": 1.0, "all": -1.0}
TEMPLATE = "SELECT at, value, :low AS low FROM s WHERE value > :low"
FEWER = settings(max_examples=max(settings.default.max_examples // 3, 1))  # type: ignore[union-attr]


class World:
    """A session, and beside it what was fed and asked since the beginning."""

    def __init__(self, how: Configuration, seed: int) -> None:
        self.random, self.how = Random(seed), how
        self.root, self.clock = MemoryRoot(), ManualClock()
        self.epochs: list[Epoch] = []
        self.asked: dict[str, Asked] = {"rows": _asked("rows", "all", 0)}
        self.queries: dict[str, Query] = {}
        self.retained: dict[str, int] = {}
        self.places = {"a": 0, "b": 0}
        self.open()

    def open(self) -> None:
        self.session = Session(self.root, clock=self.clock, threads=False)
        self.session.stream(
            "s", Feed(COLUMNS), time="ts", delay=DELAY, partition="part", order="at", retain=RETAIN
        )
        self.session.engine.delivery.committed(self.session.engine.manifest)
        for name in self.queries:
            self.queries[name] = self._handle(name)

    def _handle(self, name: str) -> Query:
        if name in self.session.engine.registry.catalog.feeds:
            found = self.session.standing(name)
            assert isinstance(found, Query)
            return found
        template = self.session.standing(name.rpartition(" ")[0])
        assert not isinstance(template, Query)
        return template.query(self.queries[name].id)

    def register(self) -> None:
        """Ask one of the questions in every policy, each under a name of its own."""
        number, which = len(self.asked), self.random.choice([*LOW])
        retain, low = self.random.choice(KEPT), LOW[which]
        for policy in POLICIES:
            name = f"{policy}_{number}"
            if self.random.random() < 0.5:
                text = f"SELECT at, value, {low} AS low FROM s WHERE value > {low}"
                query = self.session.query(text, name=name, retain=retain, policy=policy)
            else:
                family = f"{policy}_of_{retain}"
                template = self.session.template(
                    family, TEMPLATE, low="double", retain=retain, policy=policy
                )
                [qid] = template.insert({"low": [low]}).to_pylist()
                query, name = template.query(qid), f"{family} {number}"
            self.queries[name], self.retained[name] = query, retain
            self.asked[name] = _asked(name, which, len(self.epochs))

    def repolice(self) -> None:
        """Let a query, or a template with all its queries, keep answers in another way."""
        if self.queries:
            query = self.queries[self.random.choice([*self.queries])]
            self.session.standing(query.feed.name).set_policy(self.random.choice(POLICIES))

    def drop(self) -> None:
        if self.queries:
            name = self.random.choice([*self.queries])
            self.queries.pop(name).drop()

    def feed(self) -> None:
        epoch = len(self.epochs)
        self.session.engine.settings = self.how.settings_of(epoch)
        partitions = {name: self._rows(epoch, name) for name in self.places}
        self.epochs.append(Epoch({"s": partitions}, self.clock.now()))
        engine = self.session.engine
        spec = engine.registry.catalog.stream("s")
        tasks = spread(spec, partitions, self.how.n_tasks, self.random)
        execution = InProcess(self.root, tasks, {}, self.how.arranged)
        engine.run(Identity("test", epoch, f"{epoch}"), execution)

    def _rows(self, epoch: int, part: str) -> list[Row]:
        rows: list[Row] = []
        for _ in range(self.random.randrange(4)):
            self.places[part] += 1
            late = 20 if self.random.random() < 0.1 else 0
            time = max(6 * epoch + self.random.randrange(-4, 8) - late, 0)
            value = self.random.choice([None, 0.5, 1.5, 2.5, 3.5, float("nan")])
            row = {"part": part, "at": self.places[part], "ts": time, "value": value, "tag": "x"}
            rows.append(row)
        return rows

    def reopen(self) -> None:
        self.session.close()
        self.open()

    def outcome(self) -> Outcome:
        spec = self.session.engine.registry.catalog.stream("s")
        return outcome_of([spec], self.epochs, list(self.asked.values()))

    def window(self) -> tuple[dict[str, str | int | None], Edge, Edge]:
        """Return a window of any kind, in words and for the oracle."""
        given: dict[str, str | int | None] = {}
        edges = []
        for word in ("begin", "end"):
            at = self.random.randrange(6 * len(self.epochs) + 10)
            kind = self.random.choice(["none", "at", "ago"])
            edges.append(
                Edge() if kind == "none" else Edge(at=at) if kind == "at" else Edge(ago=at // 2)
            )
            given[word] = {"none": None, "at": at, "ago": f"NOW - {at // 2} us"}[kind]
        return given, edges[0], edges[1]

    def check(self) -> None:
        """Invoke every query in a window of its own, and come back to it with a cursor."""
        outcome = self.outcome()
        for name, query in self.queries.items():
            words, begin, end = self.window()
            expected = invoked(outcome, name, ["s"], self.retained[name], begin, end)
            found = query.results(begin=words["begin"], end=words["end"])
            assert bag(found) == sorted(map(repr, expected)), (name, words)
            self.check_cursor(outcome, name, self.random.randrange(-1, len(self.epochs)))

    def check_cursor(self, outcome: Outcome, name: str, after: int) -> None:
        """Come back with a cursor: nothing is missed, or it is told.

        A stream's spans are there for all its queries, so one that is young may be told that rows
        of before its time have gone.
        """
        query, engine = self.queries[name], self.session.engine
        stood = self.asked[name].first
        if stood > engine.manifest.epoch:
            return
        horizon = horizon_of(outcome, ["s"], self.retained[name])
        rows = outcome.answers.get("rows", [])
        missed = oldest_cursor([each for each in rows if each[0] >= stood], horizon)
        arguments = engine.root, engine.manifest, query.feed, query.id
        oldest = changed.oldest_cursor(engine.manifest, query.feed)
        assert missed <= oldest <= oldest_cursor(rows, horizon)
        if after < oldest:
            with pytest.raises(LostAnswersError, match="no longer kept") as told:
                changed.changes(*arguments, after)
            assert told.value.oldest == oldest
            after = oldest
        table, cursor = changed.changes(*arguments, after)
        everything = invoked(outcome, name, ["s"], self.retained[name], Edge(), Edge())
        assert bag(table) == sorted(repr(each) for each in everything if each[0] > after)
        assert cursor == engine.manifest.epoch
        together = changes_of(engine.root, engine.manifest, [(query.feed, query.id)], after)
        mine = together.get((query.feed.name, query.id), table.slice(0, 0))
        assert (mine.schema, repr(mine.to_pylist())) == (table.schema, repr(table.to_pylist()))


def bag(table: pa.Table) -> list[str]:
    """Return answers as the oracle tells them, in any order."""
    times = table.column("_time").cast(pa.int64()).to_pylist()
    values = zip(*(table.column(name).to_pylist() for name in ("at", "value", "low")), strict=True)
    found: list[Answer] = [
        (epoch, time, late, row)
        for epoch, time, late, row in zip(
            table.column("_epoch").to_pylist(),
            times,
            table.column("_late").to_pylist(),
            values,
            strict=True,
        )
    ]
    return sorted(map(repr, found))


def _asked(name: str, which: str, first: int) -> Asked:
    low = LOW[which]

    def keeps(row: Row) -> bool:
        value = row["value"]
        return name == "rows" or (isinstance(value, float) and not value <= low)

    return Asked(name, "s", keeps, lambda row: (row["at"], row["value"], low), first)


@FEWER
@given(st.integers(0, 1 << 30), st.sampled_from(CONFIGURATIONS))
def test_any_interleaving_gives_what_invoking_means(seed: int, how: Configuration) -> None:
    with how.applied():
        world = World(how, seed)
        world.register()
        for _ in range(world.random.randrange(4, 16)):
            do = world.random.choice(
                ["feed"] * 6 + ["register", "drop", "reopen"] + ["repolice"] * 2
            )
            getattr(world, do)()
            if world.random.random() < 0.4:
                world.check()
        world.check()
        world.session.close()


def test_long_retention_is_merged_and_read_as_ever() -> None:
    world = World(configuration("plain"), 7)
    world.register()
    for _ in range(120):
        world.feed()
    world.check()

    stores = world.session.engine.manifest.stores
    found = [each for name, each in stores.items() if name.startswith(("found/", "seen/"))]
    assert found
    assert all(len(each.runs) <= 16 for each in found)
    assert all(each.rows < 120 for each in found)
    world.session.close()
