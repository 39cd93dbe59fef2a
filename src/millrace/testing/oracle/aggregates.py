"""What aggregates mean, and when two values are the same, in slow plain Python."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import isnan
from typing import Any, assert_never

import pyarrow as pa

from millrace.plan.relations import AggregateKind
from millrace.plan.types import kind_of, scale_of


def aggregated(kind: AggregateKind, values: list[Any], arrow: pa.DataType) -> object:
    """Return an aggregate of values without NULLs; `arrow` is its type."""
    if kind == "count":
        return len(values)
    if not values:
        return None
    match kind:
        case "min":
            return min(values, key=place)
        case "max":
            return max(values, key=place)
        case "sum":
            total = _sum(values)
            decimal = kind_of(arrow) == "decimal"
            return round(Decimal(total), scale_of(arrow)) if decimal else total
        case "avg":
            total = _sum(values)
            endless = isinstance(total, float) and (isnan(total) or abs(total) == float("inf"))
            return total if endless else float(sum(map(Fraction, values)) / len(values))
        case _:
            assert_never(kind)


def same(value: object) -> object:
    """Return something that is equal for values that are the same: NULL is, and so is NaN."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0  # -0.0 and 0.0 are one number
    return (type(value).__name__, value) if isinstance(value, bool) else value


def place(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Return what values are ordered by: NaN is the greatest."""
    if isinstance(value, float):
        return (1, 0) if isnan(value) else (0, value)
    return (0, value)


def _sum(values: list[Any]) -> Any:  # noqa: ANN401
    """Add exactly; a sum of doubles is rounded once, at the end."""
    if not isinstance(values[0], float):
        return sum(values[1:], values[0])
    if any(isnan(each) for each in values) or {float("inf"), float("-inf")} <= set(values):
        return float("nan")
    endless = [each for each in values if abs(each) == float("inf")]
    return endless[0] if endless else float(sum(map(Fraction, values)))
