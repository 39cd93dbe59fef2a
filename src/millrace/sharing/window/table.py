"""Window joins by slot, as queries come and go; and the runs of what they join."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.kernels.segments import reach_runs
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Pairs, Runs
from millrace.sharing.queries import WindowQueries
from millrace.sharing.stored import Stored
from millrace.sharing.upkeep import with_room

LONGEST = 2**61  # of windows: as good as any longer one, and may be subtracted from a time
_NAMES = [each.name for each in fields(WindowQueries)]


class WindowTable:
    """What the query of each slot is."""

    def __init__(self) -> None:
        self._columns = {name: np.zeros(0, np.int64) for name in _NAMES}

    def put(self, slots: Ints, queries: WindowQueries) -> None:
        """Say what the queries of some slots are from now on."""
        for name in _NAMES:
            self._columns[name] = with_room(self._columns[name], slots)
            self._columns[name][slots] = getattr(queries, name)
        self._columns["sizes"][slots] = np.minimum(queries.sizes, LONGEST)

    def queries(self, slots: Ints) -> WindowQueries:
        """Return the queries of some slots."""
        return WindowQueries(*(self._columns[name][slots] for name in _NAMES))

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair by codes, and since when its rows count."""
        low, high = self._columns["stored_low"], self._columns["stored_high"]
        segments = drivers.segments[pairs.drivers]
        runs = reach_runs(segments, pairs.queries, low, high, stored.starts, stored.codes)
        since = drivers.times[pairs.drivers] - self._columns["sizes"][pairs.queries]
        return Runs(pairs.drivers, pairs.queries, *runs, since)
