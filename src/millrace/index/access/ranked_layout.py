"""How the ranked access method lays out boxes: slots of bitmaps, groups, blocks.

A column with at most `FEW` distinct intervals has a slot for each of them, the same for all
boxes. A column with more has slots for bounds, numbered anew in each block of boxes, so that
the ranks of a block's bounds stay in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.index.access.access import LAST_VALUE, NULL_CODE, constrained
from millrace.index.access.cells import cut_points, direct_cells
from millrace.index.access.statistics import Arrays
from millrace.kernels.arrays import Bools, Ints, Ints32

FEW = 1024
BLOCK_BOXES = 32_768
_NONE = np.int32(-1)


@dataclass(frozen=True, slots=True, eq=False)
class FewIntervals:
    """A column's distinct intervals, as cells between its cuts."""

    cuts: Ints
    direct: Ints32
    ends: Ints32
    slots: Ints32
    """The interval of each box, counted from 0; -1 if the box does not constrain the column."""


def few_intervals(low: Ints, high: Ints) -> FewIntervals | None:
    """Lay out one column, or return None if it has more than `FEW` distinct intervals."""
    asked = np.flatnonzero(constrained(low, high))
    lows, low_index = np.unique(low[asked], return_inverse=True)
    highs, high_index = np.unique(high[asked], return_inverse=True)
    if max(lows.size, highs.size) > FEW:
        return None
    both, interval = np.unique(low_index * highs.size + high_index, return_inverse=True)
    if both.size > FEW:
        return None
    first, last = lows[both // highs.size], highs[both % highs.size]
    bounded = last < LAST_VALUE
    cuts = cut_points(first, last)
    ends = np.zeros((both.size, 2), np.int32)
    ends[:, 0] = np.searchsorted(cuts, first, "right")
    ends[:, 1] = cuts.size + 1
    ends[bounded, 1] = np.searchsorted(cuts, last[bounded] + 1, "right")
    slots = np.full(low.size, _NONE)
    slots[asked] = interval
    return FewIntervals(cuts, direct_cells(cuts), ends, slots)


@dataclass(frozen=True, slots=True, eq=False)
class RankedBounds:
    """A column's bounds: rows below the upper one, and rows not below the lower one."""

    holds_null: bool
    bounds: tuple[Ints, Ints]
    asked: tuple[Bools, Bools]


def ranked_bounds(low: Ints, high: Ints) -> RankedBounds:
    """Lay out one column.

    The bitmaps of the least rows leave NULL out, so that `price < 5`, which is not true of NULL,
    needs one bitmap; unless some box holds NULL and has an upper bound.
    """
    upper = high < LAST_VALUE
    holds_null = bool((upper & (low == NULL_CODE)).any())
    lower = low > NULL_CODE
    if not holds_null:
        lower &= ~((low == NULL_CODE + 1) & upper)
    return RankedBounds(holds_null, (np.where(upper, high, 0) + 1, low), (upper, lower))


def build_groups(
    few: list[FewIntervals], ranked: list[RankedBounds], n: int
) -> tuple[Ints, Arrays]:
    """Return the order of the boxes, and the arrays of their slots."""
    lines = _provisional_slots(few, ranked, n)
    order = _sorted_boxes(lines)
    lines = lines[:, order]
    n_block = BLOCK_BOXES if ranked else max(1, n)
    edges = np.append(np.arange(0, n, n_block), n)
    bounds: list[Ints] = [np.empty(0, np.int64)]
    segments: list[tuple[int, ...]] = []
    n_static, n_bounds = sum(len(each.ends) for each in few), 0
    for block, first in enumerate(edges[:-1].tolist()):
        boxes = order[first : edges[block + 1]]
        slot = n_static - n_bounds
        for number, (column, kind) in enumerate((each, kind) for each in ranked for kind in (0, 1)):
            asking = np.flatnonzero(column.asked[kind][boxes])
            values, index = np.unique(column.bounds[kind][boxes[asking]], return_inverse=True)
            lines[len(few) + number, first + asking] = slot + n_bounds + index
            segments.append((block, number // 2, kind, n_bounds, n_bounds + values.size))
            bounds.append(values)
            n_bounds += values.size
    return order, {
        "terms": _in_order_of_boxes(lines),
        "groups": _groups((lines >= 0).sum(axis=0), edges),
        "bounds": np.concatenate(bounds),
        "segments": np.array(segments, np.int64).reshape(-1, 5),
    }


def _provisional_slots(few: list[FewIntervals], ranked: list[RankedBounds], n: int) -> Ints32:
    """Return a line of slots for each bitmap a box may need; those of bounds are for sorting."""
    lines: list[Ints32] = []
    n_slots = 0
    for column in few:
        lines.append(np.where(column.slots >= 0, column.slots + np.int32(n_slots), _NONE))
        n_slots += len(column.ends)
    for each in ranked:
        for asked, values in zip(each.asked, each.bounds, strict=True):
            distinct, index = np.unique(values, return_inverse=True)
            lines.append(np.where(asked, (n_slots + index).astype(np.int32), _NONE))
            n_slots += distinct.size
    return np.array(lines, np.int32).reshape(len(lines), n)


def _in_order_of_boxes(lines: Ints32) -> Ints32:
    """Return the slots of the first box, those of the second, and so on."""
    return np.ascontiguousarray(lines.T)[(lines >= 0).T]


def _sorted_boxes(lines: Ints32) -> Ints:
    """Sort by the number of slots and then by the first two, which then stay in the cache."""
    flat, n_terms = _in_order_of_boxes(lines), (lines >= 0).sum(axis=0)
    if not flat.size:
        return np.arange(lines.shape[1])
    firsts = np.cumsum(n_terms) - n_terms
    leading = flat[np.minimum(firsts, flat.size - 1)]
    following = flat[np.minimum(firsts + 1, flat.size - 1)]
    return np.lexsort((following, leading, n_terms))


def _groups(n_terms: Ints, edges: Ints) -> Ints:
    """Return a line (block, slots a box, first box, stop, first term) for each group."""
    groups, first_term = [], 0
    for block in range(edges.size - 1):
        inside = n_terms[edges[block] : edges[block + 1]]
        for size in np.unique(inside).tolist():
            first = int(edges[block] + np.searchsorted(inside, size, "left"))
            stop = int(edges[block] + np.searchsorted(inside, size, "right"))
            groups.append((block, size, first, stop, first_term))
            first_term += size * (stop - first)
    return np.array(groups, np.int64).reshape(-1, 5)
