"""Cells: where each value of each row stands in a block of bytes, and kernels that copy them out.

A scanner (JSON, CSV) finds for every row and column the span of bytes that holds the value and
what kind of thing it is. Nothing is converted yet; `numbers`, `moments` and the kernels here turn
the spans of one column into an array, each cell with a state of its own, so that one bad value
costs one row and no second pass:

    bytes    {"symbol": "ACME", "price": 12.5}
    symbol               ----                      TEXT
    price                                ----      NUMBER
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bytes, Ints, Ints32
from millrace.kernels.unicode import byte_at, put_character

# What a cell is. Everything below TRUE is NULL to SQL.
ABSENT, NULL, TRUE, FALSE, NUMBER, TEXT, ESCAPED, NESTED = range(8)

# What came of converting it. EXACT asks the caller to do it a slower way.
FINE, MISFIT, RANGE, EXACT = range(4)

_ESCAPES = np.zeros(256, np.uint8)
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _meaning


@njit(cache=True, nogil=True)
def hex_value(data: Bytes, at: int) -> int:
    """Return the number that four hexadecimal digits stand for, or -1."""
    value = 0
    for index in range(at, at + 4):
        digit = byte_at(data, index)
        if 48 <= digit <= 57:
            value = value * 16 + digit - 48
        elif 97 <= (digit | 32) <= 102:
            value = value * 16 + (digit | 32) - 87
        else:
            return -1
    return value


@njit(cache=True, nogil=True)
def unescape_json(data: Bytes, first: int, stop: int, out: Bytes, at: int) -> int:
    """Write the text of a JSON string, already checked, at `at`; return its end.

    Returns -1 where the string holds half a surrogate pair, which no UTF-8 can express.
    """
    read = first
    while read < stop:
        byte = data[read]
        if byte != 92:
            out[at] = byte
            at += 1
            read += 1
        elif data[read + 1] != 117:
            out[at] = _ESCAPES[data[read + 1]]
            at += 1
            read += 2
        else:
            code = hex_value(data, read + 2)
            read += 6
            if 0xD800 <= code < 0xE000:
                paired = read + 6 <= stop and data[read] == 92 and data[read + 1] == 117
                low = hex_value(data, read + 2) if paired else -1
                if code >= 0xDC00 or not 0xDC00 <= low < 0xE000:
                    return -1
                code = 0x10000 + (code - 0xD800) * 1024 + (low - 0xDC00)
                read += 6
            at = put_character(out, at, code)
    return at


@njit(cache=True, nogil=True)
def _undouble(data: Bytes, first: int, stop: int, out: Bytes, at: int, quote: int) -> int:
    """Write the text of a quoted CSV field, in which a quote is written twice."""
    read = first
    while read < stop:
        out[at] = data[read]
        at += 1
        read += 2 if data[read] == quote else 1
    return at


@njit(cache=True, nogil=True)
def gather(
    data: Bytes, firsts: Ints, stops: Ints, kinds: Bytes, states: Bytes, quote: int
) -> tuple[Ints32, Bytes]:
    """Copy the text of each fine TEXT, NUMBER or ESCAPED cell; return offsets and bytes.

    `quote` is the quote of CSV, or 0 for the escapes of JSON. A cell that cannot be text gets
    the state MISFIT, in place.
    """
    room = 0
    for row in range(firsts.size):
        if kinds[row] >= NUMBER and states[row] == FINE:
            room += stops[row] - firsts[row]
    offsets = np.empty(firsts.size + 1, np.int32)
    out = np.empty(room, np.uint8)
    at = 0
    offsets[0] = 0
    for row in range(firsts.size):
        first, stop = firsts[row], stops[row]
        if kinds[row] >= NUMBER and states[row] == FINE:
            if kinds[row] != ESCAPED:
                for read in range(first, stop):
                    out[at + read - first] = data[read]
                at += stop - first
            elif quote:
                at = _undouble(data, first, stop, out, at, quote)
            else:
                end = unescape_json(data, first, stop, out, at)
                if end < 0:
                    states[row] = MISFIT
                else:
                    at = end
        offsets[row + 1] = at
    return offsets, out[:at]


@njit(cache=True, nogil=True)
def decode_base64(offsets: Ints32, data: Bytes, states: Bytes) -> tuple[Ints32, Bytes]:
    """Decode standard, padded base64; what is not becomes MISFIT and empty."""
    out = np.empty(data.size, np.uint8)
    stops = np.empty(offsets.size, np.int32)
    stops[0] = 0
    at = 0
    for row in range(offsets.size - 1):
        end = _base64_value(data, offsets[row], offsets[row + 1], out, at)
        if end < 0:
            states[row] = MISFIT
        else:
            at = end
        stops[row + 1] = at
    return stops, out[:at]


@njit(cache=True, nogil=True)
def _base64_value(data: Bytes, first: int, stop: int, out: Bytes, at: int) -> int:
    if (stop - first) % 4:
        return -1
    padding = 0
    while padding < 2 and stop > first and data[stop - 1] == 61:
        padding += 1
        stop -= 1
    word, n_bits = 0, 0
    for read in range(first, stop):
        digit = _base64_digit(byte_at(data, read))
        if digit < 0:
            return -1
        word = (word << 6 | digit) & 0xFFFF
        n_bits += 6
        if n_bits >= 8:
            n_bits -= 8
            out[at] = np.uint8(word >> n_bits & 0xFF)
            at += 1
    return at


@njit(cache=True, nogil=True)
def _base64_digit(byte: int) -> int:
    if 65 <= byte <= 90:
        return byte - 65
    if 97 <= byte <= 122:
        return byte - 71
    if 48 <= byte <= 57:
        return byte + 4
    if byte == 43:
        return 62
    return 63 if byte == 47 else -1
