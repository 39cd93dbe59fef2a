"""Texts as code points: functions that look at or change single characters.

All characters of an array are decoded at once, into one array of numbers in which each row has its
stretch. What is changed is encoded at once too; how many bytes each character takes says where the
rows begin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millrace.kernels.arrays import Ints
from millrace.operators.compare import as_type
from millrace.operators.text_slices import Characters, texts_of
from millrace.operators.vectors import Datum, by_distinct, datum_of, elementwise, vector
from millrace.plan.types import BIGINT, TEXT

Codes = NDArray[np.uint32]
_GREATEST = 0x10FFFF
_SURROGATES = (0xD800, 0xE000)
"""Numbers from the first to before the second are halves of characters."""


def _decoded(rows: pa.Array) -> tuple[Codes, Ints]:
    """Return the code points of all rows, and where each row's begin; NULL has none."""
    characters = Characters.of(pc.fill_null(rows, ""))
    text = characters.data.tobytes().decode()
    return np.frombuffer(text.encode("utf-32-le"), "<u4"), characters.firsts


def _encoded(codes: Codes, firsts: Ints, valid: NDArray[np.bool_]) -> pa.Array:
    """Return texts of code points; `firsts` says where each row's begin."""
    sizes = 1 + (codes >= 0x80).astype(np.int32) + (codes >= 0x800) + (codes >= 0x10000)
    bytes_before = np.zeros(codes.size + 1, np.int32)
    np.cumsum(sizes, out=bytes_before[1:])
    data = codes.astype("<u4").tobytes().decode("utf-32-le").encode()
    return texts_of(data, bytes_before[firsts], valid)


def _known(rows: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(rows.is_valid().to_numpy(zero_copy_only=False))


def code_of(text: Datum) -> Datum:
    """Return the code point of the first character, 0 if there is none."""

    def first(rows: pa.Array) -> pa.Array:
        codes, firsts = _decoded(rows)
        padded = np.append(codes, np.uint32(0)).astype(np.int64)
        found = np.where(np.diff(firsts) > 0, padded[firsts[:-1]], 0)
        return datum_of(found, _known(rows), BIGINT)

    return elementwise(first, as_type(text, TEXT))


def character_of(number: Datum) -> Datum:
    """Return the character of a code point, NULL if there is none."""

    def write(rows: pa.Array) -> pa.Array:
        found = vector(rows)
        codes, (low, high) = found.values, _SURROGATES
        valid = (codes >= 0) & (codes <= _GREATEST) & ~((codes >= low) & (codes < high))
        valid &= _known(rows)
        firsts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(valid, out=firsts[1:])
        return _encoded(codes[valid].astype(np.uint32), firsts, valid)

    return elementwise(write, as_type(number, BIGINT))


def initcap(text: Datum) -> Datum:
    """Begin each word with an upper case letter; the others are lower case.

    A word is what letters and digits there are side by side. Changing the case of a text leaves the
    number of its characters as it is.
    """

    def change(rows: pa.Array) -> pa.Array:
        codes, firsts = _decoded(rows)
        inside = _alphanumeric(codes)
        before = np.append(False, inside[:-1])[: codes.size]
        before[firsts[:-1][firsts[:-1] < codes.size]] = False
        upper, _ = _decoded(pc.utf8_upper(rows))
        lower, _ = _decoded(pc.utf8_lower(rows))
        return _encoded(np.where(before, lower, upper), firsts, _known(rows))

    return elementwise(change, as_type(text, TEXT))


def _alphanumeric(codes: Codes) -> NDArray[Any]:
    distinct, places = np.unique(codes, return_inverse=True)
    each = _encoded(distinct, np.arange(distinct.size + 1), np.ones(distinct.size, np.bool_))
    return np.asarray(pc.utf8_is_alnum(each).to_numpy(zero_copy_only=False), np.bool_)[places]


def translate(text: Datum, old: Datum, new: Datum) -> Datum:
    """Put for each character of one text that of another at its place; without one it goes."""
    return by_distinct(
        _translated, *(as_type(each, TEXT) for each in (text, old, new)), result=TEXT
    )


def _translated(rows: pa.Array, old: str, new: str) -> pa.Array:
    codes, firsts = _decoded(rows)
    others: dict[int, int] = {}
    for at, each in enumerate(old):
        others.setdefault(ord(each), ord(new[at]) if at < len(new) else -1)
    found = codes.astype(np.int64)
    for code, other in others.items():
        found[codes == code] = other
    kept = np.zeros(found.size + 1, np.int64)
    np.cumsum(found >= 0, out=kept[1:])
    return _encoded(found[found >= 0].astype(np.uint32), kept[firsts], _known(rows))
