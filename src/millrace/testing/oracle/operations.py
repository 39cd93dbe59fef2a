"""What comparing two values and computing with them means, in plain Python."""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

from millrace.plan.expressions import Comparison, Operation
from millrace.plan.types import kind_of, scale_of
from millrace.testing.oracle.casts import Typed

_COMPARE: dict[Comparison, Callable[[Any, Any], Any]] = {
    "=": operators.eq,
    "<>": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def among(value: object, options: Sequence[object] | None) -> bool | None:
    """Say whether a value is among others."""
    if options is None:
        return None
    equal = [compared("=", value, each) for each in options]
    return True if True in equal else None if None in equal else False


def compared(operator: Comparison, left: Any, right: Any) -> bool | None:  # noqa: ANN401
    """Compare two values; NaN is equal to itself and the greatest."""
    if left is None or right is None:
        return None
    one, two = _ordered(left, right)
    return bool(_COMPARE[operator](one, two))


def _ordered(left: Any, right: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return two values as ones that Python orders as SQL does."""
    if isinstance(left, float) or isinstance(right, float):
        return _place(float(left)), _place(float(right))
    if isinstance(left, date) and isinstance(right, date):
        return _moment(left), _moment(right)
    return left, right


def _place(number: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(number) else (False, number)


def _moment(instant: date) -> datetime:
    if isinstance(instant, datetime):
        return instant
    return datetime.combine(instant, time(), UTC)


def computed(operator: Operation, left: Typed, right: Typed, arrow: pa.DataType) -> object:
    """Compute with two values; None where there is no result of the type."""
    if left.value is None or right.value is None:
        return None
    if operator == "||":
        return left.value + right.value
    if isinstance(left.value, date):
        return (_moment(left.value) - _moment(right.value)) // timedelta(microseconds=1)
    if operator in ("/", "%") and right.value == 0:
        return None
    if kind_of(arrow) == "floating":
        return _float_computed(operator, float(left.value), float(right.value))
    scale = scale_of(arrow)
    with localcontext(prec=200):
        one, two = Decimal(left.value), Decimal(right.value)
        exact = _exact(operator, one, two)
        digits = int(exact.scaleb(scale))
    if kind_of(arrow) == "integer":
        return digits if -(2**63) <= digits < 2**63 else None
    return Decimal(f"{digits}E-{scale}") if abs(digits) < 10**38 else None


def _exact(operator: Operation, one: Decimal, two: Decimal) -> Decimal:
    if operator == "/":
        return Decimal(abs(int(one)) // abs(int(two)) * (1 if (one < 0) == (two < 0) else -1))
    if operator == "%":
        return one % two  # has the sign of the dividend
    return {"+": one + two, "-": one - two, "*": one * two}[operator]


def _float_computed(operator: Operation, one: float, two: float) -> float:
    if operator == "/":
        return one / two
    if operator == "%":
        return math.nan if math.isinf(one) or math.isnan(one + two) else math.fmod(one, two)
    return {"+": one + two, "-": one - two, "*": one * two}[operator]
