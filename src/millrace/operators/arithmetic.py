"""Arithmetic: numbers, instants and `||`, NULL wherever a result does not exist or does not fit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as tests

from millrace.operators import decimals
from millrace.operators.cast import cast
from millrace.operators.compare import as_type
from millrace.operators.vectors import Datum, Vector, both_valid, datum_of, masked, vector
from millrace.plan.expressions import Operation
from millrace.plan.types import BIGINT, DOUBLE, TEXT, arithmetic_type
from millrace.schema import TIMESTAMP

_CHECKED = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}
_FLOATING = {"+": "add", "-": "subtract", "*": "multiply"}


def compute(operator: Operation, left: Datum, right: Datum) -> Datum:
    """Compute `left operator right`."""
    arrow = arithmetic_type(operator, left.type, right.type)
    assert arrow is not None, "the binder lets only operands through that the operator takes"
    if arrow == TEXT:
        left, right = as_type(left, TEXT), as_type(right, TEXT)
        return pc.binary_join_element_wise(left, right, "")
    if tests.is_decimal(arrow):
        left, right = (_number(each) for each in (left, right))
        return decimals.compute(operator, left, right, arrow)
    left, right = (_micros(each) if tests.is_temporal(each.type) else as_type(each, arrow)
                   for each in (left, right))  # fmt: skip
    if operator in ("/", "%"):
        return _divide(operator, left, right, arrow)
    if arrow == DOUBLE:
        return pc.call_function(_FLOATING[operator], [left, right])
    try:
        return pc.call_function(_CHECKED[operator], [left, right])
    except pa.ArrowInvalid:
        return _without_overflow(operator, left, right)


def _micros(instant: Datum) -> Datum:
    return cast(instant, TIMESTAMP).cast(BIGINT)


def _number(datum: Datum) -> Datum:
    return datum.cast(BIGINT) if tests.is_null(datum.type) else datum


def negative(operand: Datum) -> Datum:
    """Return the number with the other sign."""
    if tests.is_floating(operand.type):
        return pc.negate(as_type(operand, DOUBLE))
    return compute("-", pa.scalar(0, BIGINT), operand)


def _divide(operator: Operation, left: Datum, right: Datum, arrow: pa.DataType) -> Datum:
    one, two = vector(left), vector(right)
    absent = np.asarray(two.values == 0)
    if absent.any():
        valid = ~absent if two.valid is None else two.valid & ~absent
        two = Vector(np.where(absent, 1, two.values), valid)
    valid = both_valid(one, two)
    if arrow == DOUBLE:
        with np.errstate(all="ignore"):
            found = (np.divide if operator == "/" else np.fmod)(one.values, two.values)
        return datum_of(np.asarray(found), valid, arrow)
    return _divide_integers(operator, one, two, valid)


def _divide_integers(
    operator: Operation, one: Vector, two: Vector, valid: np.ndarray | None
) -> Datum:
    """Divide towards zero. Only the least bigint has a quotient, by -1, that is no bigint."""
    reversed_sign = np.asarray(two.values == -1)
    divisor = np.where(reversed_sign, 1, two.values)
    rest = np.asarray(np.fmod(one.values, divisor))
    if operator == "%":
        return datum_of(rest, valid, BIGINT)
    quotient = datum_of((one.values - rest) // divisor, valid, BIGINT)
    if not reversed_sign.any():
        return quotient
    opposite = compute("-", pa.scalar(0, BIGINT), quotient)
    return pc.if_else(datum_of(reversed_sign, None, pa.bool_()), opposite, quotient)


def _without_overflow(operator: Operation, left: Datum, right: Datum) -> Datum:
    """Compute integers again, with NULL where the result is not a bigint."""
    one, two = vector(left).values, vector(right).values
    with np.errstate(all="ignore"):
        found = {"+": np.add, "-": np.subtract, "*": np.multiply}[operator](one, two)
        if operator == "*":
            lost = _lost_product(one, two, found)
        else:
            lost = ((one ^ found) & ((two if operator == "+" else ~two) ^ found)) < 0
    valid = both_valid(vector(left), vector(right))
    kept = datum_of(np.asarray(found), valid, BIGINT)
    return masked(kept, datum_of(np.asarray(lost), None, pa.bool_()))


def _lost_product(one: np.ndarray, two: np.ndarray, found: np.ndarray) -> np.ndarray:
    divisor = np.where((two == 0) | (two == -1), 1, two)
    least = np.iinfo(np.int64).min
    wrong = (found // divisor != one) & (two != 0) & (two != -1)
    return np.asarray(wrong | ((two == -1) & (one == least)))
