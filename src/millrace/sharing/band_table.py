"""The bands of a changing set of queries by their slots, and the rows that a band takes."""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.bands import reach_runs
from millrace.sharing.band_rows import numbers_of, settled
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Pairs, Runs
from millrace.sharing.queries import BandQueries
from millrace.sharing.stored import Stored
from millrace.sharing.upkeep import with_room


class BandTable:
    """A band for each slot; if they are of doubles, their ends are codes of doubles."""

    def __init__(self, *, doubles: bool) -> None:
        self.doubles = doubles
        self._low = np.zeros(0, np.int64)
        self._high = np.zeros(0, np.int64)

    def put(self, slots: Ints, queries: BandQueries) -> None:
        """Say what the bands of some slots are from now on."""
        self._low, self._high = (with_room(each, slots) for each in (self._low, self._high))
        bands = settled(queries, doubles=self.doubles)
        self._low[slots], self._high[slots] = bands.low, bands.high

    def queries(self, slots: Ints) -> BandQueries:
        """Return the bands of some slots."""
        return BandQueries(self._low[slots], self._high[slots])

    def inhabited(self, slots: Ints) -> Bools:
        """Say which slots have a band that is not empty."""
        return self.queries(slots).nonempty()

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        segments = drivers.segments[pairs.drivers]
        firsts, stops = reach_runs(
            numbers_of(drivers.codes[pairs.drivers], doubles=self.doubles),
            stored.starts[segments],
            stored.starts[segments + 1],
            numbers_of(stored.codes, doubles=self.doubles),
            numbers_of(self._low[pairs.queries], doubles=self.doubles),
            numbers_of(self._high[pairs.queries], doubles=self.doubles),
        )
        return Runs(pairs.drivers, pairs.queries, firsts, stops)
