"""Lists, which only array_agg makes, as bytes that are equal and ordered as the lists are.

Arrow neither hashes, compares nor sorts lists. Each value becomes bytes that compare as the values
do, NULL first, and what ends a list comes before everything that goes on:

    list      NULL < [] < [NULL] < [1] < [1, 2] < [2]

Cost: Python for each value; lists stand in answers, and not where there are many rows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

_NULL, _VALUE = b"\x01", b"\x02"
_END = b"\x00"


def comparable(column: pa.Array) -> pa.Array:
    """Return lists as bytes; other columns as they are."""
    if not kinds.is_list(column.type):
        return column
    spell = _spelling(column.type.value_type)
    spelt = [
        None if each is None else b"".join(_value(one, spell) for one in each) + _END
        for each in _plain(column).to_pylist()
    ]
    return pa.array(spelt, pa.binary())


def _plain(column: pa.Array) -> pa.Array:
    """Return lists whose values Python can hold: instants as numbers."""
    if not kinds.is_temporal(column.type.value_type):
        return column
    width = pa.int32() if kinds.is_date32(column.type.value_type) else pa.int64()
    return column.cast(pa.list_(width))


def _value(value: Any, spell: Callable[[Any], bytes]) -> bytes:  # noqa: ANN401
    return _NULL if value is None else _VALUE + spell(value)


def _spelling(arrow: pa.DataType) -> Callable[[Any], bytes]:
    if kinds.is_floating(arrow):
        return _float
    if kinds.is_string(arrow):
        return lambda value: _escaped(value.encode())
    if kinds.is_binary(arrow):
        return _escaped
    if kinds.is_decimal(arrow):
        scale = arrow.scale
        return lambda value: _whole(int(Decimal(value).scaleb(scale)), 17)
    return lambda value: _whole(int(value), 9)


def _whole(value: int, width: int) -> bytes:
    return (value + (1 << (8 * width - 1))).to_bytes(width, "big")


def _float(value: float) -> bytes:
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))
    if value != value:  # noqa: PLR0124  NaN is the greatest
        bits = 0x7FF8000000000000
    return struct.pack(">Q", bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63))


def _escaped(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
