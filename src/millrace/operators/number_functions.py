"""Functions of numbers, NULL outside of where they are defined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as tests
from numpy.typing import NDArray

from millrace.operators import decimals
from millrace.operators.arithmetic import negative
from millrace.operators.cast import cast, half_away
from millrace.operators.compare import as_type, compare
from millrace.operators.vectors import Datum, both_valid, datum_of, masked, null, vector
from millrace.plan.types import BIGINT, DOUBLE, kind_of, widened

_POWERS = np.array([float(f"1e{exponent}") for exponent in range(310)])  # the last is infinite


def absolute(number: Datum) -> Datum:
    """Return the number without its sign."""
    number = _wide(number)
    if tests.is_floating(number.type):
        return pc.abs(number)
    below = compare("<", number, pa.scalar(0, BIGINT))
    return pc.if_else(below, _same(negative(number), number.type), number)


def _same(datum: Datum, arrow: pa.DataType) -> Datum:
    return datum if datum.type == arrow else cast(datum, arrow)


def _wide(number: Datum) -> Datum:
    """Return a number in the type in which numbers are computed."""
    return _same(number, widened(number.type))


def sign(number: Datum) -> Datum:
    """Return -1, 0 or 1; NaN has none, so it stays."""
    number = _wide(number)
    if tests.is_floating(number.type):
        return pc.sign(number)
    zero = pa.scalar(0, BIGINT)
    below = compare("<", number, zero).cast(BIGINT)
    return pc.subtract(compare(">", number, zero).cast(BIGINT), below)


def floor(number: Datum) -> Datum:
    """Return the greatest whole number that is not greater."""
    return _whole(number, np.floor, lambda digits, unit: digits // unit)


def ceil(number: Datum) -> Datum:
    """Return the least whole number that is not less."""
    return _whole(number, np.ceil, lambda digits, unit: -(-digits // unit))


def trunc(number: Datum) -> Datum:
    """Return the whole number that is left without the digits behind the point."""
    return _whole(
        number,
        np.trunc,
        lambda digits, unit: np.where(digits < 0, -(-digits // unit), digits // unit),
    )


def _whole(
    number: Datum,
    of_doubles: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    of_digits: Callable[[decimals.Integers, int], decimals.Integers],
) -> Datum:
    number = _wide(number)
    if tests.is_integer(number.type):
        return number
    if tests.is_floating(number.type):
        found = vector(number)
        return datum_of(np.asarray(of_doubles(found.values)), found.valid, DOUBLE)
    found, unit = decimals.integers(number, number.type.scale), 10**number.type.scale
    digits = found.values if unit < 2**63 else found.values.astype(object)
    whole = np.asarray(of_digits(digits, unit), digits.dtype)
    return decimals.packed(decimals.scaled(whole, unit), found.valid, number.type)


def rounded(number: Datum, n_digits: Datum | None = None) -> Datum:
    """Round to so many digits behind the point, a half away from zero.

    A double is multiplied by a power of ten, rounded and divided again; where it is so large
    that this overflows, it has no digits to round.
    """
    number = _wide(number)
    places = pa.scalar(0, BIGINT) if n_digits is None else as_type(n_digits, BIGINT)
    if tests.is_floating(number.type):
        return _round_doubles(number, places)
    if isinstance(places, pa.Scalar):
        if not places.is_valid:
            return null(number.type)
        return _round_digits(number, places.as_py())
    return _round_each(number, places)


def _round_doubles(number: Datum, places: Datum) -> Datum:
    one, two = vector(number), vector(places)
    with np.errstate(all="ignore"):
        power = _POWERS[np.abs(np.clip(two.values, -309, 309))]
        up = np.where(two.values < 0, one.values / power, one.values * power)
        whole = half_away(up)
        found = np.where(two.values < 0, whole * power, whole / power)
    found = np.where(np.isfinite(up) & np.isfinite(found), found, one.values)
    found = np.where((two.values < 0) & np.isinf(power) & np.isfinite(one.values), 0.0, found)
    return datum_of(np.asarray(found), both_valid(one, two), DOUBLE)


def _round_digits(number: Datum, places: int) -> Datum:
    scale = number.type.scale if tests.is_decimal(number.type) else 0
    cut = scale - places
    if cut <= 0:
        return number
    found = decimals.integers(number, scale)
    unit = 10 ** min(cut, 40)
    digits = decimals.scaled(decimals.rounded(found.values, unit), unit)
    if tests.is_decimal(number.type):
        return decimals.packed(digits, found.valid, number.type)
    return cast(decimals.packed(digits, found.valid, pa.decimal128(38, 0)), BIGINT)


def _round_each(number: Datum, places: pa.Array) -> Datum:
    """Round to digits that differ from row to row: for each number of digits, all rows."""
    chosen: Datum = pa.nulls(len(places), number.type)
    for each in pc.unique(places.drop_null()).to_pylist():
        chosen = pc.if_else(pc.equal(places, each), _round_digits(number, each), chosen)
    return pc.if_else(places.is_valid(), chosen, null(number.type))


def defined(
    kernel: Callable[[Datum], Datum], outside: Callable[[Datum], Datum] | None = None
) -> Callable[[Datum], Datum]:
    """Make a function of a double from one of Arrow's, NULL where `outside` is true."""

    def apply(number: Datum) -> Datum:
        double = as_type(number, DOUBLE)
        found = kernel(double)
        return found if outside is None else masked(found, outside(double))

    return apply


def logarithm(one: Datum, other: Datum | None = None) -> Datum:
    """Return the logarithm to base 10; of two numbers, that of the second to the first as base."""
    if other is None:
        return _log10(one)
    base = as_type(one, DOUBLE)
    return pc.divide(_log10(other), masked(_log10(base), pc.equal(base, 1.0)))


def _log10(number: Datum) -> Datum:
    return defined(pc.log10, lambda each: pc.less_equal(each, 0.0))(number)


def cube_root(number: Datum) -> Datum:
    """Return the number whose third power it is."""
    found = vector(as_type(number, DOUBLE))
    return datum_of(np.asarray(np.cbrt(found.values)), found.valid, DOUBLE)


def power(base: Datum, exponent: Datum) -> Datum:
    """Raise to a power; a negative base has whole exponents only, and 0 none below 0."""
    one, two = as_type(base, DOUBLE), as_type(exponent, DOUBLE)
    fraction = pc.not_equal(pc.floor(two), two)
    fraction = pc.and_(fraction, pc.is_finite(two))
    outside = pc.or_(
        pc.and_(pc.and_(pc.less(one, 0.0), pc.is_finite(one)), fraction),
        pc.and_(pc.equal(one, 0.0), pc.less(two, 0.0)),
    )
    return masked(pc.power(one, two), outside)


def is_nan(number: Datum) -> Datum:
    """Say whether it is NaN, which only a float can be."""
    if kind_of(number.type) == "floating":
        return pc.is_nan(number)
    return masked(pc.is_null(as_type(number, DOUBLE), nan_is_null=False), pc.is_null(number))


def extreme(*, greatest: bool) -> Callable[..., Datum]:
    """Make the function that returns the greatest, or least, argument that is not NULL."""

    def choose(*arguments: Datum) -> Datum:
        first, *others = arguments
        for each in others:
            better = compare(">" if greatest else "<", each, first)
            take = pc.or_(pc.fill_null(better, fill_value=False), pc.is_null(first))
            take = pc.and_(take, pc.is_valid(each))
            first = pc.if_else(take, each, first)
        return first

    return choose
