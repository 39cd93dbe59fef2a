"""Printed for DuckDB and run there, a plan means what its definition says, to the last bit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import Relation
from millrace.reading.duckdb_run import Limits, run
from millrace.reading.duckdb_sql import printed
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.relations import Definition
from millrace.testing.relation_strategies import DECLARED, LAST, Worlds, plans, worlds

INSTANTS = st.sampled_from([*range(6, LAST + 5), *range(6)])  # early there is little to see
FEWER = settings(max_examples=max(settings.default.max_examples // 2, 1))  # type: ignore[union-attr]


def answered(plan: Relation, definition: Definition, at: int) -> pa.Table:
    found = printed(plan, DECLARED)
    tables = []
    for loaded in found.tables:
        leaf = loaded.leaf
        names = [name for name, _ in loaded.columns]
        schema = relation_schema(leaf, DECLARED)
        rows = definition.relation(leaf, at)
        tables.append(
            pa.table(
                {
                    name: pa.array(
                        [row[f"{leaf.alias}.{name}"] for row in rows],
                        schema.type_of(f"{leaf.alias}.{name}"),
                    )
                    for name in names
                }
            )
        )
    return run(found, tables, relation_schema(plan, DECLARED), {}, Limits())


def counted(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(same, row)) for row in rows)


def agree(plan: Relation, world: Worlds, at: int) -> None:
    definition = Definition(DECLARED, *world)

    table = answered(plan, definition, at)

    expected = [tuple(row.values()) for row in definition.relation(plan, at)]
    found = list(zip(*(each.to_pylist() for each in table.columns), strict=True))
    assert counted(found) == counted(expected)
    assert table.schema.equals(relation_schema(plan, DECLARED).to_arrow())


@FEWER
@given(plans(), worlds(), INSTANTS)
def test_a_plan_means_the_same(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)


@FEWER
@given(plans(1, root="group"), worlds(), INSTANTS)
def test_aggregates_mean_the_same_and_are_exact(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)


@FEWER
@given(plans(2, root="asked"), worlds(), INSTANTS)
def test_subqueries_mean_the_same(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)


@FEWER
@given(plans(1, root="top"), worlds(), INSTANTS)
def test_order_means_the_same(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)


@pytest.mark.parametrize("root", ["join", "combined", "distinct", "project", "filter"])
def test_every_operator_means_the_same(root: Any) -> None:
    @FEWER
    @given(plans(2, root=root), worlds(), INSTANTS)
    def check(plan: Relation, world: Worlds, at: int) -> None:
        agree(plan, world, at)

    check()
