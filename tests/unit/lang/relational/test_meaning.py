"""Random queries: their plans mean what DuckDB says, and their flags say what the plans do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from millrace.lang.relational.bound import bind_relational
from millrace.plan.relation_types import Declared
from millrace.plan.relations import Relation, StreamOf
from millrace.schema import Schema
from millrace.testing.oracle.relations import Definition
from millrace.testing.query_texts import queries

Pair: TypeAlias = tuple[int | None, int | None]

DECLARED = Declared({"p": Schema.of("a int, b int"), "q": Schema.of("a int, b int")})
ENDS = 8
NUMBERS = st.none() | st.integers(0, 3)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5)
ELEMENTS = st.lists(st.tuples(st.integers(0, ENDS - 3), NUMBERS, NUMBERS), max_size=5)


def relation_of(plan: Relation | StreamOf) -> Relation:
    return plan.relation if isinstance(plan, StreamOf) else plan


def bag(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)


def elements(
    rows: Sequence[tuple[int, int | None, int | None]],
) -> list[tuple[int, dict[str, Any]]]:
    ordered = sorted(rows, key=lambda row: row[0])
    return [(at, {"a": one, "b": other}) for at, one, other in ordered]


@given(queries())
def test_the_expanded_text_binds_to_the_same_plan(text: str) -> None:
    bound = bind_relational(text, DECLARED)

    again = bind_relational(bound.expanded, DECLARED)

    assert again.plan == bound.plan
    assert again.expanded == bound.expanded
    assert bound.schema.names == ("x", "y")


@given(queries(windows=False, asking=False), ROWS, ROWS)
def test_over_all_of_its_streams_a_query_is_plain_sql(
    text: str, first: list[Pair], second: list[Pair]
) -> None:
    plan = relation_of(bind_relational(text, DECLARED).plan)
    history = {
        name: [(0, {"a": one, "b": other}) for one, other in rows]
        for name, rows in (("p", first), ("q", second))
    }
    with duckdb.connect() as other:
        for name, rows in (("p", first), ("q", second)):
            other.execute(f"CREATE TABLE {name} (a INT, b INT)")
            if rows:
                other.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
        told = Counter(other.execute(text).fetchall())

    assert bag(Definition(DECLARED, history).relation(plan, 0)) == told


@given(queries(asking=False, depth=1), ELEMENTS, ELEMENTS)
def test_the_flags_say_how_the_relation_changes(
    text: str,
    first: list[tuple[int, int | None, int | None]],
    second: list[tuple[int, int | None, int | None]],
) -> None:
    bound = bind_relational(text, DECLARED)
    history = {"p": elements(first), "q": elements(second)}
    given = Definition(DECLARED, history)
    states = [bag(given.relation(relation_of(bound.plan), at)) for at in range(ENDS)]

    if bound.monotonic:
        assert all(not before - after for before, after in pairwise(states))
    if bound.instantaneous and "STREAM(" not in text:  # a derived stream has instants of its own
        busy = {at for at, *_ in (*first, *second)}
        assert all(not rows for at, rows in enumerate(states) if at not in busy)
