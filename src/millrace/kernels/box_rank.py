"""Kernels of the ranked access method: a box is the intersection of a few bitmaps over rows.

The bitmaps of a cut of the batch stand in one array `maps`, one bitmap a line. A box names the
bitmaps it intersects by *slots*, and `where[slot]` is the line of the slot in this cut.

    slots 0 .. n_static              one for each distinct interval of a column with few of them
    the next n_bounds of the block   one for each bound that is ranked in the sorted column

Boxes are grouped by the number of their slots, so that the loop over the words of the bitmaps
has no branch, and LLVM turns it into vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bits, Ints, Ints32
from millrace.kernels.box_bits import count_ones, grown, lowest_one

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True)
def draw_intervals(
    cells: Ints32, n_cells: int, ends: Ints32, maps: Bits, ones: Ints32, line: int
) -> None:
    """Draw the bitmap of each interval of cells `ends[i, 0] <= cell < ends[i, 1]`."""
    n_words = maps.shape[1]
    below = np.zeros((n_cells + 1, n_words), np.uint64)  # line c: the rows in cells before c
    for row in range(cells.size):
        below[cells[row] + 1, row >> 6] |= _ONE << np.uint64(row & 63)
    for cell in range(1, n_cells + 1):
        upper, lower = below[cell], below[cell - 1]
        for word in range(n_words):
            upper[word] |= lower[word]
    for interval in range(ends.shape[0]):
        target = maps[line + interval]
        upper, lower = below[ends[interval, 1]], below[ends[interval, 0]]
        total = 0
        for word in range(n_words):
            bits = upper[word] & ~lower[word]
            target[word] = bits
            total += count_ones(bits)
        ones[line + interval] = total


@njit(cache=True, nogil=True)
def draw_ranks(
    order: Ints, n_left_out: int, maps: Bits, ones: Ints32, line: int, n_cut_rows: int
) -> None:
    """Draw the bitmaps of the first k rows in `order`, and then those of all but the first k.

    The first `n_left_out` rows, which are NULL, are left out of the former and not of the latter.
    """
    n_words = maps.shape[1]
    other = line + n_cut_rows + 1
    maps[line] = _ZERO
    maps[other + order.size] = _ZERO
    ones[line] = ones[other + order.size] = 0
    for rank in range(order.size):
        source, target = maps[line + rank], maps[line + rank + 1]
        for word in range(n_words):
            target[word] = source[word]
        if rank >= n_left_out:
            row = order[rank]
            target[row >> 6] |= _ONE << np.uint64(row & 63)
        ones[line + rank + 1] = max(0, rank + 1 - n_left_out)
    for rank in range(order.size - 1, -1, -1):
        source, target = maps[other + rank + 1], maps[other + rank]
        for word in range(n_words):
            target[word] = source[word]
        row = order[rank]
        target[row >> 6] |= _ONE << np.uint64(row & 63)
        ones[other + rank] = order.size - rank


@njit(cache=True, nogil=True)
def rank_bounds(values: Ints, bounds: Ints, line: int, where: Ints32, slot: int) -> None:
    """Find for each bound, in rising order, the line of the rows that are below it."""
    rank = 0
    for each in range(bounds.size):
        while rank < values.size and values[rank] < bounds[each]:
            rank += 1
        where[slot + each] = line + rank


@njit(cache=True, nogil=True)
def count_group(
    terms: Ints32, ids: Ints32, where: Ints32, maps: Bits, ones: Ints32, counts: Ints32
) -> None:
    """Add the number of rows of each box; `terms[box]` has its slots."""
    n_terms = terms.shape[1]
    if n_terms == 1:
        for box in range(ids.size):
            counts[ids[box]] += ones[where[terms[box, 0]]]
    elif n_terms == 2:
        _count_two(terms, ids, where, maps, counts)
    elif n_terms == 3:
        _count_three(terms, ids, where, maps, counts)
    elif n_terms == 4:
        _count_four(terms, ids, where, maps, counts)
    else:
        _count_many(terms, ids, where, maps, counts)


# The loops over words stand here and not in a function of two bitmaps: a call with a view of an
# array counts references, which doubles the time.


@njit(cache=True, nogil=True)
def _count_two(terms: Ints32, ids: Ints32, where: Ints32, maps: Bits, counts: Ints32) -> None:
    for box in range(ids.size):
        first, second = maps[where[terms[box, 0]]], maps[where[terms[box, 1]]]
        total = 0
        for word in range(maps.shape[1]):
            total += count_ones(first[word] & second[word])
        counts[ids[box]] += total


@njit(cache=True, nogil=True)
def _count_three(terms: Ints32, ids: Ints32, where: Ints32, maps: Bits, counts: Ints32) -> None:
    for box in range(ids.size):
        first, second = maps[where[terms[box, 0]]], maps[where[terms[box, 1]]]
        third = maps[where[terms[box, 2]]]
        total = 0
        for word in range(maps.shape[1]):
            total += count_ones(first[word] & second[word] & third[word])
        counts[ids[box]] += total


@njit(cache=True, nogil=True)
def _count_four(terms: Ints32, ids: Ints32, where: Ints32, maps: Bits, counts: Ints32) -> None:
    for box in range(ids.size):
        first, second = maps[where[terms[box, 0]]], maps[where[terms[box, 1]]]
        third, fourth = maps[where[terms[box, 2]]], maps[where[terms[box, 3]]]
        total = 0
        for word in range(maps.shape[1]):
            total += count_ones(first[word] & second[word] & third[word] & fourth[word])
        counts[ids[box]] += total


@njit(cache=True, nogil=True)
def _count_many(terms: Ints32, ids: Ints32, where: Ints32, maps: Bits, counts: Ints32) -> None:
    common = np.empty(maps.shape[1], np.uint64)
    for box in range(ids.size):
        first, last = maps[where[terms[box, 0]]], maps[where[terms[box, -1]]]
        for word in range(maps.shape[1]):
            common[word] = first[word] & last[word]
        for term in range(1, terms.shape[1] - 1):
            other = maps[where[terms[box, term]]]
            for word in range(maps.shape[1]):
                common[word] &= other[word]
        total = 0
        for word in range(maps.shape[1]):
            total += count_ones(common[word])
        counts[ids[box]] += total


@njit(cache=True, nogil=True)
def _intersect(slots: Ints32, where: Ints32, maps: Bits, common: Bits) -> None:
    first, second = maps[where[slots[0]]], maps[where[slots[-1]]]
    for word in range(common.size):
        common[word] = first[word] & second[word]
    for term in range(1, slots.size - 1):
        other = maps[where[slots[term]]]
        for word in range(common.size):
            common[word] &= other[word]


@njit(cache=True, nogil=True)
def emit_group(
    terms: Ints32, ids: Ints32, where: Ints32, maps: Bits, ones: Ints32, base: int
) -> tuple[Ints32, Ints32]:
    """Return the pairs of boxes with at least one slot, box by box; rows count from `base`."""
    common = np.empty(maps.shape[1], np.uint64)
    rows = np.empty(4 * ids.size + 64, np.int32)
    boxes = np.empty(4 * ids.size + 64, np.int32)
    used = 0
    for box in range(ids.size):
        slots = terms[box]
        n_most = ones[where[slots[0]]]
        for term in range(1, slots.size):
            n_most = min(n_most, ones[where[slots[term]]])
        if n_most == 0:
            continue
        if used + n_most > rows.size:
            rows = grown(rows, used, used + n_most)
            boxes = grown(boxes, used, used + n_most)
        _intersect(slots, where, maps, common)
        for word in range(common.size):
            bits = common[word]
            while bits:
                rows[used] = base + (word << 6) + lowest_one(bits)
                boxes[used] = ids[box]
                used += 1
                bits &= bits - _ONE
    return rows[:used], boxes[:used]
