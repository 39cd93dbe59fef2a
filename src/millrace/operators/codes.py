"""Codes: every value as an int64 whose order is the order of the values.

Kernels that compare see integers only. A comparison with a constant becomes a closed interval of
codes, because `> c` is `>= c + 1` there:

    NULL_CODE        NULL; an interval of a comparison never reaches down to it
    LOWEST … HIGHEST integers, dates, times and booleans as they are, decimals without their point,
                     doubles by their bits (-0.0 is 0.0, NaN the greatest), texts by their rank

A text has a code only with respect to some constants: twice its place among them, plus one if it
is one of them (`TextCodes`).

Invariant: integers outside of LOWEST … HIGHEST are moved to these ends. No comparison can tell
the difference, because a constant beyond them is not `indexable`.

Cost: 1 to 3 ns a value; a text about 30 ns, and 100 ns more for each different one in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from millrace.kernels.arrays import Bools, Bytes, Ints
from millrace.kernels.text_rank import rank_texts

NULL_CODE = np.iinfo(np.int64).min
MAX_CODE = np.iinfo(np.int64).max
LOWEST = NULL_CODE + 2
HIGHEST = MAX_CODE - 2
EXACT_DOUBLES = 2**53
LONGEST_DECIMAL = 18

_NAN = np.int64(HIGHEST)
_SIGN = np.int64(MAX_CODE)


def has_codes(arrow: pa.DataType) -> bool:
    """Say whether values of a type can be indexed."""
    if kinds.is_decimal(arrow):
        return bool(arrow.precision <= LONGEST_DECIMAL)
    return is_text(arrow) or bool(
        kinds.is_integer(arrow)
        or kinds.is_floating(arrow)
        or kinds.is_boolean(arrow)
        or kinds.is_date32(arrow)
        or kinds.is_timestamp(arrow)
    )


def is_text(arrow: pa.DataType) -> bool:
    """Say whether values of a type are coded by rank."""
    return bool(kinds.is_string(arrow) or kinds.is_binary(arrow))


def codes_of(values: pa.Array) -> Ints:
    """Return the codes of values other than texts; NULL is `NULL_CODE`."""
    codes = _present(values)
    if values.null_count:
        codes = np.where(valid(values), codes, NULL_CODE)
    return codes


def valid(values: pa.Array) -> Bools:
    """Say for each value whether it is not NULL."""
    mask: Bools = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return mask


def _present(values: pa.Array) -> Ints:
    """Return codes without regard to NULL."""
    arrow = values.type
    if kinds.is_null(arrow):  # nullif(NULL, ok) is a condition too
        return np.zeros(len(values), np.int64)
    if kinds.is_floating(arrow):
        return _double_codes(values.cast(pa.float64()))
    if kinds.is_decimal(arrow):
        return _decimal_codes(values)
    if kinds.is_boolean(arrow):
        values = values.cast(pa.int8())
    elif kinds.is_date32(arrow):
        values = values.cast(pa.int32())
    whole = values.cast(pa.int64()).fill_null(0).to_numpy()
    codes: Ints = np.clip(whole, LOWEST, HIGHEST) if arrow.bit_width == 64 else whole
    return codes


def _double_codes(values: pa.Array) -> Ints:
    numbers = values.fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
    bits = numbers.view(np.int64)
    codes = np.where(bits < 0, bits ^ _SIGN, bits)
    missing = np.isnan(numbers)
    return np.where(missing, _NAN, codes) if missing.any() else codes


def _decimal_codes(values: pa.Array) -> Ints:
    """Read the low half of each 128-bit number; with at most 18 digits it is the whole."""
    halves = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
    return halves[values.offset : values.offset + len(values), 0].copy()


@dataclass(frozen=True, slots=True, eq=False)
class TextCodes:
    """Constants in ascending order of their bytes, each once, and the codes they give."""

    bounds: Ints
    data: Bytes

    @classmethod
    def of(cls, constants: pa.Array) -> Self:
        """Collect constants (binary; NULL is left out)."""
        return cls.ascending(distinct_texts(constants))

    @classmethod
    def ascending(cls, constants: pa.Array) -> Self:
        """Take constants that are in order, each once."""
        starts, stops, data = text_buffers(constants)
        bounds = np.concatenate((starts, stops[-1:])) if len(constants) else np.zeros(1, np.int64)
        first = int(bounds[0])
        return cls(bounds - first, data[first : int(bounds[-1])].copy())

    @classmethod
    def mapped(cls, arrays: Mapping[str, np.ndarray], prefix: str) -> Self:
        """Take the arrays of `to_arrays` again."""
        return cls(arrays[f"{prefix}/bounds"], arrays[f"{prefix}/data"])

    def to_arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return what is stored."""
        return {f"{prefix}/bounds": self.bounds, f"{prefix}/data": self.data}

    def codes_of(self, values: pa.Array) -> Ints:
        """Return the codes of texts; each different one is looked up once."""
        plain = values.cast(pa.binary()) if kinds.is_string(values.type) else values
        encoded = plain.dictionary_encode()
        starts, stops, data = text_buffers(encoded.dictionary)
        codes = rank_texts(starts, stops, data, self.bounds, self.data)
        places = encoded.indices.fill_null(0).to_numpy()
        if not len(codes):
            return np.full(len(values), NULL_CODE)
        found: Ints = codes[places]
        return np.where(valid(values), found, NULL_CODE) if values.null_count else found


def distinct_texts(values: pa.Array) -> pa.Array:
    """Return texts (binary; NULL is left out) in ascending order of their bytes, each once."""
    distinct = pc.unique(values.drop_null())
    return distinct.take(pc.sort_indices(distinct))


def text_buffers(values: pa.Array) -> tuple[Ints, Ints, Bytes]:
    """Return where each text begins and ends, and the bytes; NULL has any place."""
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    wide = bounds.astype(np.int64)
    whole = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return wide[:-1], wide[1:], whole
