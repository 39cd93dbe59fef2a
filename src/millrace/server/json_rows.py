"""Rows as JSON: values that JSON has no form for are texts.

timestamps    ISO 8601 in UTC with microseconds: "2026-01-31T12:00:00.000000Z"; where the calendar
              ends, the number of microseconds since 1970: "4611686018427387904 us"
dates         "2026-01-31"
integers      beyond 2^53 as texts, since many clients read numbers as doubles; a column of
              64-bit integers may so hold both
decimals      as texts
NaN, Infinity "NaN", "Infinity", "-Infinity"
binary        base 64
lists         arrays of the same
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import PlanError
from millrace.schema import TIMESTAMP
from millrace.time import print_instant, to_datetime, to_instant

EXACT = 1 << 53
_CALENDAR = to_instant("0001-01-01T00:00:00Z"), to_instant("9999-12-31T23:59:59.999999Z")
"""The first and the last instant of it."""


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dictionaries of what JSON has.

    >>> json_rows(pa.table({"n": [1, 2**60], "x": [0.5, float("nan")]}))
    [{'n': 1, 'x': 0.5}, {'n': '1152921504606846976', 'x': 'NaN'}]
    """
    names = table.column_names
    columns = [json_values(table.column(at)) for at in range(table.num_columns)]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def json_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as JSON has them."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _instants(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
    if pa.types.is_decimal(kind) or pa.types.is_date(kind):
        return list(column.cast(pa.string()).to_pylist())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(column)
    convert = _conversion(kind)
    values: list[Any] = column.to_pylist()
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _conversion(kind: pa.DataType) -> Callable[[Any], Any] | None:
    if pa.types.is_int64(kind) or pa.types.is_uint64(kind):
        return _integer
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: base64.b64encode(value).decode()
    return None


def _lists(column: pa.ChunkedArray) -> list[Any]:
    """Return lists, also of lists: their values are spelt at once, and cut where lists end."""
    found: list[Any] = []
    for chunk in column.chunks:
        values, at = json_values(pa.chunked_array([chunk.flatten()])), 0
        for length in pc.list_value_length(chunk).to_pylist():
            found.append(None if length is None else values[at : at + length])
            at += length or 0
    return found


def _instants(times: pa.Array) -> list[str | None]:
    """Spell instants at once, if all of them are in the calendar."""
    numbers = (times if times.type == TIMESTAMP else times.cast(TIMESTAMP)).view(pa.int64())
    micros = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy()
    if micros.size and (micros.min() < _CALENDAR[0] or micros.max() > _CALENDAR[1]):
        return [instant_text(each) for each in numbers.to_pylist()]
    texts = np.datetime_as_string(micros.view("M8[us]")).tolist()
    if not numbers.null_count:
        return [f"{each}Z" for each in texts]
    said = numbers.is_valid().to_pylist()
    return [f"{each}Z" if there else None for each, there in zip(texts, said, strict=True)]


def _integer(value: int) -> int | str:
    return value if -EXACT <= value <= EXACT else str(value)


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def instant_text(micros: int | None) -> str | None:
    """Spell an instant as rows do; where the calendar ends, as a number.

    >>> instant_text(0), instant_text(1 << 62)
    ('1970-01-01T00:00:00.000000Z', '4611686018427387904 us')
    """
    if micros is None:
        return None
    try:
        text = to_datetime(micros).isoformat(timespec="microseconds")
    except PlanError:
        return print_instant(micros)
    return text.replace("+00:00", "Z")


def ndjson(table: pa.Table, rows: int = 10_000) -> Iterator[bytes]:
    """Spell a table a row a line, some rows at a time."""
    for at in range(0, table.num_rows, rows):
        lines = [json.dumps(each) for each in json_rows(table.slice(at, rows))]
        yield ("\n".join(lines) + "\n").encode()
