"""Templates of plans in a session: each of their queries answers as one of its own would."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.plan.declared import Declared
from millrace.plan.relations import Relation, StreamOf
from millrace.schema import Schema
from millrace.session.planning import sources_of
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root
from millrace.testing.family_strategies import Family, families, members, with_constants
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.families import Member
from millrace.testing.oracle.relations import Element
from millrace.testing.pane_strategies import paned_families
from millrace.testing.relation_strategies import plans
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEW = settings(max_examples=max(DRAWN // 10, 1))
TIMED = Declared(
    {
        name: Schema((*schema, *Schema.of("ts timestamp")))
        for name, schema in DECLARED.streams.items()
    },
    DECLARED.tables,
)
CONFIGURATIONS = {
    "no panes": Settings(families="never", spread="never", panes="never"),
    "sparse panes": Settings(families="never", shards=2, spread="always", panes="sparse"),
    "together": Settings(families="never", spread="never", hops=False),
    "spread": Settings(families="never", shards=2, spread="always", hops=False),
    "four shards, merging at once": Settings(
        families="never", shards=4, spread="always", merge_at_start=True
    ),
    "alike ones as one": Settings(families="always", shards=2, spread="always"),
}
CUTS = st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(sorted)
Told = Counter[tuple[Any, ...]]


def reads_a_stream(plan: Relation) -> bool:
    return any(sources_of(StreamOf("istream", plan)))


def fed(elements: list[Element], name: str) -> pa.Table:
    rows, schema = [{**row, "ts": at} for at, row in elements], TIMED.streams[name]
    plain = pa.schema([pa.field(each.name, pa.int64() if each.name == "ts" else each.type)
                       for each in schema])  # fmt: skip
    return pa.Table.from_pylist(rows, schema=plain).cast(schema.to_arrow())


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(same, value))
    return same(round(value.timestamp() * 1e6) if isinstance(value, datetime) else value)


@st.composite
def cases(draw: st.DrawFn) -> Any:
    """Draw a family, and queries that are born and dropped before a piece of the streams."""
    family = draw(families(plans(3).filter(reads_a_stream)))
    cuts = draw(CUTS)
    some = draw(members(family.types, range(len(cuts) + 1), len(cuts) + 2))
    return family, some, draw(worlds()), [*cuts, END], draw(st.integers(0, 5))


@FEW
@given(cases())
def test_each_query_answers_as_it_would_alone(case: Any) -> None:
    check(CONFIGURATIONS["spread"], *case)


@FEW
@given(cases())
def test_texts_that_differ_in_constants_alone_answer_as_its_queries(case: Any) -> None:
    check(CONFIGURATIONS["alike ones as one"], *case)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@FEW
@given(cases())
def test_it_does_so_in_every_configuration(name: str, case: Any) -> None:
    check(CONFIGURATIONS[name], *case)


@st.composite
def cases_of_panes(draw: st.DrawFn) -> Any:
    """Draw a family whose queries share panes, told as a stream or as a relation."""
    family, stream = draw(paned_families())
    cuts = draw(CUTS)
    some = draw(members(family.types, range(len(cuts) + 1), len(cuts) + 2))
    every = stream.every if stream.kind == "rstream" else None
    return family, some, draw(worlds()), [*cuts, END], draw(st.integers(0, 5)), every


@FEW
@given(cases_of_panes())
def test_queries_that_share_panes_answer_as_they_would_alone(case: Any) -> None:
    check(CONFIGURATIONS["spread"], *case)


@FEW
@given(cases_of_panes())
def test_so_do_texts_that_differ_in_constants_alone(case: Any) -> None:
    check(CONFIGURATIONS["alike ones as one"], *case)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@FEW
@given(cases_of_panes())
def test_they_do_so_in_every_configuration(name: str, case: Any) -> None:
    check(CONFIGURATIONS[name], *case)


def check(
    how: Settings,
    family: Family,
    some: list[Member],
    world: Worlds,
    ends: list[int],
    restart: int,
    every: int | None = None,
) -> None:
    trial = Trial(MemoryRoot(), how, family, some, every)
    trial.run_all(world, ends, restart)

    for member in some:
        assert trial.by_family(member) == trial.alone[member.qid], member


@dataclass
class Trial:
    """A session with a template, and each of its queries once more by itself.

    Queries are relations, or streams that tell all of them at every so many instants.
    """

    root: Root
    settings: Settings
    family: Family
    members: list[Member]
    every: int | None = None
    ids: dict[int, int] = field(default_factory=dict)
    alone: dict[int, Told] = field(default_factory=dict)

    def asked(self, plan: Relation) -> Relation | StreamOf:
        return plan if self.every is None else StreamOf("rstream", plan, self.every)

    def run_all(self, world: Worlds, ends: list[int], restart: int) -> None:
        """Feed streams piece by piece, with a new session before one of the pieces."""
        self.open()
        for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if number == restart:
                self.session.close()
                self.open()
            self.change_queries(number)
            for name, some in world[1].items():
                now = [each for each in some if begin <= each[0] < end]
                self.change_table(name, [row for _, row, copies in now if copies > 0], 1)
                self.change_table(name, [row for _, row, copies in now if copies < 0], -1)
            self.run.feed(
                **{
                    name: fed([each for each in some if begin <= each[0] < end], name)
                    for name, some in world[0].items()
                }
            )
        nulls = {name: dict.fromkeys(of.names) for name, of in TIMED.streams.items()}
        self.run.feed(**{name: fed([(END, row)], name) for name, row in nulls.items()})
        for member in self.members:
            if member.qid not in self.alone:
                self.alone[member.qid] = self.by_itself(member)

    def open(self) -> None:
        self.session = millrace.Session(self.root, settings=self.settings)
        for name, schema in TIMED.streams.items():
            self.session.stream(name, millrace.Feed(), schema=schema, time="ts")
        for name, schema in TIMED.tables.items():
            self.session.table(name, schema)
        types = {f"x{at}": each for at, each in enumerate(self.family.types)}
        self.template = self.session.template(
            "family", self.asked(self.family.plan), types, keep=10_000, unbounded=True
        )
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def change_queries(self, number: int) -> None:
        """Insert and delete the queries that are born before a piece, and those that end."""
        for member in self.members:
            if member.end == number:
                self.alone[member.qid] = self.by_itself(member)
                self.session.standing(f"alone{member.qid}").drop()
                self.template.delete([self.ids[member.qid]])
        born = [each for each in self.members if each.birth == number]
        if born:
            columns = zip(*(each.values for each in born), strict=True)
            rows = {f"x{at}": list(column) for at, column in enumerate(columns)}
            for member, qid in zip(born, self.template.insert(rows).to_pylist(), strict=True):
                self.ids[member.qid] = qid
        for member in born:
            plan = self.asked(with_constants(self.family.plan, member.values))
            self.session.query(plan, name=f"alone{member.qid}", unbounded=True)

    def change_table(self, name: str, rows: list[dict[str, Any]], copies: int) -> None:
        if rows:
            table = self.session.standing_table(name)
            given = pa.Table.from_pylist(rows, schema=TIMED.tables[name].to_arrow())
            table.insert(given) if copies > 0 else table.delete(given)

    def by_itself(self, member: Member) -> Told:
        query = self.session.standing(f"alone{member.qid}")
        assert isinstance(query, millrace.Query)
        assert query.failure is None, query.failure
        return told(query)

    def by_family(self, member: Member) -> Told:
        query = self.template.query(self.ids[member.qid]) if member.end > 5 else None
        answers = self.template.results()
        assert query is None or query.failure is None, query.failure
        mine = pc.equal(answers.column("_query"), self.ids[member.qid])
        return rows_of(answers.filter(mine))


def told(query: millrace.Query) -> Told:
    return rows_of(query.results())


def rows_of(answers: pa.Table) -> Told:
    names = [each for each in answers.column_names if not each.startswith("_")]
    leading = [each for each in ("_change", "_time") if each in answers.column_names]
    rows = answers.select([*leading, *names]).to_pylist()
    return Counter(tuple(map(comparable, row.values())) for row in rows)
