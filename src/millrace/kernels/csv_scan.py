"""Kernel that finds the cells of CSV records, as in RFC 4180.

A field that starts with a quote ends with the quote that is not doubled, and may hold
delimiters and newlines; any other field is taken as it stands. A record is judged by itself:

    fault         what happens to the record
    COUNT         it has too few or too many fields; it ends where it ends
    AFTER_QUOTE   something stands behind a closing quote; it ends at the next newline
    OPEN_QUOTE    the quote is never closed; it ends at its first newline, scanning goes on there

Cost: about 5 ns a byte. Memory: 17 bytes a cell.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bytes, Ints, Ints32
from millrace.kernels.cells import ABSENT, ESCAPED, NULL, TEXT
from millrace.kernels.unicode import valid_utf8

NO_FAULT, BLANK, COUNT, AFTER_QUOTE, OPEN_QUOTE, NOT_UTF8 = range(6)

_CUT_OFF = -1


@njit(cache=True, nogil=True)
def scan_records(  # noqa: PLR0917 - what a kernel needs
    data: Bytes,
    at: int,
    final: bool,  # noqa: FBT001 - a kernel takes no keywords
    max_records: int,
    fields: Ints32,
    n_columns: int,
    marks: tuple[int, int],
    nulls: Bytes,
    null_offsets: Ints32,
) -> tuple[Ints, Ints, Bytes, Ints, Bytes, Ints]:
    """Find the cells of the records from `at` on, at most `max_records` of them.

    `fields` gives the column of each field, or -1; `marks` are the delimiter and the quote (0
    for none); `final` says that the file ends where `data` ends, else a record that has not
    ended there is left. Returns the first and stop of each cell and its kind by column and
    record, the n + 1 positions where records start, each one's fault, and its number of fields.
    """
    shape = (n_columns, max_records)
    firsts, stops = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    kinds = np.zeros(shape, np.uint8)
    starts = np.zeros(max_records + 1, np.int64)
    faults, counts = np.zeros(max_records, np.uint8), np.zeros(max_records, np.int64)
    n_records = 0
    starts[0] = at
    while n_records < max_records and at < data.size:
        first = at
        at, fault, n_fields, high = _scan_record(
            data, at, final, n_records, fields, marks, firsts, stops, kinds, nulls, null_offsets
        )
        if at == _CUT_OFF:
            break
        if fault == NO_FAULT and high and not valid_utf8(data, first, at):
            fault = NOT_UTF8
        if fault != NO_FAULT:
            kinds[:, n_records] = ABSENT
        faults[n_records], counts[n_records] = fault, n_fields
        n_records += 1
        starts[n_records] = at
    return (
        firsts[:, :n_records],
        stops[:, :n_records],
        kinds[:, :n_records],
        starts[: n_records + 1],
        faults[:n_records],
        counts[:n_records],
    )


@njit(cache=True, nogil=True)
def _scan_record(  # noqa: C901, PLR0917 - one loop is the whole grammar
    data: Bytes,
    at: int,
    final: bool,  # noqa: FBT001
    row: int,
    fields: Ints32,
    marks: tuple[int, int],
    firsts: Ints,
    stops: Ints,
    kinds: Bytes,
    nulls: Bytes,
    null_offsets: Ints32,
) -> tuple[int, int, int, bool]:
    """Scan one record; return where the next one starts, its fault, and what it holds."""
    delimiter, quote = marks
    record_first, n_fields, any_high = at, 0, False
    while True:
        if quote and at < data.size and data[at] == quote:
            first = at + 1
            stop, at, kind, high, fault = _quoted_end(data, first, final, delimiter, quote)
        else:
            first = at
            stop, high = _plain_end(data, at, delimiter)
            at, fault, kind = stop, NO_FAULT, TEXT
            ended = at >= data.size or data[at] == 10
            if ended and stop > first and data[stop - 1] == 13:
                stop -= 1
            if _among(data, first, stop, nulls, null_offsets):
                kind = NULL
        any_high |= high
        if fault == NO_FAULT and at >= data.size and not final:
            fault = OPEN_QUOTE
        if fault != NO_FAULT:
            end = _behind_newline(data, record_first if fault == OPEN_QUOTE else at)
            if not final and (fault == OPEN_QUOTE or data[end - 1] != 10):
                return _CUT_OFF, fault, 0, False
            return end, fault, n_fields, any_high
        column = fields[n_fields] if n_fields < fields.size else -1
        if column >= 0:
            firsts[column, row], stops[column, row], kinds[column, row] = first, stop, kind
        n_fields += 1
        if at >= data.size or data[at] == 10:
            break
        at += 1
    if n_fields == 1 and stop == first and first == record_first:
        fault = BLANK
    elif n_fields != fields.size:
        fault = COUNT
    return min(at + 1, data.size), fault, n_fields, any_high


@njit(cache=True, nogil=True)
def _plain_end(data: Bytes, at: int, delimiter: int) -> tuple[int, bool]:
    high = False
    while at < data.size and data[at] != delimiter and data[at] != 10:
        high |= data[at] >= 128
        at += 1
    return at, high


@njit(cache=True, nogil=True)
def _quoted_end(
    data: Bytes,
    at: int,
    final: bool,  # noqa: FBT001
    delimiter: int,
    quote: int,
) -> tuple[int, int, int, bool, int]:
    """Scan a quoted field; return its stop, where the delimiter stands, kind, high and fault."""
    kind, high = TEXT, False
    while at < data.size:
        if data[at] == quote:
            if at + 1 >= data.size or data[at + 1] != quote:
                break
            kind = ESCAPED
            at += 1
        high |= data[at] >= 128
        at += 1
    if at >= data.size:
        return at, at, kind, high, OPEN_QUOTE
    stop, at = at, at + 1
    if at < data.size and data[at] == 13 and (at + 1 == data.size or data[at + 1] == 10):
        at += 1
    if at < data.size and data[at] != delimiter and data[at] != 10:
        return stop, at, kind, high, AFTER_QUOTE
    fault = OPEN_QUOTE if at >= data.size and not final else NO_FAULT
    return stop, at, kind, high, fault


@njit(cache=True, nogil=True)
def _behind_newline(data: Bytes, at: int) -> int:
    while at < data.size and data[at] != 10:
        at += 1
    return min(at + 1, data.size)


@njit(cache=True, nogil=True)
def _among(data: Bytes, first: int, stop: int, words: Bytes, offsets: Ints32) -> bool:
    for index in range(offsets.size - 1):
        at = offsets[index]
        same = offsets[index + 1] - at == stop - first
        for offset in range(stop - first if same else 0):
            same = same and data[first + offset] == words[at + offset]
        if same:
            return True
    return False
