"""The operators on relations against the definition: any plan, any data, cut anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.operators.relational.plan import Plan, Run
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.state import MemoryState
from millrace.plan.relations import Relation, StreamKind, StreamOf
from millrace.plan.unnest import Unnesting
from millrace.schema import Schema
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.relations import Definition
from millrace.testing.relation_strategies import plans
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
KINDS: tuple[StreamKind, ...] = ("istream", "dstream", "rstream")
CUTS = st.lists(st.integers(1, END - 1), max_size=5).map(lambda cuts: [*sorted(set(cuts)), END])
Told = list[tuple[Any, ...]]


def executed(streams: Sequence[StreamOf], world: Worlds, ends: Sequence[int]) -> list[Told]:
    """Run a plan slab by slab and return what each stream tells."""
    unnesting = Unnesting(DECLARED)
    nodes = [unnesting.stream(each) for each in streams]
    plan, state = Plan(DECLARED), MemoryState()
    told: list[Told] = [[] for _ in nodes]
    for begin, end in zip([0, *ends], ends, strict=False):
        slab = Slab(
            begin,
            end,
            {name: taken(world[0][name], of, begin, end) for name, of in DECLARED.streams.items()},
            {name: taken(world[1][name], of, begin, end) for name, of in DECLARED.tables.items()},
            state,
            first=begin == 0,
        )
        run = Run(slab)
        for node, found in zip(nodes, told, strict=True):
            elements = plan.stream(node, run)
            rows = elements.rows.to_pylist()
            found += [
                comparable(at, row) for at, row in zip(elements.times.tolist(), rows, strict=True)
            ]
        state.settle(end)
    return told


def taken(items: Sequence[tuple[Any, ...]], schema: Schema, begin: int, end: int) -> Elements:
    some = [each for each in items if begin <= each[0] < end]
    copies = np.array([each[2] for each in some], np.int64) if some and len(some[0]) > 2 else None
    return Elements(
        pa.RecordBatch.from_pylist([each[1] for each in some], schema=schema.to_arrow()),
        np.array([each[0] for each in some], np.int64),
        copies,
    )


def comparable(at: int, row: dict[str, Any]) -> tuple[Any, ...]:
    values = (tuple(map(same, each)) if isinstance(each, list) else same(each)
              for each in row.values())  # fmt: skip
    return at, *values


@given(plans(3), worlds(), CUTS)
def test_what_is_told_is_what_the_definition_says(
    plan: Relation, world: Worlds, cuts: list[int]
) -> None:
    definition = Definition(DECLARED, *world)
    streams = [StreamOf(kind, plan) for kind in KINDS]
    expected = [
        [comparable(at, row) for at, row in definition.stream(each, END - 1)] for each in streams
    ]

    assert executed(streams, world, cuts) == expected


@pytest.mark.parametrize("every", [1, 3, 5])
@given(plans(1), worlds(), CUTS)
def test_a_relation_is_told_at_every_multiple(
    every: int, plan: Relation, world: Worlds, cuts: list[int]
) -> None:
    definition = Definition(DECLARED, *world)
    stream = StreamOf("rstream", plan, every)
    expected = [comparable(at, row) for at, row in definition.stream(stream, END - 1)]

    assert executed([stream], world, cuts) == [expected]
