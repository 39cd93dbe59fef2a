"""What aggregates mean, and when two values are the same, in slow plain Python.

Whatever is a double is computed exactly, in fractions, and rounded once, at the end, to the
nearest double (of two the even one; infinite if it is too large). A standard deviation is the root
of the variance, rounded again, and a percentile between two values is computed in doubles. NaN, and
infinities that do not add up, make NaN of sums and averages; any of them makes NaN of a variance.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from math import ceil, floor, isfinite, isnan, sqrt
from operator import and_, or_, xor
from typing import Any, assert_never

import pyarrow as pa

from millrace.errors import SeveralRowsError, SumOverflowError
from millrace.plan.relations import Aggregate
from millrace.plan.types import kind_of, scale_of


def aggregated(aggregate: Aggregate, rows: list[tuple[Any, Any]], arrow: pa.DataType) -> object:
    """Return an aggregate over rows of (operand, by); `arrow` is its type.

    All but "array_agg" pass over rows whose operand is NULL, those of an order or of two numbers
    also over those whose `by` is NULL; lists do not. A distinct one takes each value of the operand
    once.
    """
    match aggregate.kind:
        case "array_agg":
            return _listed(aggregate, rows) or None
        case "string_agg":
            texts = _listed(aggregate, [row for row in rows if row[0] is not None])
            return (aggregate.separator or "").join(texts) if texts else None
        case "covar_pop" | "covar_samp" | "corr":
            return _together(aggregate, [row for row in rows if None not in row])
        case "first" | "last":
            return _by_order(aggregate, rows)
        case "only":
            if len(rows) > 1:
                raise SeveralRowsError(f"{len(rows)} rows of a subquery for one value")
            return rows[0][0] if rows else None
        case _:
            values = [each for each, _ in rows if each is not None]
            return _of_values(aggregate, _once(values) if aggregate.distinct else values, arrow)


def _once(values: list[Any]) -> list[Any]:
    return list({same(each): each for each in values}.values())


def _listed(aggregate: Aggregate, rows: list[tuple[Any, Any]]) -> list[Any]:
    """Return the operands in canonical order, or by another one; each once if distinct."""
    rows = sorted(rows, key=lambda row: canonical(row[0]))
    if aggregate.by is not None:
        rows.sort(
            key=lambda row: place(row[1]) if row[1] is not None else (),
            reverse=aggregate.descending,
        )
        known, unknown = (
            [row for row in rows if (row[1] is None) == null] for null in (False, True)
        )
        rows = unknown + known if aggregate.nulls_first else known + unknown
    listed = [each for each, _ in rows]
    return _once(listed) if aggregate.distinct else listed


def _together(aggregate: Aggregate, rows: list[tuple[Any, Any]]) -> float | None:
    """Return the covariance of pairs of numbers as doubles, or their correlation.

    That is the root of its square, which is rounded before; NULL if one of them never changes.
    """
    pairs = [(float(one), float(other)) for one, other in rows]
    n_free = len(pairs) - (aggregate.kind == "covar_samp")
    if n_free <= 0:
        return None
    if not all(isfinite(each) for pair in pairs for each in pair):
        return float("nan")
    means = [_total([pair[at] for pair in pairs]) / len(pairs) for at in (0, 1)]
    away = [[Fraction(pair[at]) - means[at] for pair in pairs] for at in (0, 1)]
    mixed = sum((one * other for one, other in zip(*away, strict=True)), Fraction(0))
    if aggregate.kind != "corr":
        return rounded(mixed / n_free)
    spread = sum(each**2 for each in away[0]) * sum(each**2 for each in away[1])
    if spread == 0:
        return None
    root = sqrt(rounded(mixed**2 / spread))
    return -root if mixed < 0 else root


def _by_order(aggregate: Aggregate, rows: list[tuple[Any, Any]]) -> object:
    """Return the operand where `by` is least or greatest, of several the least or greatest."""
    rows = [row for row in rows if None not in row]
    if not rows:
        return None
    chosen = min if aggregate.kind == "first" else max
    return chosen(rows, key=lambda row: (place(row[1]), place(row[0])))[0]


def _most_often(values: list[Any]) -> object:
    """Return the value that is there most often, of several the least."""
    often = Counter(map(same, values))
    return min(values, key=lambda each: (-often[same(each)], place(each)))


def _of_values(  # noqa: C901  a case for each aggregate
    aggregate: Aggregate, values: list[Any], arrow: pa.DataType
) -> object:
    kind = aggregate.kind
    if kind == "count":
        return len(values)
    if not values:
        return None
    match kind:
        case "min" | "max":
            return (min if kind == "min" else max)(values, key=place)
        case "sum":
            return _fitting(_sum(values), arrow)
        case "avg":
            total = _sum(values)
            finite = all(map(isfinite, values))
            return rounded(_total(values) / len(values)) if finite else total
        case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return _spread(values, sample=kind.endswith("samp"), root=kind.startswith("stddev"))
        case "mode":
            return _most_often(values)
        case "bit_and" | "bit_or" | "bit_xor":
            return reduce({"bit_and": and_, "bit_or": or_, "bit_xor": xor}[kind], values)
        case "percentile_cont":
            return _between(values, aggregate.fraction)
        case "percentile_disc":
            return _reaching(values, aggregate.fraction, down=aggregate.descending)
        case (
            "first" | "last" | "array_agg" | "string_agg" | "covar_pop" | "covar_samp" | "corr"
            | "only"
        ):  # fmt: skip
            raise AssertionError(f"{kind} is of rows")
        case _:
            assert_never(kind)


# ---- exact numbers -------------------------------------------------------------------------------


def rounded(exact: Fraction) -> float:
    """Return the nearest double."""
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _sum(values: list[Any]) -> Any:  # noqa: ANN401
    """Add exactly; a sum of doubles is rounded once, at the end."""
    if not isinstance(values[0], float):
        with localcontext(prec=200):
            return sum(values[1:], values[0])
    if any(isnan(each) for each in values) or {float("inf"), float("-inf")} <= set(values):
        return float("nan")
    endless = [each for each in values if abs(each) == float("inf")]
    return endless[0] if endless else rounded(_total(values))


def _fitting(total: Any, arrow: pa.DataType) -> object:  # noqa: ANN401
    """Bring a sum into its type; that it does not fit is an error."""
    if kind_of(arrow) == "integer" and not -(1 << 63) <= total < 1 << 63:
        raise SumOverflowError(f"{total} is beyond bigint")
    if kind_of(arrow) == "decimal":
        with localcontext(prec=200):
            total = round(Decimal(total), scale_of(arrow))
        if abs(total.scaleb(scale_of(arrow))) >= 10**38:
            raise SumOverflowError(f"{total} has more than 38 digits")
    return total


def _total(values: list[Any]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


def _spread(values: list[Any], *, sample: bool, root: bool) -> float | None:
    """Return the variance of numbers as doubles, or its root; that of a sample needs two values."""
    values = [float(each) for each in values]
    n_free = len(values) - sample
    if n_free == 0:
        return None
    if not all(map(isfinite, values)):
        return float("nan")
    mean = _total(values) / len(values)
    variance = _total([(Fraction(each) - mean) ** 2 for each in values]) / n_free
    return sqrt(rounded(variance)) if root else rounded(variance)


def _written(fraction: float | None) -> Fraction:
    """Return the number that a fraction is written as: 0.1 is a tenth, which no double is."""
    assert fraction is not None, "a percentile is at a fraction"
    return Fraction(repr(float(fraction)))


def _between(values: list[Any], fraction: float | None) -> float:
    """Return the value at a fraction of the way from the least to the greatest, in a line."""
    ordered = sorted(values, key=place)
    where = _written(fraction) * (len(ordered) - 1)
    low, high = ordered[floor(where)], ordered[ceil(where)]
    if same(low) == same(high):
        return float(low)
    return float(low) + (float(high) - float(low)) * float(where - floor(where))


def _reaching(values: list[Any], fraction: float | None, *, down: bool) -> object:
    """Return the first value up to which the share of values is the fraction or more."""
    ordered = sorted(values, key=place, reverse=down)
    return ordered[max(ceil(_written(fraction) * len(ordered)), 1) - 1]


# ---- values --------------------------------------------------------------------------------------


def same(value: object) -> object:
    """Return something that is equal for values that are the same: NULL is, and so is NaN."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0  # -0.0 and 0.0 are one number
    if isinstance(value, list):
        return tuple(map(same, value))
    return (type(value).__name__, value) if isinstance(value, bool) else value


def place(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Return what values are ordered by: NaN is the greatest."""
    if isinstance(value, float):
        return (1, 0) if isnan(value) else (0, value)
    return (0, list(map(canonical, value))) if isinstance(value, list) else (0, value)


def canonical(value: object) -> tuple[Any, ...]:
    """Return what values are ordered by where NULL comes before all others."""
    return (value is not None, *place(value))
