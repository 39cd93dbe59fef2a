"""Families of plans against the definition: any plan, any queries, cut anywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.operators.keys import N_BUCKETS, bucket_of, hash_columns
from millrace.operators.relational.passing import Run
from millrace.operators.relational.plan import Plan
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.state import MemoryState
from millrace.plan.families import Families
from millrace.plan.levels import BIRTHS, QUERIES, family_declared
from millrace.plan.placement import EVERYWHERE, Placing
from millrace.plan.push import Pushing
from millrace.plan.relations import StreamKind, StreamOf
from millrace.plan.unnest import Unnesting
from millrace.schema import type_named
from millrace.testing.family_strategies import Family, families, members
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.bags import Bagged
from millrace.testing.oracle.families import Member, told_by
from millrace.testing.oracle.relations import Definition, Element
from millrace.testing.relation_strategies import Root, plans
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEWER, MORE = settings(max_examples=max(DRAWN // 8, 1)), settings(max_examples=max(DRAWN // 4, 1))
KINDS: tuple[StreamKind, ...] = ("istream", "dstream", "rstream")
CUTS = st.lists(st.integers(1, END - 1), max_size=5).map(lambda cuts: [*sorted(set(cuts)), END])
Told = Counter[tuple[Any, ...]]


def expected(family: Family, some: list[Member], world: Worlds, stream: StreamOf) -> Told:
    definition = Definition(DECLARED, *world)
    return Counter(
        (member.qid, *comparable(at, list(row.values())))
        for member in some
        for at, row in told_by(member, stream, definition)
    )


def comparable(at: int, row: list[Any]) -> tuple[Any, ...]:
    values = (tuple(map(same, each)) if isinstance(each, list) else same(each) for each in row)
    return at, *values


class Trial:
    """The plan of a family, and how its inputs are made for slabs and shards."""

    def __init__(self, family: Family, some: list[Member], world: Worlds) -> None:
        self.types = [type_named(each) for each in family.types]
        self.members, self.world = some, world
        self.declared = family_declared(DECLARED, self.types)

    def streams(self, family: Family, *kinds: StreamKind) -> list[StreamOf]:
        pushing, unnesting = Pushing(DECLARED), Unnesting(DECLARED)
        making = Families(DECLARED, self.types)
        found = []
        for kind in kinds:
            plain = unnesting.stream(pushing.stream(StreamOf(kind, family.plan)))
            assert isinstance(plain, StreamOf)
            found.append(making.stream(plain))
        return found

    def slab(
        self, begin: int, end: int, state: MemoryState, share: dict[str, Any] | None = None
    ) -> Slab:
        streams, tables = self.world
        births = sorted({each.birth for each in self.members})
        copied = {
            name: [
                (at, {**row, "#birth": birth})
                for at, row in some
                for birth in births
                if birth <= at
            ]
            for name, some in streams.items()
        }
        rows = {
            QUERIES: [change for each in self.members for change in self.changes(each)],
            BIRTHS: [(each, {"birth": each}, 1) for each in births],
        }
        inputs: dict[str, list[Any]] = {**copied, **tables, **rows}
        taken = {name: self.taken(name, some, begin, end, share) for name, some in inputs.items()}
        chosen = {name: each for name, each in taken.items() if name in streams}
        others = {name: each for name, each in taken.items() if name not in streams}
        return Slab(begin, end, chosen, others, state, first=begin == 0)

    def changes(self, member: Member) -> list[tuple[int, dict[str, Any], int]]:
        values = {f"p{at}": each for at, each in enumerate(member.values)}
        row = {"qid": member.qid, "birth": member.birth, **values}
        return [(member.birth, row, 1), (member.end, row, -1)]

    def taken(
        self, name: str, items: list[Any], begin: int, end: int, share: dict[str, Any] | None
    ) -> Elements:
        schema = (self.declared.streams.get(name) or self.declared.tables[name]).to_arrow()
        some = [each for each in items if begin <= each[0] < end]
        rows = pa.RecordBatch.from_pylist([each[1] for each in some], schema=schema)
        if share is not None and share["columns"].get(name, EVERYWHERE) != EVERYWHERE:
            hashes = hash_columns(rows, [share["columns"][name]])
            owners = bucket_of(hashes).astype(np.int64) * share["n"] // N_BUCKETS
            mask = owners == share["shard"]
            some = [each for each, mine in zip(some, mask, strict=True) if mine]
            rows = rows.filter(pa.array(mask))
        is_table = name in self.declared.tables
        copies = np.array([each[2] for each in some], np.int64) if is_table else None
        return Elements(rows, np.array([each[0] for each in some], np.int64), copies)

    def told(self, elements: Elements) -> Told:
        """Return what is told by queries that are alive; the others are not heard."""
        ends = {each.qid: each.end for each in self.members}
        rows = (list(row.values()) for row in elements.rows.to_pylist())
        return Counter(
            (row[0], *comparable(at, row[1 + len(self.types) :]))
            for at, row in zip(elements.times.tolist(), rows, strict=True)
            if at < ends[row[0]]
        )


def check(family: Family, some: list[Member], world: Worlds, cuts: list[int]) -> None:
    trial = Trial(family, some, world)
    streams = trial.streams(family, *KINDS)
    plan, state = Plan(streams, trial.declared, again=False), MemoryState()
    told = [Told() for _ in streams]
    for begin, end in zip([0, *cuts], cuts, strict=False):
        run = Run(trial.slab(begin, end, state))
        for each, found in zip(streams, told, strict=True):
            found.update(trial.told(plan.stream(each, run)))
        state.settle(end)

    for kind, found in zip(KINDS, told, strict=True):
        assert found == expected(family, some, world, StreamOf(kind, family.plan)), kind


@st.composite
def cases(draw: st.DrawFn, depth: int = 3, root: Root | None = None) -> Any:
    family = draw(families(plans(depth, root=root)))
    cuts = draw(CUTS)
    some = draw(members(family.types, [0, *cuts[:-1]], END))
    streams, tables = draw(worlds())
    ordered = {name: sorted(each, key=in_order) for name, each in streams.items()}
    return family, some, (ordered, tables), cuts


def in_order(element: Element) -> Any:
    """Order elements of one instant as streams do, where rows are counted."""
    return element[0], Bagged.of(element[1]).place()


@FEWER
@given(cases())
def test_each_query_tells_what_it_would_alone(case: Any) -> None:
    check(*case)


@pytest.mark.slow
@pytest.mark.parametrize("root", [None, "group", "asked", "top", "join", "combined", "derived"])
@MORE
@given(st.data())
def test_many_families_of_each_kind(root: Root | None, data: st.DataObject) -> None:
    check(*data.draw(cases(4 if root is None else 3, root)))


@FEWER
@given(cases())
def test_shards_tell_the_same_together(case: Any) -> None:
    family, some, world, cuts = case
    trial = Trial(family, some, world)
    [stream] = trial.streams(family, "istream")
    columns = Placing(trial.declared).columns(stream)
    if columns is None:
        return
    plan = Plan([stream], trial.declared, columns, again=False)
    stores = dict[str, list[pa.RecordBatch]]()
    told, width = Told(), (1 << 64) // 3
    for begin, end in zip([0, *cuts], cuts, strict=False):
        states = [MemoryState(stores, (at * width, (at + 1) * width)) for at in range(3)]
        for at, state in enumerate(states):
            share = {"shard": at, "n": 3, "columns": columns}
            told.update(trial.told(plan.stream(stream, Run(trial.slab(begin, end, state, share)))))
        for state in states:
            state.settle(end)

    assert told == expected(family, some, world, StreamOf("istream", family.plan))
