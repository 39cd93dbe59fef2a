"""A band join that tells hot bands from scattered ones: groups for those, the cheapest for these.

Few large groups hold most bands, and a search in a group costs the same whatever its size; bands of
small groups cost a search each, where merging them with the stored rows costs a step. What is
hot is known from the tracker (`sharing.hotspots`); a band that it moves leaves one part and comes
into the other.

Invariant: a query is in one part, that in which the tracker has it; an empty band is in neither.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.band_indexes import scattered, ssi
from millrace.sharing.band_join import BandJoin
from millrace.sharing.band_prices import PRICES
from millrace.sharing.band_table import BandTable
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Found, Pairs, Runs, joined
from millrace.sharing.hotspots import Hotspots
from millrace.sharing.queries import BandQueries
from millrace.sharing.select.prices import Prices
from millrace.sharing.stored import Stored
from millrace.sharing.upkeep import with_room

ABSENT, EMPTY, SCATTERED, HOT = range(4)


class HotBandJoin:
    """Bands that come and go, in two parts."""

    def __init__(
        self, tracker: Hotspots, table: BandTable, prices: Mapping[str, Prices] = PRICES
    ) -> None:
        self._tracker = tracker
        self._table = table
        self._hot = BandJoin(ssi, table, prices)
        self._scattered = BandJoin(scattered, table, prices)
        self._part = np.zeros(0, np.int8)
        self.version = 0

    def __len__(self) -> int:
        return int(np.count_nonzero(self._part))

    def add(self, slots: Ints, queries: BandQueries) -> None:
        """Let queries come."""
        self._part = with_room(self._part, slots)
        self._part[slots] = EMPTY
        self._table.put(slots, queries)
        self._change(slots[:0], slots[self._table.inhabited(slots)])

    def drop(self, slots: Ints) -> None:
        """Let queries go."""
        part = self._part[slots]
        self._hot.drop(slots[part == HOT])
        self._scattered.drop(slots[part == SCATTERED])
        self._part[slots] = ABSENT
        self._change(slots[part > EMPTY], slots[:0])

    def rebuild(self) -> None:
        """Index all queries anew."""
        self._hot.rebuild()
        self._scattered.rebuild()

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Tell which queries the drivers affect, as far as is asked for."""
        return Found(self, drivers, stored)

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected; groups are those of the hot part."""
        both = self._hot, self._scattered
        return joined(*(join.describe(drivers, stored) for join in both))

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        both = self._hot, self._scattered
        return joined(*(join.pair(drivers, stored) for join in both))

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        return self._table.reach(drivers, stored, pairs)

    def estimate(self, drivers: Drivers, stored: Stored) -> Floats:
        """Return what counting the affected queries of each driver is expected to take, in ns."""
        hot = self._hot.estimate(drivers, stored)
        return hot + self._scattered.estimate(drivers, stored)

    def _change(self, dropped: Ints, added: Ints) -> None:
        """Tell the tracker, and put into each part what it says."""
        self.version += 1
        bands = self._table.queries(added)
        moves = self._tracker.change(dropped, added, bands.low, bands.high)
        cooled = moves.scattered[self._part[moves.scattered] == HOT]
        heated = moves.hot[self._part[moves.hot] == SCATTERED]
        self._hot.drop(cooled)
        self._scattered.drop(heated)
        self._hot.add(moves.hot, self._table.queries(moves.hot))
        self._scattered.add(moves.scattered, self._table.queries(moves.scattered))
        self._part[moves.hot] = HOT
        self._part[moves.scattered] = SCATTERED
