"""From the cells of one column to an Arrow array, and words for the cells that do not fit.

JSON says what kind each value is, and it must be the right one: a number for numbers, true or
false for booleans, a string for text (12 is not text and "12" is not a bigint). A decimal may
be a number or a string, since quoting is the usual way to keep it exact. CSV has text alone, so
there any type is read from it, without the spaces around it.

- timestamp: ISO 8601 (see `kernels.moments`), or an integer: MICROSECONDS since 1970.
- date: `YYYY-MM-DD`.   binary: base64.
- integers, decimals and floats out of range are refused, never wrapped or rounded to infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from millrace.kernels import cells as cell
from millrace.kernels.arrays import Bools, Bytes, Ints
from millrace.kernels.moments import read_dates, read_timestamps
from millrace.kernels.numbers import check_decimals, read_bools, read_floats, read_ints
from millrace.operators.keys import read_only
from millrace.schema import type_name

_SHOWN = 60
_ARTICLES = {"int": "an ", "text": "", "binary": ""}
_HINTS = {"binary": " (base64)", "date": " (YYYY-MM-DD)", "timestamp": " (ISO 8601)"}


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one column. `loose` reads any type from text; `quote` is that of CSV or 0."""

    data: Bytes
    firsts: Ints
    stops: Ints
    kinds: Bytes
    loose: bool
    quote: int

    def __len__(self) -> int:
        return self.firsts.size

    def text(self, row: int) -> bytes:
        """Return the bytes of one cell as they stand in the source."""
        return self.data[self.firsts[row] : self.stops[row]].tobytes()

    def of(self, *accepted: int) -> Bools:
        """Say which cells are of one of these kinds."""
        return np.isin(self.kinds, accepted)

    @property
    def valid(self) -> Bools:
        """Which cells hold something."""
        return self.kinds >= cell.TRUE


_Reader = Callable[[Cells, Bools], tuple[NDArray[Any], Bytes]]


def read_column(cells: Cells, arrow: pa.DataType) -> tuple[pa.Array, Bytes]:
    """Read a column; cells that do not fit are NULL, and their state is not FINE."""
    if kinds.is_string(arrow) or kinds.is_binary(arrow):
        return _read_bytes(cells, arrow)
    if kinds.is_boolean(arrow) and not cells.loose:
        return _finish(
            cells.kinds == cell.TRUE, cells, arrow, _strict(cells, cell.TRUE, cell.FALSE)
        )
    cells = _plain(cells)
    if kinds.is_decimal(arrow):
        return _read_decimals(cells, arrow)
    if kinds.is_timestamp(arrow):
        return _read_timestamps(cells)
    numeric = kinds.is_integer(arrow) or kinds.is_floating(arrow)
    states = _strict(cells, cell.NUMBER if numeric and not cells.loose else cell.TEXT)
    wanted = cells.valid & (states == cell.FINE)
    values, found = _READERS[arrow](cells, wanted)
    return _finish(values, cells, arrow, np.maximum(states, found))


def _read_integers(arrow: pa.DataType) -> _Reader:
    limits = np.iinfo(arrow.to_pandas_dtype())
    low, high = int(limits.min), int(limits.max)
    return lambda cells, wanted: read_ints(*_spans(cells), wanted, low, high)


def _spans(cells: Cells) -> tuple[Bytes, Ints, Ints]:
    return cells.data, cells.firsts, cells.stops


def _strict(cells: Cells, *accepted: int) -> Bytes:
    """Call every cell a misfit that holds something of another kind."""
    return (cells.valid & ~cells.of(*accepted)).astype(np.uint8) * np.uint8(cell.MISFIT)


def _plain(cells: Cells) -> Cells:
    """Write escaped cells out, so that only plain ones are left (.NET escapes the + of a zone)."""
    escaped = cells.kinds == cell.ESCAPED
    if not escaped.any():
        return cells
    only = np.where(escaped, cells.kinds, np.uint8(cell.NULL))
    states = np.zeros(len(cells), np.uint8)
    offsets, text = cell.gather(*_spans(cells), only, states, cells.quote)
    base = cells.data.size
    return replace(
        cells,
        data=read_only(np.concatenate([cells.data, text])),
        firsts=np.where(escaped, base + offsets[:-1], cells.firsts),
        stops=np.where(escaped, base + offsets[1:], cells.stops),
        kinds=np.where(escaped, np.uint8(cell.TEXT), cells.kinds),
    )


def _read_bytes(cells: Cells, arrow: pa.DataType) -> tuple[pa.Array, Bytes]:
    states = _strict(cells, cell.TEXT, cell.ESCAPED)
    offsets, data = cell.gather(*_spans(cells), cells.kinds, states, cells.quote)
    if kinds.is_binary(arrow):
        offsets, data = cell.decode_base64(offsets, data, states)
    valid = cells.valid & (states == cell.FINE)
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow, len(cells), buffers), states


