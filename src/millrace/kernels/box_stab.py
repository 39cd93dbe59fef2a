"""Kernels of the stabbed access method: down a centred interval tree that has no pointers.

The nodes are the positions of `centres`, which rises; the root of a range of positions is its
middle. An interval belongs to the first node on the way down whose centre it holds. A row that
is left of a centre is held by those intervals of the node that begin early enough, and these
come first in the list `by_low`; on the other side those that end late enough, first in
`by_high`. So a node costs its matches on this column and one look at the first that fails.

The two lists have the same positions: node `c` has `node_first[c] .. node_first[c + 1]` in both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints, Ints32
from millrace.kernels.box_bits import grown


class Tree(NamedTuple):
    """The nodes, and where the entries of each begin."""

    centres: Ints
    node_first: Ints32


class Entries(NamedTuple):
    """One of the two lists of all nodes: by low end, or by the complement of the high end."""

    bounds: Ints
    ids: Ints32
    checks: Ints


@njit(cache=True, nogil=True)
def find_nodes(low: Ints, high: Ints, centres: Ints) -> Ints32:
    """Return the node of each interval; each holds some centre."""
    nodes = np.empty(low.size, np.int32)
    for interval in range(low.size):
        first, stop = 0, centres.size
        while True:
            middle = (first + stop) >> 1
            if high[interval] < centres[middle]:
                stop = middle
            elif low[interval] > centres[middle]:
                first = middle + 1
            else:
                nodes[interval] = middle
                break
    return nodes


@njit(cache=True, nogil=True)
def n_held(column: Ints, tree: Tree, early: Entries, late: Entries) -> tuple[int, int]:
    """Return how many intervals hold the codes, and how many nodes are visited."""
    n_candidates, n_nodes = 0, 0
    for row in range(column.size):
        code = column[row]
        first, stop = 0, tree.centres.size
        while first < stop:
            middle = (first + stop) >> 1
            entry, end = tree.node_first[middle], tree.node_first[middle + 1]
            left = code <= tree.centres[middle]
            first, stop = _descend(code, middle, first, stop, tree.centres)
            side = early if left else late
            n_candidates += _stop(side.bounds, entry, end, code if left else ~code) - entry
            n_nodes += 1
    return n_candidates, n_nodes


@njit(cache=True, nogil=True, inline="always")
def _passes(codes, row, columns, checks, entry):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for check in range(columns.size):
        code = codes[columns[check], row]
        if code < checks[entry, 2 * check] or code > checks[entry, 2 * check + 1]:
            return False
    return True


@njit(cache=True, nogil=True)
def _stop(bounds: Ints, entry: int, end: int, code: int) -> int:
    """Return the first position whose bound is above the code; near ones are found sooner."""
    step = 1
    while entry + step <= end and bounds[entry + step - 1] <= code:
        entry += step
        step <<= 1
    end = min(end, entry + step - 1)
    while entry < end:
        middle = (entry + end) >> 1
        if bounds[middle] <= code:
            entry = middle + 1
        else:
            end = middle
    return entry


@njit(cache=True, nogil=True, inline="always")
def _descend(code, middle, first, stop, centres):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return what is left of the range of nodes when its middle has been looked at."""
    if code < centres[middle]:
        return first, middle
    if code > centres[middle]:
        return middle + 1, stop
    return stop, stop


@njit(cache=True, nogil=True)
def emit_stabbed(
    codes: Ints, column: int, tree: Tree, early: Entries, late: Entries, checked: Ints, base: int
) -> tuple[Ints32, Ints32]:
    """Return the pairs of each row; rows count from `base`."""
    rows = np.empty(4 * codes.shape[1], np.int32)
    boxes = np.empty(rows.size, np.int32)
    used = 0
    for row in range(codes.shape[1]):
        code = codes[column, row]
        first, stop = 0, tree.centres.size
        while first < stop:
            middle = (first + stop) >> 1
            entry, end = tree.node_first[middle], tree.node_first[middle + 1]
            left = code <= tree.centres[middle]
            first, stop = _descend(code, middle, first, stop, tree.centres)
            side = early if left else late
            end = _stop(side.bounds, entry, end, code if left else ~code)
            if used + end - entry > rows.size:
                n_needed = used + end - entry
                rows = grown(rows, used, n_needed)
                boxes = grown(boxes, used, n_needed)
            for each in range(entry, end):
                if _passes(codes, row, checked, side.checks, each):
                    rows[used] = base + row
                    boxes[used] = side.ids[each]
                    used += 1
    return rows[:used], boxes[:used]


@njit(cache=True, nogil=True)
def count_stabbed(
    codes: Ints,
    column: int,
    tree: Tree,
    early: Entries,
    late: Entries,
    checked: Ints,
    counts: Ints32,
) -> None:
    """Add one to the count of each box that holds a row."""
    for row in range(codes.shape[1]):
        code = codes[column, row]
        first, stop = 0, tree.centres.size
        while first < stop:
            middle = (first + stop) >> 1
            entry, end = tree.node_first[middle], tree.node_first[middle + 1]
            left = code <= tree.centres[middle]
            first, stop = _descend(code, middle, first, stop, tree.centres)
            side = early if left else late
            end = _stop(side.bounds, entry, end, code if left else ~code)
            for each in range(entry, end):
                if _passes(codes, row, checked, side.checks, each):
                    counts[side.ids[each]] += 1
