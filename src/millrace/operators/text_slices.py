"""Slices of texts: characters from one position to another, each row with its own positions.

Arrow slices all rows alike. Here the bytes at which characters begin are found once, and each
row's slice is a span of bytes between two of them:

    bytes        n a ï ï v e | o k         a character of UTF-8 begins where the
    begins       0 1 2   4 5   6 7         two highest bits of a byte are not 10
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.kernels.arrays import Bytes, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Characters:
    """Where the characters of texts begin. `firsts[row]` counts those of the rows before it."""

    data: Bytes
    begins: Ints
    firsts: Ints

    @classmethod
    def of(cls, array: pa.Array) -> Characters:
        """Find the characters of an array of texts."""
        _, ends, buffer = array.buffers()
        if not len(array) or ends is None:
            return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64))
        offsets = np.frombuffer(ends, np.int32)[array.offset :][: len(array) + 1]
        first, stop = int(offsets[0]), int(offsets[-1])
        data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
        data = data[first:stop]
        begins = np.append(np.flatnonzero((data & 0xC0) != 0x80), stop - first)
        return cls(data, begins, np.searchsorted(begins, offsets - first).astype(np.int64))

    @property
    def lengths(self) -> Ints:
        """How many characters each row has."""
        return np.diff(self.firsts)


def slice_rows(
    array: pa.Array, first: NDArray[Any], stop: NDArray[Any], valid: NDArray[np.bool_]
) -> pa.Array:
    """Return of each text the characters from `first` to before `stop`, counted from 0.

    Positions outside the text stand for its ends; where `valid` is false the result is NULL.
    """
    characters = Characters.of(array)
    lengths = characters.lengths
    first = np.clip(np.where(valid, first, 0), 0, lengths)
    stop = np.maximum(np.clip(np.where(valid, stop, 0), 0, lengths), first)
    begin = characters.begins[characters.firsts[:-1] + first]
    sizes = characters.begins[characters.firsts[:-1] + stop] - begin
    offsets = np.zeros(sizes.size + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    places = np.repeat(begin - offsets[:-1], sizes) + np.arange(offsets[-1])
    buffers = [
        pa.py_buffer(np.packbits(valid, bitorder="little")),
        pa.py_buffer(offsets),
        pa.py_buffer(characters.data[places]),
    ]
    return pa.Array.from_buffers(pa.string(), len(array), buffers)


def character_at(array: pa.Array, byte: Ints) -> Ints:
    """Return which character of its text, from 0, begins at a byte of it."""
    characters = Characters.of(array)
    start = characters.begins[characters.firsts[:-1]]
    return np.searchsorted(characters.begins, start + byte) - characters.firsts[:-1]