def _bitmap(valid: Bools) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _finish(
    values: NDArray[Any], cells: Cells, arrow: pa.DataType, states: Bytes
) -> tuple[pa.Array, Bytes]:
    valid = cells.valid & (states == cell.FINE)
    if kinds.is_boolean(arrow):
        data = np.packbits(values, bitorder="little")
    else:
        width = np.int32 if kinds.is_date32(arrow) else np.int64
        dtype = width if kinds.is_temporal(arrow) else arrow.to_pandas_dtype()
        data = values.astype(dtype, copy=False)
    return pa.Array.from_buffers(arrow, len(cells), [_bitmap(valid), pa.py_buffer(data)]), states


def _read_doubles(cells: Cells, wanted: Bools) -> tuple[NDArray[Any], Bytes]:
    values, states = read_floats(*_spans(cells), wanted)
    exact = np.flatnonzero(states == cell.EXACT)
    if exact.size:
        texts = pa.array([cells.text(row).strip().decode() for row in exact.tolist()])
        values[exact] = pc.cast(texts, pa.float64()).to_numpy()
        states[exact] = np.where(np.isinf(values[exact]), cell.RANGE, cell.FINE)
    return values, states


def _read_singles(cells: Cells, wanted: Bools) -> tuple[NDArray[Any], Bytes]:
    values, states = _read_doubles(cells, wanted)
    with np.errstate(over="ignore"):
        singles = values.astype(np.float32)
    states[np.isinf(singles) & np.isfinite(values)] = cell.RANGE
    return singles, states


_READERS: dict[pa.DataType, _Reader] = {
    **{each: _read_integers(each) for each in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    pa.float32(): _read_singles,
    pa.float64(): _read_doubles,
    pa.bool_(): lambda cells, wanted: read_bools(*_spans(cells), wanted),
    pa.date32(): lambda cells, wanted: read_dates(*_spans(cells), wanted),
}


def _read_timestamps(cells: Cells) -> tuple[pa.Array, Bytes]:
    states = _strict(cells, cell.TEXT, cell.NUMBER)
    values, found = read_timestamps(*_spans(cells), cells.kinds == cell.TEXT)
    numbers = (found == cell.MISFIT) if cells.loose else cells.kinds == cell.NUMBER
    if numbers.any():
        limits = np.iinfo(np.int64)
        micros, others = read_ints(*_spans(cells), numbers, int(limits.min), int(limits.max))
        values, found = np.where(numbers, micros, values), np.where(numbers, others, found)
    return _finish(values, cells, pa.timestamp("us", tz="UTC"), np.maximum(states, found))


def _read_decimals(cells: Cells, arrow: pa.DataType) -> tuple[pa.Array, Bytes]:
    states = _strict(cells, cell.TEXT, cell.NUMBER)
    wanted = cells.valid & (states == cell.FINE)
    found = check_decimals(*_spans(cells), wanted, arrow.precision, arrow.scale)
    states = np.maximum(states, found)
    offsets, data = cell.gather(*_spans(cells), cells.kinds, states, cells.quote)
    valid = cells.valid & (states == cell.FINE)
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.string(), len(cells), buffers)
    array = pc.cast(pc.utf8_trim_whitespace(texts), arrow)
    exact = np.flatnonzero(states == cell.EXACT)
    return (_with_exact(array, cells, exact, states), states) if exact.size else (array, states)


def _with_exact(array: pa.Array, cells: Cells, rows: Ints, states: Bytes) -> pa.Array:
    """Read the decimals with an exponent one by one; hardly anything writes them."""
    values = array.to_pylist()
    for row in rows.tolist():
        value = _fitting(cells.text(row).decode(), array.type)
        values[row] = value
        states[row] = cell.RANGE if value is None else cell.FINE
    return pa.array(values, array.type)


def _fitting(text: str, arrow: pa.DataType) -> Decimal | None:
    with localcontext(prec=arrow.precision) as context:
        context.traps[InvalidOperation] = True
        try:
            value = Decimal(text.strip())
            rounded = value.quantize(Decimal(1).scaleb(-arrow.scale))
        except InvalidOperation:
            return None
        return rounded if rounded == value else None


def describe(name: str, arrow: pa.DataType, cells: Cells, row: int, state: int) -> str:
    """Say why a cell does not fit its column."""
    ours = type_name(arrow)
    text = cells.text(row).decode("utf-8", "replace")
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    if cells.loose or cells.kinds[row] in (cell.TEXT, cell.ESCAPED):
        shown = f'"{shown}"'
    if state == cell.RANGE:
        fits = "does not fit" if kinds.is_decimal(arrow) else "is outside the range of"
        return f"column {name}: {shown} {fits} {ours}"
    if ours == "text" and cells.kinds[row] == cell.ESCAPED:
        return f"column {name}: {shown} holds half of a surrogate pair"
    return f"column {name}: {shown} is not {_ARTICLES.get(ours, 'a ')}{ours}{_HINTS.get(ours, '')}"
