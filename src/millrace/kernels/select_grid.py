"""The kernel of select joins that first joins, then finds the queries that hold the joined pair.

A query is a rectangle: its driver's range by its stored range. A grid of cells, cut so that ends of
ranges are spread evenly, lists the rectangles that touch each cell. A driver fixes the row of
cells; the codes of its segment ascend, so their cells do too.

Cost: 1 to 2 ns for each stored row of the segment and each rectangle of its cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints, Ints32
from millrace.kernels.segments import first_above, with_room
from millrace.kernels.select_scan import Probes, Ranges


class Grid(NamedTuple):
    """Where cells begin on either axis, and the rectangles of each cell, a row after the other."""

    driver_cuts: Ints
    stored_cuts: Ints
    cell_first: Ints
    entries: Ints32


@njit(cache=True, nogil=True)
def fill(columns: tuple[Ints, Ints, Ints, Ints], width: int, cell_first: Ints) -> Ints32:
    """List rectangles by cell: cells [a, b] of the driver's axis by cells [c, d] of the other."""
    above, below, left, right = columns
    for query in range(above.size):
        for row in range(above[query], below[query] + 1):
            for cell in range(row * width + left[query], row * width + right[query] + 1):
                cell_first[cell + 1] += 1
    for cell in range(cell_first.size - 1):
        cell_first[cell + 1] += cell_first[cell]
    entries = np.empty(cell_first[-1], np.int32)
    places = cell_first.copy()
    for query in range(above.size):
        for row in range(above[query], below[query] + 1):
            for cell in range(row * width + left[query], row * width + right[query] + 1):
                entries[places[cell]] = query
                places[cell] += 1
    return entries


@njit(cache=True, nogil=True)
def join(probes: Probes, grid: Grid, ranges: Ranges, paired: int) -> tuple[Ints32, Ints, Ints]:
    """Return how many queries each driver affects and, if `paired`, which ones."""
    counts = np.zeros(probes.drivers.size, np.int32)
    rows, slots = np.empty(64, np.int64), np.empty(64, np.int64)
    seen = np.full(ranges.slots.size, -1, np.int32)
    width = grid.stored_cuts.size + 1
    used = 0
    for driver in range(probes.drivers.size):
        segment, code = probes.segments[driver], probes.drivers[driver]
        row = first_above(grid.driver_cuts, 0, grid.driver_cuts.size, code) * width
        column, n_before = 0, used
        for at in range(probes.firsts[segment], probes.stops[segment]):
            stored = probes.codes[at]
            while column < width - 1 and grid.stored_cuts[column] <= stored:
                column += 1
            begin, end = grid.cell_first[row + column], grid.cell_first[row + column + 1]
            if paired:
                rows = with_room(rows, used, end - begin)
                slots = with_room(slots, used, end - begin)
            for entry in range(begin, end):
                query = grid.entries[entry]
                if (
                    seen[query] != driver
                    and ranges.driver_low[query] <= code <= ranges.driver_high[query]
                    and ranges.stored_low[query] <= stored <= ranges.stored_high[query]
                ):
                    seen[query] = driver
                    if paired:
                        rows[used], slots[used] = driver, ranges.slots[query]
                    used += 1
        counts[driver] = used - n_before
    return counts, rows[:used], slots[:used]
