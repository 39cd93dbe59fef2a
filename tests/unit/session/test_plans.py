"""Standing plans in a session against the definition: cuts, shards, merges and restarts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millrace
from millrace.engine.facts import frontiers, watermarks
from millrace.engine.local import LocalRun
from millrace.engine.progress import frontier
from millrace.engine.settings import Settings
from millrace.plan.declared import Declared
from millrace.plan.relations import Relation, StreamKind, StreamOf
from millrace.schema import Schema
from millrace.session.planning import sources_of, tables_of
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.bags import Bagged
from millrace.testing.oracle.relations import Definition, Element
from millrace.testing.relation_strategies import plans
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEWER, MORE = settings(max_examples=max(DRAWN // 5, 1)), settings(max_examples=max(DRAWN // 3, 1))
KINDS: dict[StreamKind, int] = {"istream": 1, "dstream": -1}
Taken = dict[str, list[tuple[int | None, dict[str, Any], int]]]
TIMED = Declared(
    {
        name: Schema((*schema, *Schema.of("ts timestamp")))
        for name, schema in DECLARED.streams.items()
    },
    DECLARED.tables,
)
CONFIGURATIONS = {
    "together": Settings(spread="never"),
    "spread": Settings(shards=2, spread="always"),
    "four shards, merging at once": Settings(shards=4, spread="always", merge_at_start=True),
    "without merging": Settings(shards=2, spread="always", merging=False),
    "without hops": Settings(shards=2, spread="always", hops=False),
}


def reads_a_stream(plan: Relation) -> bool:
    return any(sources_of(StreamOf("istream", plan)))


def timed(elements: list[Element]) -> list[Element]:
    """Give rows their instants as a column, and order those of one instant canonically."""
    rows = [(at, {**row, "ts": at}) for at, row in elements]
    return sorted(rows, key=lambda each: (each[0], Bagged.of(each[1]).place()))


def fed(elements: list[Element], name: str) -> pa.Table:
    rows, schema = [row for _, row in elements], TIMED.streams[name]
    plain = pa.schema([pa.field(each.name, pa.int64() if each.name == "ts" else each.type)
                       for each in schema])  # fmt: skip
    return pa.Table.from_pylist(rows, schema=plain).cast(schema.to_arrow())


def comparable(at: int, values: list[Any]) -> tuple[Any, ...]:
    return at, *(tuple(map(same, each)) if isinstance(each, list) else same(instant(each))
                 for each in values)  # fmt: skip


def instant(value: Any) -> Any:
    return round(value.timestamp() * 1e6) if isinstance(value, datetime) else value


PLANS = plans(3).filter(reads_a_stream)
CUTS = st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(sorted)
BORN = st.sampled_from([0, 0, 1, 2])


@FEWER
@given(PLANS, worlds(), CUTS, st.integers(0, 5), BORN)
def test_a_session_tells_what_the_definition_says(
    plan: Relation, world: Worlds, cuts: list[int], restart: int, born: int
) -> None:
    check(CONFIGURATIONS["spread"], plan, world, cuts, restart, born)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@MORE
@given(PLANS, worlds(), CUTS, st.integers(0, 5), BORN)
def test_it_does_so_in_every_configuration(
    name: str, plan: Relation, world: Worlds, cuts: list[int], restart: int, born: int
) -> None:
    check(CONFIGURATIONS[name], plan, world, cuts, restart, born)


def check(
    how: Settings, plan: Relation, world: Worlds, cuts: list[int], restart: int, born: int
) -> None:
    streams = {each: timed(world[0][each]) for each in TIMED.streams}
    ends = [*cuts, END]
    born = min(born, len(cuts))
    trial = Trial(MemoryRoot(), how, plan)

    told = trial.executed((streams, world[1]), ends, restart, born)

    seen = [0, *ends][born]
    later = {each: [one for one in some if one[0] >= seen] for each, some in streams.items()}
    assert told == expected(plan, later, trial)


def expected(
    plan: Relation, streams: dict[str, list[Element]], trial: Trial
) -> Counter[tuple[Any, ...]]:
    """Return what comes and goes from where the plan begins.

    That is where all its streams were complete when it was registered, or its first element.
    """
    sources = set(sources_of(StreamOf("istream", plan)))
    first = min((at for name in sources for at, _ in streams[name]), default=END)
    begin = first if trial.begin is None else trial.begin
    tables = {
        name: [(begin if at is None else at, row, copies) for at, row, copies in some]
        for name, some in trial.changes.items()
    }
    definition = Definition(TIMED, streams, tables, begin=begin)
    found = Counter[tuple[Any, ...]]()
    for at in range(begin, END):
        for kind, change in KINDS.items():
            told = definition.told(StreamOf(kind, plan), at)
            found.update((change, *comparable(at, [*row.values()])) for row in told)
    return found


@dataclass
class Trial:
    """A session that runs a plan; `changes` are those of tables, with when they took effect."""

    root: Root
    settings: Settings
    plan: Relation
    begin: int | None = None
    changes: Taken = field(default_factory=lambda: {name: [] for name in TIMED.tables})

    def executed(
        self, world: Worlds, ends: list[int], restart: int, born: int
    ) -> Counter[tuple[Any, ...]]:
        """Feed streams piece by piece, with a new session before one of the pieces.

        The changes of tables that belong to a piece are made before it; the plan is registered
        before the piece `born`.
        """
        self.open()
        for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if number == restart:
                self.session.close()
                self.open()
            if number == born:
                self.session.query(self.plan, name="plan", unbounded=True)
                self.begin = self.frontier()
            for name in set(tables_of(StreamOf("istream", self.plan))):
                some = [each for each in world[1][name] if begin <= each[0] < end]
                self.change(name, [row for _, row, copies in some if copies > 0], 1)
                self.change(name, [row for _, row, copies in some if copies < 0], -1)
            self.run.feed(
                **{
                    name: fed([each for each in some if begin <= each[0] < end], name)
                    for name, some in world[0].items()
                }
            )
        nulls = {name: {**dict.fromkeys(of.names), "ts": END} for name, of in TIMED.streams.items()}
        self.run.feed(**{name: fed([(END, row)], name) for name, row in nulls.items()})
        return self.told()

    def open(self) -> None:
        self.session = millrace.Session(self.root, settings=self.settings)
        for name, schema in TIMED.streams.items():
            self.session.stream(name, millrace.Feed(), schema=schema, time="ts")
        for name, schema in TIMED.tables.items():
            self.session.table(name, schema)
        if "plan" in self.session.engine.registry.catalog.feeds:
            self.session.query(self.plan, name="plan", unbounded=True)
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def frontier(self) -> int | None:
        engine = self.session.engine
        manifest, catalog = engine.manifest, engine.registry.catalog
        if "plan" not in catalog.feeds:
            return None
        begin = frontier(catalog.feeds["plan"], watermarks(manifest, catalog))
        return frontiers(manifest, catalog).get("plan", begin)

    def change(self, name: str, rows: list[dict[str, Any]], copies: int) -> None:
        """Change a table; the plan sees it from its frontier on, None being where it begins."""
        if not rows:
            return
        table = self.session.standing_table(name)
        given = pa.Table.from_pylist(rows, schema=TIMED.tables[name].to_arrow())
        table.insert(given) if copies > 0 else table.delete(given)
        at = self.frontier()
        self.changes[name] += [(at, row, copies) for row in rows]

    def told(self) -> Counter[tuple[Any, ...]]:
        query = self.session.standing("plan")
        assert isinstance(query, millrace.Query)
        assert query.failure is None, query.failure
        answers = query.results()
        self.session.close()
        times = answers.column("_time").cast(pa.int64()).to_pylist()
        names = [each for each in answers.column_names if not each.startswith("_")]
        rows = answers.select(["_change", *names]).to_pylist()
        values = ([*row.values()] for row in rows)
        return Counter(
            (change, *comparable(at, rest))
            for at, (change, *rest) in zip(times, values, strict=True)
        )
