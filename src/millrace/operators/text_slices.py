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
    """Where the characters of texts begin. `firsts[row]` counts those of the rows before it.

    `begins` is None where every character is one byte, and begins at the byte of its number.
    """

    data: Bytes
    begins: Ints | None
    firsts: Ints

    @classmethod
    def of(cls, array: pa.Array) -> Characters:
        """Find the characters of an array of texts."""
        data, offsets = bytes_of(array)
        if not data.size or data.max() < 0x80:
            return cls(data, None, offsets)
        begin = np.append((data & 0xC0) != 0x80, True)  # where a next one would
        numbers = np.cumsum(begin) - 1
        return cls(data, np.flatnonzero(begin), numbers[offsets])

    @property
    def lengths(self) -> Ints:
        """How many characters each row has."""
        return np.diff(self.firsts)

    def byte(self, character: Ints) -> Ints:
        """Return the byte at which a character begins, counted from the first of all rows."""
        return character if self.begins is None else self.begins[character]


def bytes_of(array: pa.Array) -> tuple[Bytes, Ints]:
    """Return the bytes of all texts, and where those of each begin."""
    _, ends, buffer = array.buffers()
    if not len(array) or ends is None or buffer is None:
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    offsets = np.frombuffer(ends, np.int32)[array.offset :][: len(array) + 1].astype(np.int64)
    return np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def texts_of(data: Bytes | bytes, offsets: NDArray[Any], valid: NDArray[np.bool_]) -> pa.Array:
    """Return texts of bytes: `offsets` says where each begins, `valid` which are no NULL."""
    buffers = [
        pa.py_buffer(np.packbits(valid, bitorder="little")),
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(data),
    ]
    return pa.Array.from_buffers(pa.string(), len(valid), buffers)


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
    begin = characters.byte(characters.firsts[:-1] + first)
    sizes = characters.byte(characters.firsts[:-1] + stop) - begin
    offsets = np.zeros(sizes.size + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    places = np.repeat(begin - offsets[:-1], sizes) + np.arange(offsets[-1])
    return texts_of(characters.data[places], offsets, valid)


def character_at(array: pa.Array, byte: Ints) -> Ints:
    """Return which character of its text, from 0, begins at a byte of it."""
    characters = Characters.of(array)
    if characters.begins is None:
        return byte
    start = characters.byte(characters.firsts[:-1])
    return np.searchsorted(characters.begins, start + byte) - characters.firsts[:-1]
