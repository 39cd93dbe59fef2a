"""Vanilla: every query is asked of every driver. Good for a handful of queries."""

from __future__ import annotations

from typing import Self

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.kernels.select_scan import Probes, Ranges, scan
from millrace.sharing.codes import GREATEST
from millrace.sharing.found import Descriptors, Pairs
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Load
from millrace.sharing.select.index import counted, n_holding, ranges_of


class Vanilla:
    """Ranges, and nothing else."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._low, self._high = np.sort(ranges.driver_low), np.sort(ranges.driver_high)

    @classmethod
    def build(cls, queries: SelectQueries, slots: Ints) -> Self:
        """Index queries, none of them empty."""
        return cls(ranges_of(queries, slots))

    def describe(self, probes: Probes) -> Descriptors:
        """Count the affected queries of each driver."""
        return counted(scan(probes, self._ranges, 0)[0])

    def pair(self, probes: Probes) -> Pairs:
        """Name the affected queries of each driver."""
        return Pairs(*scan(probes, self._ranges, 1)[1:])

    def forget(self, positions: Ints) -> None:
        """Find these queries no more: their ranges are empty."""
        self._ranges.driver_low[positions] = GREATEST

    def work(self, load: Load) -> Floats:
        """Return for each driver: itself, queries, steps of searches, pairs."""
        selected = n_holding(self._low, self._high, load.codes)
        pairs = selected * load.share_hit(self._ranges.stored_low, self._ranges.stored_high)
        one = np.ones(len(load))
        return np.stack((one, one * self._low.size, selected * load.searches(), pairs))
