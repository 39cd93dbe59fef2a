"""Comparison: six operators on any two types that mix, NULL where either side is.

NaN equals itself and is greater than every other number; -0.0 equals 0.0. Arrow's kernels are
IEEE's, by which NaN is in no order. Two of them suffice for ours: `x > 5` is `NOT (x <= 5)` in an
order that has no gaps, so beside a constant NaN costs one inversion of a bitmap; only beside a
column with NaN in it are there more passes.

Integers beside a double are compared as doubles, beside a decimal exactly.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as tests

from millrace.operators.cast import cast
from millrace.operators.decimals import integers, to_doubles
from millrace.operators.vectors import Datum, datum_of, null, vector
from millrace.plan.expressions import MIRRORED, Comparison
from millrace.plan.types import BIGINT, INSTANTS, common_type, kind_of
from millrace.schema import TIMESTAMP

_COMPARE: dict[Comparison, str] = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_FLIPPED: dict[Comparison, Comparison] = {">": "<=", ">=": "<"}


def compare(operator: Comparison, left: Datum, right: Datum) -> Datum:
    """Compare two data of types that mix."""
    left, right = aligned(left, right)
    if pa.null() in (left.type, right.type):
        return _unknown(left, right)
    if not tests.is_floating(left.type):
        return pc.call_function(_COMPARE[operator], [left, right])
    if isinstance(left, pa.Scalar):
        operator, left, right = MIRRORED[operator], right, left
    if isinstance(right, pa.Scalar):
        return _with_constant(operator, left, right)
    return _with_column(operator, left, right)


def _unknown(left: Datum, right: Datum) -> Datum:
    array = next((each for each in (left, right) if not isinstance(each, pa.Scalar)), None)
    return null(pa.bool_()) if array is None else pa.nulls(len(array), pa.bool_())


def aligned(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Bring two data to one type that holds the values of both."""
    kinds = left.type, right.type
    if kinds[0] == kinds[1] or pa.null() in kinds:
        return left, right
    left, right = _with_instants(left, right)
    narrow = _narrowed(left, right)
    if narrow is not None:
        return narrow
    target = common_type([left.type, right.type])
    assert target is not None, "the binder lets only types through that mix"
    if tests.is_decimal(target):
        return _exact(left, right, target.scale)
    return as_type(left, target), as_type(right, target)


def as_type(datum: Datum, target: pa.DataType) -> Datum:
    """Widen a datum to a type that holds its values; a double may be only the nearest."""
    if datum.type == target:
        return datum
    if tests.is_decimal(datum.type) and tests.is_floating(target):
        return to_doubles(datum)
    if tests.is_floating(target) or tests.is_null(datum.type):
        return datum.cast(target, safe=False)
    return cast(datum, target)


def _exact(left: Datum, right: Datum, scale: int) -> tuple[Datum, Datum]:
    """Bring exact numbers to integers of one unit, or to decimals that hold any of ours."""
    one, two = integers(left, scale), integers(right, scale)
    if one.values.dtype == two.values.dtype == np.int64:
        return datum_of(one.values, one.valid, BIGINT), datum_of(two.values, two.valid, BIGINT)
    widest = pa.decimal256(76, scale)
    return tuple(
        (each.cast(pa.decimal128(19, 0)) if tests.is_integer(each.type) else each).cast(widest)
        for each in (left, right)
    )


def _with_instants(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Read texts as timestamps where they stand beside such: the values of a parameter."""
    kinds = {kind_of(left.type), kind_of(right.type)}
    if "text" not in kinds or not kinds & INSTANTS:
        return left, right
    if tests.is_string(left.type):
        return cast(left, TIMESTAMP), right
    return left, cast(right, TIMESTAMP)


def _narrowed(left: Datum, right: Datum) -> tuple[Datum, Datum] | None:
    """Give a constant the type of the column where it fits: this spares the column a pass."""
    if not (tests.is_integer(left.type) and tests.is_integer(right.type)):
        return None
    for constant, column in ((left, right), (right, left)):
        if isinstance(constant, pa.Scalar) and not isinstance(column, pa.Scalar):
            limits = np.iinfo(column.type.to_pandas_dtype())
            value = constant.as_py()
            if value is None or limits.min <= value <= limits.max:
                fitting = pa.scalar(value, column.type)
                return (fitting, column) if constant is left else (column, fitting)
    return None


def _with_constant(operator: Comparison, left: Datum, right: pa.Scalar) -> Datum:
    value = right.as_py()
    if value is not None and math.isnan(value):
        return _with_nan(operator, left)
    if operator in _FLIPPED:
        return pc.invert(pc.call_function(_COMPARE[_FLIPPED[operator]], [left, right]))
    return pc.call_function(_COMPARE[operator], [left, right])


def _with_nan(operator: Comparison, left: Datum) -> Datum:
    """Compare with NaN, which only NaN equals and nothing exceeds."""
    found = pc.is_nan(left)
    if operator in ("=", ">="):
        return found
    if operator in ("<>", "<"):
        return pc.invert(found)
    always = pc.or_(found, pc.invert(found))
    return always if operator == "<=" else pc.invert(always)


def _with_column(operator: Comparison, left: pa.Array, right: pa.Array) -> pa.Array:
    if not (_has_nan(left) or _has_nan(right)):
        return pc.call_function(_COMPARE[operator], [left, right])
    if operator in ("=", "<>"):
        same = pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
        return same if operator == "=" else pc.invert(same)
    if operator in ("<", ">="):
        lesser = _less(left, right)
        return lesser if operator == "<" else pc.invert(lesser)
    lesser = _less(right, left)
    return lesser if operator == ">" else pc.invert(lesser)


def _less(left: pa.Array, right: pa.Array) -> pa.Array:
    below_nan = pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left)))
    return pc.or_(pc.less(left, right), below_nan)


def _has_nan(array: pa.Array) -> bool:
    return bool(np.isnan(vector(array).values).any())
