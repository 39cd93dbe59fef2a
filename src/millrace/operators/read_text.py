"""Reading texts as values of other types, by the kernels that read the rows of sources."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as tests
from numpy.typing import NDArray

from millrace.kernels import cells as cell
from millrace.kernels.arrays import Bools, Bytes, Ints
from millrace.kernels.moments import read_dates, read_timestamps
from millrace.kernels.numbers import check_decimals, read_bools, read_floats, read_ints

Spans = tuple[Bytes, Ints, Ints, Bools]
"""The bytes, where each text begins and ends in them, and which are not NULL."""
_Read = tuple[NDArray[Any], Bytes]


def read_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Read each text as a value of the type, NULL where it is not one."""
    if not len(array):
        return pa.array([], target)
    if tests.is_decimal(target):
        return _decimals(array, target)
    spans = _spans(array)
    values, states = _read(array, spans, target)
    lost = ~spans[3] | (states != cell.FINE)
    if tests.is_timestamp(target) or tests.is_date(target):
        width = np.int32 if tests.is_date(target) else np.int64
        return pa.array(values.astype(width), mask=lost).cast(target)
    return pa.array(values, target, mask=lost)


def _spans(array: pa.Array) -> Spans:
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int32)[array.offset :][: len(array) + 1].astype(np.int64)
    text = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return text, offsets[:-1], offsets[1:], array.is_valid().to_numpy(zero_copy_only=False)


def _read(array: pa.Array, spans: Spans, target: pa.DataType) -> _Read:
    if tests.is_floating(target):
        return _floats(array, spans, target)
    if tests.is_integer(target):
        limits = np.iinfo(target.to_pandas_dtype())
        values, states = read_ints(*spans, int(limits.min), int(limits.max))
        return values.astype(target.to_pandas_dtype()), states
    readers = {pa.bool_(): read_bools, pa.date32(): read_dates}
    found: _Read = readers.get(target, read_timestamps)(*spans)
    return found


def _floats(array: pa.Array, spans: Spans, target: pa.DataType) -> _Read:
    values, states = read_floats(*spans)
    exact = np.flatnonzero(states == cell.EXACT)
    if exact.size:  # many digits: Arrow rounds them just once
        texts = pc.utf8_trim(array.take(pa.array(exact)), " \t")
        values[exact] = pc.cast(texts, pa.float64()).to_numpy()
        states[exact] = np.where(np.isinf(values[exact]), cell.RANGE, cell.FINE)
    if tests.is_float64(target):
        return values, states
    with np.errstate(over="ignore"):
        singles = values.astype(np.float32)
    states[np.isinf(singles) & np.isfinite(values)] = cell.RANGE
    return singles, states


def _decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Read decimals; one by one only those that must be rounded or have an exponent."""
    spans = _spans(array)
    states = check_decimals(*spans, target.precision, target.scale)
    fine = spans[3] & (states == cell.FINE)
    plain = pc.if_else(pa.array(fine), array, pa.scalar(None, pa.string()))
    found = pc.cast(pc.utf8_trim(plain, " \t"), target)
    others = np.flatnonzero(spans[3] & (states != cell.FINE) & (states != cell.MISFIT))
    if not others.size:
        return found
    values = found.to_pylist()
    for row in others.tolist():
        values[row] = _rounded(array[row].as_py(), target)
    return pa.array(values, target)


def _rounded(text: str, target: pa.DataType) -> Decimal | None:
    with localcontext(prec=target.precision, rounding=ROUND_HALF_UP) as context:
        context.traps[InvalidOperation] = True
        try:
            return Decimal(text.strip(" \t")).quantize(Decimal(1).scaleb(-target.scale))
        except InvalidOperation:
            return None
