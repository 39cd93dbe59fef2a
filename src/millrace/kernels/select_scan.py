"""The kernel of select joins that asks every query of every driver.

Cost: 1 ns a query that does not select the driver, 20 ns one that does: a search in the segment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints, Ints32
from millrace.kernels.segments import first_not_below, with_room


class Probes(NamedTuple):
    """A batch: the segment and code of each driver, where segments are, and the stored codes.

    Only segments that drivers probe have a number here, and none is empty.
    """

    segments: Ints
    drivers: Ints
    firsts: Ints
    stops: Ints
    codes: Ints


class Ranges(NamedTuple):
    """The two ranges of each query, and its slot."""

    driver_low: Ints
    driver_high: Ints
    stored_low: Ints
    stored_high: Ints
    slots: Ints


@njit(cache=True, nogil=True)
def scan(probes: Probes, ranges: Ranges, paired: int) -> tuple[Ints32, Ints, Ints]:
    """Return how many queries each driver affects and, if `paired`, which ones."""
    counts = np.zeros(probes.drivers.size, np.int32)
    rows, queries = np.empty(64, np.int64), np.empty(64, np.int64)
    used = 0
    for driver in range(probes.drivers.size):
        segment, code = probes.segments[driver], probes.drivers[driver]
        first, stop = probes.firsts[segment], probes.stops[segment]
        if paired:
            rows = with_room(rows, used, ranges.slots.size)
            queries = with_room(queries, used, ranges.slots.size)
        n_before = used
        for query in range(ranges.slots.size):
            if ranges.driver_low[query] <= code <= ranges.driver_high[query]:
                at = first_not_below(probes.codes, first, stop, ranges.stored_low[query])
                if at < stop and probes.codes[at] <= ranges.stored_high[query]:
                    if paired:
                        rows[used], queries[used] = driver, ranges.slots[query]
                    used += 1
        counts[driver] = used - n_before
    return counts, rows[:used], queries[:used]
