"""Kernels of window joins without groups: join first, or select first.

They are those of select joins (`select_grid`, `select_stab`) with a third condition: the stored row
is at most as much older than the driver as the query's window is long.

`join` makes no assumption on times and takes a row that is newer than the driver by no more than
the window, too; so it serves rows that come late or together. `stab` looks for the newest row of a
range by links (`window_links`), which takes few steps however many rows are too old.

Cost: 2 ns for a joined row and rectangle of its cell; 20 ns for a query that selects the driver.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Floats, Ints, Ints32
from millrace.kernels.segments import first_above, first_not_below, with_room
from millrace.kernels.select_grid import Grid
from millrace.kernels.select_scan import Probes, Ranges
from millrace.kernels.select_stab import Listed
from millrace.kernels.window_links import NONE

COUNTED, PAIRED, MET = range(3)
_SAMPLE = 128


class Moments(NamedTuple):
    """When drivers and stored rows were."""

    drivers: Ints
    stored: Ints


@njit(cache=True, nogil=True)
def join(
    probes: Probes, moments: Moments, grid: Grid, ranges: Ranges, sizes: Ints, mode: int
) -> tuple[Ints32, Ints, Ints, Ints]:
    """Return how many queries each driver affects; if PAIRED which; if MET with every row.

    The lists are drivers, slots and stored rows; if PAIRED the rows are any that the query takes.
    """
    counts = np.zeros(probes.drivers.size, np.int32)
    drivers, slots, rows = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    seen = np.full(ranges.slots.size, -1, np.int32)
    widest = sizes.max() if sizes.size else -1
    width = grid.stored_cuts.size + 1
    used = 0
    for driver in range(probes.drivers.size):
        segment, code = probes.segments[driver], probes.drivers[driver]
        line = first_above(grid.driver_cuts, 0, grid.driver_cuts.size, code) * width
        count = 0
        for row in range(probes.firsts[segment], probes.stops[segment]):
            apart = abs(moments.drivers[driver] - moments.stored[row])
            if apart > widest:
                continue
            stored = probes.codes[row]
            cell = line + first_above(grid.stored_cuts, 0, width - 1, stored)
            begin, end = grid.cell_first[cell], grid.cell_first[cell + 1]
            if mode != COUNTED:
                drivers = with_room(drivers, used, end - begin)
                slots = with_room(slots, used, end - begin)
                rows = with_room(rows, used, end - begin)
            for entry in range(begin, end):
                query = grid.entries[entry]
                if (
                    sizes[query] >= apart
                    and (mode == MET or seen[query] != driver)
                    and ranges.driver_low[query] <= code <= ranges.driver_high[query]
                    and ranges.stored_low[query] <= stored <= ranges.stored_high[query]
                ):
                    seen[query] = driver
                    count += 1
                    if mode != COUNTED:
                        drivers[used], slots[used], rows[used] = driver, ranges.slots[query], row
                        used += 1
        counts[driver] = count
    return counts, drivers[:used], slots[:used], rows[:used]


@njit(cache=True, nogil=True)
def stab(
    probes: Probes,
    moments: Moments,
    following: Ints,
    tree: tuple[Ints, Ints, Listed, Listed],
    sizes: Ints,
    mode: int,
) -> tuple[Ints32, Ints, Ints]:
    """Return how many queries each driver affects and, if PAIRED, which ones.

    A tree is centres, where the entries of each begin, and two lists of them.
    """
    centres, node_first, early, late = tree
    counts = np.zeros(probes.drivers.size, np.int32)
    drivers, slots = np.empty(64, np.int64), np.empty(64, np.int64)
    used = 0
    for driver in range(probes.drivers.size):
        segment, code = probes.segments[driver], probes.drivers[driver]
        first, stop = probes.firsts[segment], probes.stops[segment]
        left, right, count = 0, centres.size, 0
        while left < right:
            middle = (left + right) >> 1
            centre = centres[middle]
            side, key = (early, code) if code <= centre else (late, ~code)
            begin = node_first[middle]
            end = first_above(side.bounds, begin, node_first[middle + 1], key)
            if mode == PAIRED:
                drivers = with_room(drivers, used, end - begin)
                slots = with_room(slots, used, end - begin)
            for entry in range(begin, end):
                since = moments.drivers[driver] - sizes[side.queries[entry]]
                high = side.stored_high[entry]
                row = first_not_below(probes.codes, first, stop, side.stored_low[entry])
                row = row if row < stop else NONE
                while row != NONE and probes.codes[row] <= high and moments.stored[row] < since:
                    row = following[row]
                hit = row != NONE and probes.codes[row] <= high
                if mode == PAIRED and hit:
                    drivers[used], slots[used] = driver, side.slots[entry]
                    used += 1
                count += hit
            if code < centre:
                right = middle
            elif code > centre:
                left = middle + 1
            else:
                break
        counts[driver] = count
    return counts, drivers[:used], slots[:used]


@njit(cache=True, nogil=True)
def sample_young(probes: Probes, moments: Moments, widest: int) -> Floats:
    """Return how many rows a driver meets within the widest window, from a sample of each segment.

    Rows of a segment stand by code, so every k-th of them is as good as any.
    """
    found = np.empty(probes.drivers.size, np.float64)
    for driver in range(probes.drivers.size):
        segment, since = probes.segments[driver], moments.drivers[driver] - widest
        first, stop = probes.firsts[segment], probes.stops[segment]
        step = max(1, (stop - first) // _SAMPLE)
        n_young, n_seen = 0, 0
        for row in range(first, stop, step):
            n_young += moments.stored[row] >= since
            n_seen += 1
        found[driver] = n_young / max(1, n_seen) * (stop - first)
    return found
