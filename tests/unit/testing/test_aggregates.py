"""What aggregates mean, at their edges."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millrace.plan.expressions import Column
from millrace.plan.relations import Aggregate, AggregateKind
from millrace.testing.oracle.aggregates import aggregated, same

INF, NAN = math.inf, math.nan


def of(
    kind: AggregateKind, values: list[Any], fraction: float | None = None, *, distinct: bool = False
) -> Any:
    aggregate = Aggregate("n", kind, Column("v"), distinct, fraction=fraction)
    return aggregated(aggregate, [(each, None) for each in values], pa.float64())


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("var_pop", [1, 2, 4, None], 14 / 9),
        ("var_samp", [1, 2, 4], 7 / 3),
        ("var_pop", [5], 0.0),
        ("var_samp", [5], None),
        ("var_pop", [None], None),
        ("stddev_pop", [1, 3], 1.0),
        ("stddev_samp", [None, 5], None),
        ("var_pop", [1e15, 1e15 + 2], 1.0),  # a sum of squares would lose it
        ("var_pop", [Decimal("0.1"), Decimal("0.3")], 0.009999999999999998),
        ("var_pop", [1.0, INF], NAN),
        ("var_pop", [NAN], NAN),
        ("stddev_pop", [0.0, 1e300], INF),  # its variance is no double
        ("var_pop", [0.0, 1e300], INF),
        ("sum", [1e308, 1e308], INF),
        ("avg", [1e308, 1e308], 1e308),
        ("avg", [-INF, 1.0], -INF),
        ("avg", [-INF, INF], NAN),
    ],
)
def test_numbers_are_exact_and_rounded_once(
    kind: AggregateKind, values: list[Any], expected: float | None
) -> None:
    assert same(of(kind, values)) == same(expected)


@pytest.mark.parametrize(
    ("values", "fraction", "between", "reaching"),
    [
        ([4, 1, None, 2], 0.5, 2.0, 2),
        ([4, 1, 2, 3], 0.5, 2.5, 2),
        ([4, 1, 2, 3], 0.0, 1.0, 1),
        ([4, 1, 2, 3], 1.0, 4.0, 4),
        ([4, 1, 2, 3], 0.75, 3.25, 3),
        ([2, 1], 0.75, 1.75, 2),
        (list(range(10)), 0.1, 0.9, 0),  # a tenth, though the double 0.1 is more
        (list(range(11)), 0.1, 1.0, 1),
        ([1.0, INF], 0.5, INF, 1.0),
        ([-INF, INF], 0.5, NAN, -INF),
        ([1.0, NAN, INF], 0.5, INF, INF),
        ([NAN, NAN], 0.5, NAN, NAN),
        ([None], 0.5, None, None),
    ],
)
def test_percentiles(
    values: list[Any], fraction: float, between: float | None, reaching: float | None
) -> None:
    assert same(of("percentile_cont", values, fraction)) == same(between)
    assert same(of("percentile_disc", values, fraction)) == same(reaching)


def test_a_percentile_of_texts_is_one_of_them() -> None:
    assert of("percentile_disc", ["b", None, "a", "c"], 0.5) == "b"


def test_distinct_takes_each_value_once() -> None:
    values = [1, 1, 1, 3, None, None]

    assert of("var_pop", values, distinct=True) == 1.0
    assert of("percentile_cont", values, 0.5, distinct=True) == 2.0
    assert of("array_agg", values, distinct=True) == [None, 1, 3]


def test_a_list_has_its_nulls_first_and_none_is_null() -> None:
    assert of("array_agg", [2, None, 1, 2]) == [None, 1, 2, 2]
    assert of("array_agg", [None]) == [None]
    assert of("array_agg", []) is None


@pytest.mark.parametrize(
    ("rows", "first", "last"),
    [
        ([("b", 1), ("a", 1), ("c", 2), ("d", 2)], "a", "d"),
        ([(None, 0), ("b", 1), ("c", None)], "b", "b"),
        ([("a", 1.0), ("b", NAN), ("c", INF)], "a", "b"),
        ([("a", None)], None, None),
        ([], None, None),
    ],
)
def test_the_first_and_the_last_by_an_order(
    rows: list[tuple[Any, Any]], first: str | None, last: str | None
) -> None:
    by = Column("at")
    assert aggregated(Aggregate("n", "first", Column("v"), by=by), rows, pa.string()) == first
    assert aggregated(Aggregate("n", "last", Column("v"), by=by), rows, pa.string()) == last
