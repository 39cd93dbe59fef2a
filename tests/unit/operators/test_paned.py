"""Families that share panes against the definition: each query as it would tell alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.operators.relational import paned, questions
from millrace.operators.relational.passing import Run
from millrace.operators.relational.plan import Plan
from millrace.operators.relational.state import MemoryState
from millrace.plan.expressions import Both, Column, Compare, Parameter
from millrace.plan.panes import PaneWay
from millrace.plan.panes import paned as shared_panes
from millrace.plan.placement import Placing
from millrace.plan.relations import Aggregate, Filter, Group, Source, StreamOf, Window, Windowed
from millrace.testing.family_strategies import Family, members
from millrace.testing.family_trials import Told, Trial, expected, in_order
from millrace.testing.oracle.families import Member
from millrace.testing.pane_strategies import paned_families
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
MANY = settings(max_examples=max(DRAWN // 2, 1))
WAYS: tuple[PaneWay, ...] = ("auto", "dense", "sparse", "never")
CUTS = st.lists(st.integers(1, END - 1), max_size=5).map(lambda cuts: [*sorted(set(cuts)), END])


@st.composite
def cases(draw: st.DrawFn) -> Any:
    family, stream = draw(paned_families())
    cuts = draw(CUTS)
    some = draw(members(family.types, [0, *cuts[:-1]], END))
    streams, tables = draw(worlds())
    ordered = {name: sorted(each, key=in_order) for name, each in streams.items()}
    return family, stream, some, (ordered, tables), cuts


def check(way: PaneWay, case: Any) -> None:
    family, stream, some, world, cuts = case
    trial = Trial(family, some, world)
    [made] = trial.made(stream)
    found = shared_panes(made, trial.declared)
    plan, state, told = Plan([made], trial.declared, again=False, panes=way), MemoryState(), Told()
    for begin, end in zip([0, *cuts], cuts, strict=False):
        told.update(trial.told(plan.stream(made, Run(trial.slab(begin, end, state)))))
        state.settle(end)

    assert found is not None, "queries share panes"
    assert told == expected(some, world, stream)


@pytest.mark.parametrize("way", WAYS)
@MANY
@given(cases())
def test_each_query_tells_what_it_would_alone(way: PaneWay, case: Any) -> None:
    check(way, case)


def test_a_column_that_must_equal_two_things_equals_both() -> None:
    """What is left of it after the first equality was forgotten, if nothing else was asked."""
    both = (Compare("=", Column("s.k"), Parameter(at, "int")) for at in (0, 1))
    window = Windowed(Source("s"), Window("range", 2, 1), "s")
    counted = Group(Filter(window, Both(*both)), (), (Aggregate("n", "count"),))
    row = dict.fromkeys(DECLARED.streams["s"].names)
    world: Worlds = {"s": [(0, {**row, "k": 1}), (1, {**row, "k": 2})], "t": []}, {"r": [], "q": []}
    some = [Member(at + 1, values, 0, END) for at, values in enumerate([(1, 1), (1, 2), (2, 2)])]

    for way in WAYS:
        check(
            way, (Family(counted, ("int", "int")), StreamOf("istream", counted), some, world, [END])
        )


@MANY
@given(cases())
def test_it_does_so_piece_by_piece(case: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "CELLS_AT_ONCE", 1)
        patch.setattr(questions, "ANSWERS_AT_ONCE", 1)
        patch.setattr(paned, "QUESTIONS_AT_ONCE", 1)

        check("dense", case)


@MANY
@given(cases())
def test_shards_tell_the_same_together(case: Any) -> None:
    family, stream, some, world, cuts = case
    trial = Trial(family, some, world)
    [made] = trial.made(stream)
    columns = Placing(trial.declared).columns(made)
    if columns is None:
        return
    plan = Plan([made], trial.declared, columns, again=False)
    stores = dict[str, list[pa.RecordBatch]]()
    told, width = Told(), (1 << 64) // 3
    for begin, end in zip([0, *cuts], cuts, strict=False):
        states = [MemoryState(stores, (at * width, (at + 1) * width)) for at in range(3)]
        for at, state in enumerate(states):
            share = {"shard": at, "n": 3, "columns": columns}
            told.update(trial.told(plan.stream(made, Run(trial.slab(begin, end, state, share)))))
        for state in states:
            state.settle(end)

    assert told == expected(some, world, stream)
