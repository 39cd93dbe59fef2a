"""Families of plans against the definition: any plan, any queries, cut anywhere."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.operators.relational.passing import Run
from millrace.operators.relational.plan import Plan
from millrace.operators.relational.state import MemoryState
from millrace.plan.placement import Placing
from millrace.plan.relations import StreamKind, StreamOf
from millrace.testing.family_strategies import Family, families, members
from millrace.testing.family_trials import Told, Trial, expected, in_order
from millrace.testing.oracle.families import Member
from millrace.testing.relation_strategies import Root, plans
from millrace.testing.relation_worlds import LAST, Worlds, worlds

END = LAST + 3
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEWER, MORE = settings(max_examples=max(DRAWN // 8, 1)), settings(max_examples=max(DRAWN // 4, 1))
KINDS: tuple[StreamKind, ...] = ("istream", "dstream", "rstream")
CUTS = st.lists(st.integers(1, END - 1), max_size=5).map(lambda cuts: [*sorted(set(cuts)), END])


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
        assert found == expected(some, world, StreamOf(kind, family.plan)), kind


@st.composite
def cases(draw: st.DrawFn, depth: int = 3, root: Root | None = None) -> Any:
    family = draw(families(plans(depth, root=root)))
    cuts = draw(CUTS)
    some = draw(members(family.types, [0, *cuts[:-1]], END))
    streams, tables = draw(worlds())
    ordered = {name: sorted(each, key=in_order) for name, each in streams.items()}
    return family, some, (ordered, tables), cuts


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

    assert told == expected(some, world, StreamOf("istream", family.plan))
