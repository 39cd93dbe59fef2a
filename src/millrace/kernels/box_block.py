"""Kernels of the blocked access method: 64 boxes a word, one list of cuts a word and column.

A list says which of the 64 boxes hold a code: `cut_bits[i]` holds from `cut_codes[i]` up to the
next cut. It is built from toggles: a box's bit flips at its low end and behind its high end.

There are two ways to apply a list. If many rows are left, each cut is searched in the sorted
column and its bits go to a run of rows. If few are, each row is searched in the list.

Cost: 1 ns for each row of a run, 10 ns for a row searched in a list, 25 ns for a cut searched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bits, Ints, Ints32
from millrace.kernels.box_bits import ALL_ONES, add_columns, grown, lowest_one

NULL_CODE = np.iinfo(np.int64).min
_LAST_VALUE = np.iinfo(np.int64).max - 2
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_FEW_SHARE = 8  # rows are searched one by one if fewer than one in so many is left


class SortedCut(NamedTuple):
    """A cut of the batch, sorted by each column; line 0 is the one that boxes are sorted by."""

    codes: Ints
    """The rows in the order of line 0: row i is row `rows_of[i]` of the cut."""
    values: Ints
    """Each line sorted; line c has row `orders[c, i]` at place i."""
    orders: Ints32
    rows_of: Ints32
    spans: Ints32
    """The rows in the hull of each word."""


class CutLists(NamedTuple):
    """The lists of all words: that of a column and word begins at `list_first[column, word]`."""

    list_first: Ints
    cut_codes: Ints
    cut_bits: Bits
    ids: Ints32


@njit(cache=True, nogil=True)
def cut_lists(low: Ints, high: Ints) -> tuple[Ints, Ints, Bits]:
    """Return where the list of each column and word begins, its codes and its bits.

    A word whose boxes do not constrain a column has an empty list there.
    """
    n_columns, n = low.shape
    n_words = (n + 63) >> 6
    list_first = np.zeros((n_columns, n_words + 1), np.int64)
    codes = np.empty(2 * low.size + n_columns * n_words, np.int64)
    bits = np.empty(codes.size, np.uint64)
    toggles = np.empty(128, np.int64)
    flips = np.empty(128, np.uint64)
    used = 0
    for column in range(n_columns):
        for word in range(n_words):
            list_first[column, word] = used
            n_toggles = 0
            current = _ZERO
            for box in range(word << 6, min(n, (word + 1) << 6)):
                bit = _ONE << np.uint64(box & 63)
                if low[column, box] == NULL_CODE:
                    current |= bit
                else:
                    toggles[n_toggles], flips[n_toggles] = low[column, box], bit
                    n_toggles += 1
                if high[column, box] < _LAST_VALUE:
                    toggles[n_toggles], flips[n_toggles] = high[column, box] + 1, bit
                    n_toggles += 1
            if n_toggles == 0:
                continue
            codes[used], bits[used] = NULL_CODE, current
            for toggle in np.argsort(toggles[:n_toggles]):
                current ^= flips[toggle]
                if codes[used] != toggles[toggle]:
                    used += 1
                    codes[used] = toggles[toggle]
                bits[used] = current
            used += 1
        list_first[column, n_words] = used
    return list_first, codes[:used].copy(), bits[:used].copy()


@njit(cache=True, nogil=True)
def _lower(values: Ints, first: int, stop: int, code: int) -> int:
    """Return the first position of the sorted values that is not below the code."""
    while first < stop:
        middle = (first + stop) >> 1
        if values[middle] < code:
            first = middle + 1
        else:
            stop = middle
    return first


@njit(cache=True, nogil=True)
def hulls(values: Ints, hull_low: Ints, hull_high: Ints) -> Ints32:
    """Return for each word the span of sorted rows that may lie in any of its boxes."""
    spans = np.empty((hull_low.size, 2), np.int32)
    for word in range(hull_low.size):
        first = _lower(values, 0, values.size, hull_low[word])
        spans[word, 0] = spans[word, 1] = first
        if hull_high[word] >= _LAST_VALUE:
            spans[word, 1] = values.size
        elif hull_high[word] >= hull_low[word]:
            spans[word, 1] = _lower(values, first, values.size, hull_high[word] + 1)
    return spans


@njit(cache=True, nogil=True)
def _runs(
    values: Ints, order: Ints32, codes: Ints, bits: Bits, words: Bits, first: int, stop: int
) -> None:
    """Apply a list to the sorted rows `first .. stop`; they stand at `order` in `words`."""
    for cut in range(codes.size):
        end = stop
        if cut + 1 < codes.size:
            end = _lower(values, first, stop, codes[cut + 1])
        if order.size == 0:
            for at in range(first, end):
                words[at] &= bits[cut]
        elif bits[cut] != ALL_ONES:
            for at in range(first, end):
                words[order[at]] &= bits[cut]
        first = end
        if first == stop:
            break


@njit(cache=True, nogil=True)
def _alive(words: Bits, first: int, stop: int, alive: Ints32) -> int:
    n_alive = 0
    for row in range(first, stop):
        alive[n_alive] = row
        n_alive += words[row] != _ZERO
    return n_alive


@njit(cache=True, nogil=True)
def _searched(column: Ints, codes: Ints, bits: Bits, words: Bits, alive: Ints32) -> int:
    """Apply a list to the rows in `alive`, row by row; return how many are left."""
    n_left = 0
    for each in range(alive.size):
        row = alive[each]
        at = _lower(codes, 1, codes.size, column[row] + 1) - 1
        words[row] &= bits[at]
        alive[n_left] = row
        n_left += words[row] != _ZERO
    return n_left


@njit(cache=True, nogil=True)
def _narrow(cut: SortedCut, lists: CutLists, word: int, words: Bits, alive: Ints32) -> int:
    """Leave in `words` the boxes that hold each row, and in `alive` the rows with any."""
    first, stop = cut.spans[word]
    n_boxes = lists.ids.size - (word << 6)
    words[first:stop] = ALL_ONES if n_boxes >= 64 else (_ONE << np.uint64(n_boxes)) - _ONE
    n_alive = -1
    for column in range(cut.codes.shape[0]):
        begin, end = lists.list_first[column, word], lists.list_first[column, word + 1]
        if begin == end:
            continue
        codes, bits = lists.cut_codes[begin:end], lists.cut_bits[begin:end]
        if 0 <= n_alive * _FEW_SHARE < cut.rows_of.size:
            n_alive = _searched(cut.codes[column], codes, bits, words, alive[:n_alive])
            continue
        if column == 0:
            _runs(cut.values[0], cut.orders[0, :0], codes, bits, words, first, stop)
        else:
            values, order = cut.values[column], cut.orders[column]
            _runs(values, order, codes, bits, words, 0, values.size)
        n_alive = _alive(words, first, stop, alive)
    return n_alive if n_alive >= 0 else _alive(words, first, stop, alive)


@njit(cache=True, nogil=True)
def emit_words(cut: SortedCut, lists: CutLists, base: int) -> tuple[Ints32, Ints32]:
    """Return the pairs of a cut, word by word; rows count from `base`."""
    n_rows = cut.rows_of.size
    rows = np.empty(4 * n_rows + 64, np.int32)
    boxes = np.empty(rows.size, np.int32)
    words = np.zeros(n_rows, np.uint64)
    alive = np.empty(n_rows + 1, np.int32)
    used = 0
    for word in range(cut.spans.shape[0]):
        if cut.spans[word, 0] == cut.spans[word, 1]:
            continue
        n_alive = _narrow(cut, lists, word, words, alive)
        if used + 64 * n_alive > rows.size:
            rows = grown(rows, used, used + 64 * n_alive)
            boxes = grown(boxes, used, used + 64 * n_alive)
        for each in range(n_alive):
            left = words[alive[each]]
            row = base + cut.rows_of[alive[each]]
            while left:
                rows[used] = row
                boxes[used] = lists.ids[(word << 6) + lowest_one(left)]
                used += 1
                left &= left - _ONE
    return rows[:used], boxes[:used]


@njit(cache=True, nogil=True)
def count_words(cut: SortedCut, lists: CutLists, counts: Ints32) -> None:
    """Add up the rows of each box."""
    words = np.zeros(cut.rows_of.size, np.uint64)
    alive = np.empty(cut.rows_of.size + 1, np.int32)
    square = np.zeros(64, np.uint64)
    for word in range(cut.spans.shape[0]):
        if cut.spans[word, 0] == cut.spans[word, 1]:
            continue
        n_alive = _narrow(cut, lists, word, words, alive)
        for start in range(0, n_alive, 64):
            n_square = min(64, n_alive - start)
            for each in range(n_square):
                square[each] = words[alive[start + each]]
            square[n_square:] = _ZERO
            add_columns(square, lists.ids, word << 6, counts)
