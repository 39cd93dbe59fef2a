"""JoinFirst: a driver is joined with its segment, and each joined pair looks for its queries.

Good where segments are short and queries wide. A query is a rectangle of the two ranges, and those
that a pair may lie in are the ones listed in its cell of a grid.

Cost: `SIDE` squared cells; a query is listed in each that it touches, at most `ENTRIES` times on
average: the grid is made coarser until that holds.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.kernels.select_grid import Grid, fill, join
from millrace.kernels.select_scan import Probes, Ranges
from millrace.sharing.codes import GREATEST
from millrace.sharing.found import Descriptors, Pairs
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Load
from millrace.sharing.select.index import counted, n_holding, ranges_of

SIDE = 64
ENTRIES = 64


class JoinFirst:
    """Rectangles in a grid."""

    def __init__(self, queries: SelectQueries, slots: Ints) -> None:
        self._ranges = ranges_of(queries, slots)
        self._low, self._high = np.sort(queries.driver_low), np.sort(queries.driver_high)
        side = SIDE
        while True:
            driver_cuts = _cuts(queries.driver_low, queries.driver_high, side)
            stored_cuts = _cuts(queries.stored_low, queries.stored_high, side)
            above, below = _cells(driver_cuts, queries.driver_low, queries.driver_high)
            left, right = _cells(stored_cuts, queries.stored_low, queries.stored_high)
            n_entries = int(((below - above + 1) * (right - left + 1)).sum())
            if side == 1 or n_entries <= ENTRIES * max(len(queries), 1):
                break
            side //= 2
        width = stored_cuts.size + 1
        cell_first = np.zeros((driver_cuts.size + 1) * width + 1, np.int64)
        entries = fill((above, below, left, right), width, cell_first)
        self._grid = Grid(driver_cuts, stored_cuts, cell_first, entries)
        self._inhabited = np.diff(cell_first).reshape(-1, width)

    @property
    def rectangles(self) -> tuple[Grid, Ranges]:
        """The grid, and the ranges of the queries that it lists."""
        return self._grid, self._ranges

    @classmethod
    def build(cls, queries: SelectQueries, slots: Ints) -> Self:
        """Index queries, none of them empty."""
        return cls(queries, slots)

    def describe(self, probes: Probes) -> Descriptors:
        """Count the affected queries of each driver."""
        return counted(join(probes, self._grid, self._ranges, 0)[0])

    def pair(self, probes: Probes) -> Pairs:
        """Name the affected queries of each driver."""
        return Pairs(*join(probes, self._grid, self._ranges, 1)[1:])

    def forget(self, positions: Ints) -> None:
        """Find these queries no more: their ranges are empty."""
        self._ranges.driver_low[positions] = GREATEST

    def work(self, load: Load) -> Floats:
        """Return for each driver: itself, stored rows, rectangles compared with them, pairs."""
        rows = np.searchsorted(self._grid.driver_cuts, load.codes, "right")
        codes = np.concatenate(load.sampled_codes())
        columns = np.searchsorted(self._grid.stored_cuts, codes, "right")
        met = np.bincount(columns, minlength=self._inhabited.shape[1]) / codes.size
        compared = load.n_stored * (self._inhabited @ met)[rows]
        selected = n_holding(self._low, self._high, load.codes)
        pairs = selected * load.share_hit(self._ranges.stored_low, self._ranges.stored_high)
        return np.stack((np.ones(len(load)), load.n_stored, compared, pairs))


def _cuts(low: Ints, high: Ints, side: int) -> Ints:
    """Cut an axis where the ends of ranges are spread evenly."""
    ends = np.sort(np.concatenate((low, high)))
    if not ends.size:
        return ends
    return np.unique(ends[np.arange(1, side) * ends.size // side])


def _cells(cuts: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    return np.searchsorted(cuts, low, "right"), np.searchsorted(cuts, high, "right")
