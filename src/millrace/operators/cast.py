"""Casts: a value as another type, NULL where it cannot be.

- A number becomes the nearest one of the other type: a half of a decimal is rounded away from
  zero, one of a double to even. One out of range, and NaN beside integers, is NULL.
- A text is read as it would be in a CSV file (`kernels.numbers`, `kernels.moments`), without the
  spaces around it; a decimal with more digits than its type is rounded.
- A number becomes the shortest text that is read back as the same; a timestamp ISO 8601 in UTC.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as tests

from millrace.operators import decimals
from millrace.operators.read_text import read_text
from millrace.operators.vectors import Datum, Vector, datum_of, elementwise, masked, vector
from millrace.plan.types import DOUBLE, INSTANTS, NUMBERS, kind_of, scale_of

_EXACT = 2.0**53  # doubles below it are exact to a whole number

_DAY = 86_400_000_000


def cast(datum: Datum, target: pa.DataType) -> Datum:
    """Return the datum as a type to which the binder allows to cast it."""
    if datum.type == target:
        return datum
    if isinstance(datum, pa.Scalar):
        return elementwise(lambda array: cast(array, target), datum)
    if tests.is_null(datum.type):
        return pa.nulls(len(datum), target)
    source, wanted = kind_of(datum.type), kind_of(target)
    if source == "text":
        return datum.cast(target) if wanted == "binary" else read_text(datum, target)
    if wanted == "text":
        return _written(datum)
    if source in NUMBERS and wanted in NUMBERS:
        return _number(datum, target)
    if {source, wanted} <= INSTANTS:
        return _instant(datum, target)
    if wanted == "boolean":
        return pc.not_equal(datum, pa.scalar(0, datum.type))
    return datum.cast(target)  # a boolean as an integer


def _number(array: pa.Array, target: pa.DataType) -> pa.Array:
    source, wanted = kind_of(array.type), kind_of(target)
    if wanted == "floating":
        return _floating(array, target)
    if source == "floating":
        return _from_floats(vector(array.cast(DOUBLE)), target)
    if wanted == "decimal" and scale_of(array.type) <= target.scale:
        found = decimals.integers(array, target.scale)
        return decimals.packed(found.values, found.valid, target)
    found = decimals.integers(array, scale_of(array.type))
    digits = decimals.rounded(found.values, 10 ** (scale_of(array.type) - scale_of(target)))
    return _fitting(digits, found.valid, target)


def _floating(array: pa.Array, target: pa.DataType) -> pa.Array:
    if tests.is_decimal(array.type):
        array = decimals.to_doubles(array)
    doubles = array.cast(DOUBLE, safe=False)
    if target == DOUBLE:
        return doubles
    singles = doubles.cast(target, safe=False)
    lost = pc.and_(pc.is_inf(singles), pc.invert(pc.is_inf(doubles)))
    return masked(singles, lost) if pc.any(lost).as_py() else singles


def _from_floats(found: Vector, target: pa.DataType) -> pa.Array:
    """Round doubles: to whole numbers a half to even, to decimals away from zero."""
    finite = np.isfinite(found.values)
    valid = finite if found.valid is None else finite & found.valid
    values = np.where(finite, found.values, 0.0)
    if tests.is_integer(target):
        whole = np.rint(values)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            product = values * float(10**target.scale)
        if (np.abs(product) >= _EXACT).any():
            return _fitting(_exact_digits(values, target.scale), valid, target)
        whole = half_away(product)
    small = np.abs(whole) < 2.0**63
    if small.all():
        return _fitting(whole.astype(np.int64), valid, target)
    whole = np.where(np.isinf(whole), 1e300, whole)
    return _fitting(np.array([int(each) for each in whole.tolist()], object), valid, target)


def _exact_digits(values: np.ndarray, scale: int) -> np.ndarray:
    """Return the digits of decimals that are nearest to doubles, however large they are."""
    found = []
    for value in values.tolist():
        product = value * float(10**scale)
        if abs(product) < _EXACT:
            found.append(int(half_away(np.array([product]))[0]))
        else:
            above, below = value.as_integer_ratio()
            whole, rest = divmod(abs(above) * 10**scale, below)
            digits = whole + (2 * rest >= below)
            found.append(digits if value >= 0 else -digits)
    return np.array(found, object)


def half_away(values: np.ndarray) -> np.ndarray:
    """Round doubles to whole ones, a half away from zero."""
    whole = np.trunc(values)
    return np.asarray(
        np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)
    )


def _fitting(values: np.ndarray, valid: np.ndarray | None, target: pa.DataType) -> pa.Array:
    """Return integers as integers or digits of decimals, NULL where the type has no such."""
    if tests.is_decimal(target):
        return decimals.packed(values, valid, target)
    limits = np.iinfo(target.to_pandas_dtype())
    fits = np.asarray((values >= limits.min) & (values <= limits.max), np.bool_)
    if not fits.all():
        valid = fits if valid is None else valid & fits
        values = np.where(fits, values, 0)
    return datum_of(values.astype(target.to_pandas_dtype()), valid, target)


def _instant(array: pa.Array, target: pa.DataType) -> pa.Array:
    if tests.is_date(target):
        found = vector(array.cast(pa.int64()))
        day_numbers = (found.values // _DAY).astype(np.int32)
        return datum_of(day_numbers, found.valid, pa.int32()).cast(target)
    days = vector(array.cast(pa.int32()).cast(pa.int64()))
    fits = np.abs(days.values) <= 2**63 // _DAY - 1
    valid = fits if days.valid is None else fits & days.valid
    micros = np.where(fits, days.values, 0) * _DAY
    return datum_of(micros, None if valid.all() else valid, pa.int64()).cast(target)


def _written(array: pa.Array) -> pa.Array:
    if tests.is_decimal(array.type):
        return _decimal_text(array)
    if tests.is_binary(array.type):
        return _decoded(array)
    return array.cast(pa.string())


def _decimal_text(array: pa.Array) -> pa.Array:
    """Write decimals with all the digits of their scale, never with an exponent."""
    scale = array.type.scale
    digits = decimals.integers(array, scale)
    whole = decimals.packed(np.abs(digits.values), digits.valid, pa.decimal128(38, 0))
    text = pc.utf8_lpad(whole.cast(pa.string()), scale + 1, "0")
    sign = pc.if_else(pa.array(np.asarray(digits.values < 0, np.bool_)), "-", "")
    if not scale:
        return pc.binary_join_element_wise(sign, text, "")
    front = pc.utf8_slice_codeunits(text, 0, -scale)
    back = pc.utf8_slice_codeunits(text, -scale)
    return pc.binary_join_element_wise(sign, front, pa.scalar("."), back, "")


def _decoded(array: pa.Array) -> pa.Array:
    """Take bytes as UTF-8, NULL where they are not."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [_utf8(each) for each in array.to_pylist()]
        return pa.array(texts, pa.string())


def _utf8(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
