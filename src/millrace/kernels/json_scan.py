"""Kernel that finds the cells of JSON objects, one object a line, checking the whole grammar.

Each line is judged by itself: it is an object by RFC 8259 with nothing behind it, or it has a
fault with a position. A library that reads a stream of objects cannot promise that (two objects
in one line, or one over two lines, shift all rows behind them), nor does it survive one bad value.

    line      {"symbol": "ACME", "tags": ["x", {"y": 1}], "price": 12.5}
    state     { key : value    , key : skip with a stack , key : value }

Keys that are no column are skipped; a column that comes twice is a fault.

Cost: about 5 ns a byte, whatever the number of bad lines. Memory: 17 bytes a cell.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bytes, Ints, Ints32
from millrace.kernels.cells import (
    ABSENT,
    ESCAPED,
    FALSE,
    NESTED,
    NULL,
    NUMBER,
    TEXT,
    TRUE,
    hex_value,
    unescape_json,
)
from millrace.kernels.unicode import valid_utf8

# What is wrong with a line; BLANK is nothing wrong, there is no row.
NO_FAULT, BLANK, NO_OBJECT, NO_KEY, NO_COLON, NO_VALUE, NO_COMMA = range(7)
OPEN_TEXT, BAD_ESCAPE, CONTROL, TOO_DEEP, TRAILING, TWICE, NOT_UTF8 = range(7, 14)

MAX_DEPTH = 512


@njit(cache=True, nogil=True)
def scan_objects(
    data: Bytes, line_firsts: Ints, line_stops: Ints, names: Bytes, name_offsets: Ints32
) -> tuple[Ints, Ints, Bytes, Bytes, Ints]:
    """Find the named cells of every line `data[line_firsts[i]:line_stops[i]]`.

    Returns the first and stop of each cell and its kind, by column and row, then each row's
    fault and the position of it in the line (for TWICE, the number of the column).
    """
    shape = (name_offsets.size - 1, line_firsts.size)
    firsts, stops = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    kinds = np.zeros(shape, np.uint8)
    faults, places = np.zeros(shape[1], np.uint8), np.zeros(shape[1], np.int64)
    stack, scratch = np.empty(MAX_DEPTH + 1, np.uint8), np.empty(6 * names.size + 8, np.uint8)
    for row in range(shape[1]):
        first, stop = line_firsts[row], line_stops[row]
        fault, place, high = _scan_line(
            data, first, stop, row, firsts, stops, kinds, names, name_offsets, scratch, stack
        )
        if fault == NO_FAULT and high and not valid_utf8(data, first, stop):
            fault, place = NOT_UTF8, first
        if fault != NO_FAULT:
            kinds[:, row] = ABSENT
            faults[row], places[row] = fault, place if fault == TWICE else place - first
    return firsts, stops, kinds, faults, places


@njit(cache=True, nogil=True)
def _scan_line(  # noqa: C901, PLR0915, PLR0917 - one loop is the whole grammar
    data: Bytes,
    at: int,
    stop: int,
    row: int,
    firsts: Ints,
    stops: Ints,
    kinds: Bytes,
    names: Bytes,
    name_offsets: Ints32,
    scratch: Bytes,
    stack: Bytes,
) -> tuple[int, int, bool]:
    """Scan one line; return its fault, the position of it, and whether high bytes came.

    The stack holds the closing bracket of every container that is open. `column` is the one that
    the value being scanned belongs to, or -1; only keys at depth 1 name columns.
    """
    at = _blank(data, at, stop)
    if at == stop:
        return BLANK, at, False
    if data[at] != 123:
        return NO_OBJECT, at, False
    depth, column, guess, any_high = 0, -1, 0, False
    while True:
        started = False
        if at < stop and (data[at] == 123 or data[at] == 91):  # a container opens
            if depth == MAX_DEPTH:
                return TOO_DEEP, at, False
            if depth == 1 and column >= 0:
                firsts[column, row] = at
            stack[depth] = data[at] + 2  # both brackets close two places further on in ASCII
            depth += 1
            at = _blank(data, at + 1, stop)
            started = at == stop or data[at] != stack[depth - 1]
        else:
            first = at
            at, kind, fault, high = _scan_scalar(data, at, stop)
            any_high |= high
            if fault != NO_FAULT:
                return fault, at, False
            if depth == 1 and column >= 0:
                inside = 1 if kind >= TEXT else 0  # without the quotes
                firsts[column, row], stops[column, row] = first + inside, at - inside
                kinds[column, row] = kind
        while not started:  # a value has ended
            at = _blank(data, at, stop)
            if at < stop and data[at] == 44:
                at, started = _blank(data, at + 1, stop), True
            elif at < stop and data[at] == stack[depth - 1]:
                at, depth = at + 1, depth - 1
                if depth == 0:
                    at = _blank(data, at, stop)
                    return (NO_FAULT if at == stop else TRAILING), at, any_high
                if depth == 1 and column >= 0:
                    stops[column, row], kinds[column, row] = at, NESTED
            else:
                return NO_COMMA, at, False
        if stack[depth - 1] == 125:  # in an object, a key comes first
            key_first = at + 1
            if at == stop or data[at] != 34:
                return NO_KEY, at, False
            at, fault, escaped, high = _scan_text(data, at + 1, stop)
            any_high |= high
            if fault != NO_FAULT:
                return fault, at, False
            if depth == 1:
                if escaped:
                    column = _find_escaped(data, key_first, at, names, name_offsets, scratch)
                else:
                    column = _find_name(data, key_first, at, guess, names, name_offsets)
                guess = column + 1
                if column >= 0 and kinds[column, row] != ABSENT:
                    return TWICE, column, False
            at = _blank(data, at + 1, stop)
            if at == stop or data[at] != 58:
                return NO_COLON, at, False
            at = _blank(data, at + 1, stop)


@njit(cache=True, nogil=True)
def _blank(data: Bytes, at: int, stop: int) -> int:
    """Return where the white space at `at` ends."""
    while at < stop and (data[at] == 32 or data[at] == 9 or data[at] == 13 or data[at] == 10):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _find_name(
    data: Bytes, first: int, stop: int, guess: int, names: Bytes, offsets: Ints32
) -> int:
    """Return the column that a key names, or -1; `guess` is tried first."""
    n_columns = offsets.size - 1
    for index in range(guess, guess + n_columns):
        column = index if index < n_columns else index - n_columns
        at = offsets[column]
        if offsets[column + 1] - at == stop - first:
            same = True
            for offset in range(stop - first):
                if data[first + offset] != names[at + offset]:
                    same = False
                    break
            if same:
                return column
    return -1


@njit(cache=True, nogil=True)
def _find_escaped(
    data: Bytes, first: int, stop: int, names: Bytes, offsets: Ints32, scratch: Bytes
) -> int:
    """Return the column that a key with escapes names, or -1.

    A function of its own and not a recursion, which numba 0.68 crashes on when it comes from the
    cache.
    """
    if stop - first > scratch.size:
        return -1
    end = unescape_json(data, first, stop, scratch, 0)
    return _find_name(scratch, 0, end, 0, names, offsets)


@njit(cache=True, nogil=True)
def _scan_text(data: Bytes, at: int, stop: int) -> tuple[int, int, bool, bool]:
    """Scan from behind an opening quote to the closing one."""
    escaped, high = False, False
    while at < stop:
        byte = data[at]
        if byte == 34:
            return at, NO_FAULT, escaped, high
        if byte < 32:
            return at, CONTROL, escaped, high
        if byte == 92:
            escaped = True
            if at + 1 >= stop:
                break
            letter = data[at + 1]
            if letter == 117:
                if at + 6 > stop or hex_value(data, at + 2) < 0:
                    return at, BAD_ESCAPE, escaped, high
                at += 4
            elif letter not in (34, 92, 47, 98, 102, 110, 114, 116):
                return at, BAD_ESCAPE, escaped, high
            at += 1
        high |= byte >= 128
        at += 1
    return stop, OPEN_TEXT, escaped, high


@njit(cache=True, nogil=True)
def _digits_end(data: Bytes, at: int, stop: int) -> int:
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _number_end(data: Bytes, at: int, stop: int) -> int:
    """Return where the number at `at` ends, or -1 if none stands there."""
    if at < stop and data[at] == 45:
        at += 1
    end = _digits_end(data, at, stop)
    if end == at or (data[at] == 48 and end > at + 1):
        return -1
    at = end
    if at < stop and data[at] == 46:
        end = _digits_end(data, at + 1, stop)
        if end == at + 1:
            return -1
        at = end
    if at < stop and (data[at] == 101 or data[at] == 69):
        at += 1
        if at < stop and (data[at] == 43 or data[at] == 45):
            at += 1
        end = _digits_end(data, at, stop)
        at = end if end > at else -1
    return at


@njit(cache=True, nogil=True)
def _word_end(data: Bytes, at: int, stop: int, word: bytes) -> int:
    if at + len(word) > stop:
        return -1
    for index in range(len(word)):
        if data[at + index] != word[index]:
            return -1
    return at + len(word)


@njit(cache=True, nogil=True)
def _scan_scalar(data: Bytes, at: int, stop: int) -> tuple[int, int, int, bool]:
    """Scan a text, number or word; return its end, kind, fault, and whether high bytes came."""
    if at == stop:
        return at, ABSENT, NO_VALUE, False
    byte = data[at]
    if byte == 34:
        end, fault, escaped, high = _scan_text(data, at + 1, stop)
        return end + 1 if fault == NO_FAULT else end, ESCAPED if escaped else TEXT, fault, high
    kind = NUMBER
    if byte == 116:
        end, kind = _word_end(data, at, stop, b"true"), TRUE
    elif byte == 102:
        end, kind = _word_end(data, at, stop, b"false"), FALSE
    elif byte == 110:
        end, kind = _word_end(data, at, stop, b"null"), NULL
    else:
        end = _number_end(data, at, stop)
    if end < 0:
        return at, ABSENT, NO_VALUE, False
    return end, kind, NO_FAULT, False
