"""Decimals as integers: exact arithmetic on the digits without the point.

A decimal(p, s) is an integer and a scale. Where the integers at hand fit into 64 bits, and the
results do, NumPy computes with them (about 5 ns a row); Python's integers take over where not.
Whatever has more digits than its type afterwards is NULL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as tests
from numpy.typing import NDArray

from millrace.operators.vectors import Datum, Vector, both_valid, datum_of, null, vector
from millrace.plan.expressions import Operation
from millrace.plan.types import scale_of

_LARGEST = 2**63 - 1
_WORD = 2**64 - 1
Integers = NDArray[Any]
"""Of int64, or of Python's integers where they may be larger."""


def compute(operator: Operation, left: Datum, right: Datum, arrow: pa.DataType) -> Datum:
    """Compute `left operator right` (not a quotient) of two exact numbers, exactly."""
    scale = arrow.scale
    scales = (scale_of(left.type), scale_of(right.type)) if operator == "*" else (scale, scale)
    first, second = (integers(each, at) for each, at in zip((left, right), scales, strict=True))
    valid = both_valid(first, second)
    one, two = first.values, second.values
    if operator == "%":
        absent = np.asarray(two == 0, np.bool_)
        valid = ~absent if valid is None else valid & ~absent
        return packed(_remainder(one, np.where(absent, 1, two)), valid, arrow)
    bounds = _bound(one), _bound(two)
    if (bounds[0] * bounds[1] if operator == "*" else sum(bounds)) > _LARGEST:
        one, two = one.astype(object), two.astype(object)
    return packed(_array(_OPERATIONS[operator](one, two)), valid, arrow)


_OPERATIONS = {"+": np.add, "-": np.subtract, "*": np.multiply}


def _remainder(one: Integers, two: Integers) -> Integers:
    """Return what a division that cuts off towards zero leaves over."""
    if one.dtype == two.dtype == np.int64:
        return _array(np.fmod(one, np.where(two == -1, 1, two)))
    one, two = one.astype(object), two.astype(object)
    return _array(np.where(one < 0, -1, 1).astype(object) * (np.abs(one) % np.abs(two)))


def _array(values: object) -> Integers:
    """Return what NumPy computed as an array, also if it has no dimension."""
    if isinstance(values, np.ndarray):
        return values
    return np.array(values, np.int64 if isinstance(values, np.int64) else object)


def _bound(values: Integers) -> int:
    """Return the greatest magnitude among integers."""
    if not values.size:
        return 0
    return max(abs(int(values.min())), abs(int(values.max())))


def integers(datum: Datum, scale: int) -> Vector:
    """Return exact numbers as integers, counted in units of 10 to the power of -scale."""
    digits = _digits(datum) if tests.is_decimal(datum.type) else vector(datum.cast(pa.int64()))
    factor = 10 ** (scale - scale_of(datum.type))
    assert isinstance(factor, int), "a scale only grows here"
    return Vector(scaled(digits.values, factor), digits.valid)


def scaled(values: Integers, factor: int) -> Integers:
    """Multiply integers by a factor, in more than 64 bits if need be."""
    if factor == 1:
        return values
    if _bound(values) * factor > _LARGEST or factor > _LARGEST:
        values = values.astype(object)
    return _array(values * factor)


def _digits(datum: Datum) -> Vector:
    """Return the digits of decimals, as if they had no point."""
    if isinstance(datum, pa.Scalar):
        found = _digits(pa.array([datum.as_py()], datum.type))
        valid = None if found.valid is None else found.valid.reshape(())
        return Vector(found.values.reshape(()), valid)
    low, high = words_of(datum).T
    valid = datum.is_valid().to_numpy(zero_copy_only=False) if datum.null_count else None
    if valid is not None:
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if (high == low >> 63).all():
        return Vector(low, valid)
    whole = high.astype(object) * 2**64 + low.view(np.uint64).astype(object)
    return Vector(whole, valid)


def packed(values: Integers, valid: NDArray[np.bool_] | None, arrow: pa.DataType) -> Datum:
    """Return integers as decimals, NULL where they have more digits than the type."""
    limit = 10**arrow.precision
    if _bound(values) >= limit:
        fits = np.asarray((values < limit) & (values > -limit), np.bool_)
        valid = fits if valid is None else valid & fits
        values = np.where(fits, values, 0)
    if values.ndim == 0:
        if valid is not None and not valid.all():
            return null(arrow)
        return packed(values.reshape(1), None, arrow)[0]
    if valid is not None:
        valid = np.broadcast_to(valid, values.shape)
    words = np.empty((values.size, 2), np.int64)
    if values.dtype == np.int64:
        words[:, 0], words[:, 1] = values, values >> 63
    else:
        words[:, 0] = (values & _WORD).astype(np.uint64).view(np.int64)
        words[:, 1] = (values >> 64).astype(np.int64)
    return from_words(words, valid, arrow)


def words_of(array: pa.Array) -> NDArray[np.int64]:
    """Return the digits of decimals as two words of 64 bits, the low one first."""
    words = np.frombuffer(array.buffers()[1] or b"", np.int64)
    return words[2 * array.offset :][: 2 * len(array)].reshape(-1, 2)


def from_words(
    words: NDArray[np.int64], valid: NDArray[np.bool_] | None, arrow: pa.DataType
) -> pa.Array:
    """Return decimals of what `words_of` gave."""
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(arrow, len(words), [bitmap, pa.py_buffer(words)])


def beyond_decimals(words: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which numbers, given in words, have more than the 38 digits of a decimal."""
    low, high = words[:, 0].astype(np.uint64), words[:, 1]
    (most_low, most_high), (least_low, least_high) = (
        (each & (1 << 64) - 1, each >> 64) for each in (10**38 - 1, 1 - 10**38)
    )
    above = (high > most_high) | ((high == most_high) & (low > np.uint64(most_low)))
    below = (high < least_high) | ((high == least_high) & (low < np.uint64(least_low)))
    beyond: NDArray[np.bool_] = above | below
    return beyond


def rounded(values: Integers, divisor: int) -> Integers:
    """Divide integers and round to the nearest, a half away from zero."""
    if divisor == 1:
        return values
    if _bound(values) + divisor > _LARGEST:
        values = values.astype(object)
    sign = np.where(values < 0, -1, 1)
    return _array(sign * ((np.abs(values) + divisor // 2) // divisor))


def to_doubles(datum: Datum) -> Datum:
    """Return decimals as the nearest doubles."""
    digits = _digits(datum)
    scale = datum.type.scale
    if digits.values.dtype == np.int64 and _bound(digits.values) <= 2**53 and scale <= 22:
        # Both are exact as doubles, so their quotient is rounded just once.
        return datum_of(digits.values / 10.0**scale, digits.valid, pa.float64())
    # Python's quotient of integers is the nearest double, however long they are.
    flat = [each / 10**scale for each in digits.values.ravel().tolist()]
    return datum_of(np.array(flat).reshape(digits.values.shape), digits.valid, pa.float64())
