"""The ranges of select joins by slot, as queries come and go; and the runs of what they join."""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.kernels.segments import reach_runs
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Pairs, Runs
from millrace.sharing.queries import SelectQueries
from millrace.sharing.stored import Stored


class Table:
    """What is known of each slot; `live` says which are taken."""

    def __init__(self) -> None:
        self._columns = np.zeros((4, 0), np.int64)
        self.live = np.zeros(0, np.bool_)

    def put(self, slots: Ints, queries: SelectQueries) -> None:
        """Write queries into slots that are free."""
        n_slots = int(slots.max(initial=-1)) + 1
        if n_slots > self.live.size:
            more = max(n_slots, 2 * self.live.size, 64) - self.live.size
            self._columns = np.concatenate((self._columns, np.zeros((4, more), np.int64)), axis=1)
            self.live = np.concatenate((self.live, np.zeros(more, np.bool_)))
        assert not self.live[slots].any(), "slots are free"
        self.live[slots] = True
        self._columns[:, slots] = (
            queries.driver_low,
            queries.driver_high,
            queries.stored_low,
            queries.stored_high,
        )

    def clear(self, slots: Ints) -> None:
        """Free slots that are taken."""
        assert bool(self.live[slots].all()), "slots are taken"
        self.live[slots] = False

    def of(self, slots: Ints) -> SelectQueries:
        """Return the queries in some slots."""
        return SelectQueries(*self._columns[:, slots])

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the runs of pairs; they are told by driver, so by segment."""
        rows, queries = pairs.neighbouring()
        low, high = self._columns[2], self._columns[3]
        segments = drivers.segments[rows]
        firsts, stops = reach_runs(segments, queries, low, high, stored.starts, stored.codes)
        return Runs(rows, queries, firsts, stops)
