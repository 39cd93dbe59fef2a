"""A band join of queries that come and go, by any of the ways of `band_indexes`.

The answer does not depend on the way. Queries that came lately are asked one by one, and what is
found for those that left is not heard (`sharing.upkeep`).

Invariant: drivers and stored rows are within reach (`band_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from millrace.kernels.arrays import Floats, Ints, Numbers
from millrace.kernels.bands import Probes
from millrace.sharing.band_indexes import BandIndex, q_outer
from millrace.sharing.band_prices import PRICES
from millrace.sharing.band_rows import numbers_of, probes_of, within_reach
from millrace.sharing.band_table import BandTable
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Found, Pairs, Runs, joined
from millrace.sharing.queries import BandQueries
from millrace.sharing.select.prices import Prices
from millrace.sharing.stored import Stored
from millrace.sharing.upkeep import Upkeep


class BandJoin:
    """Bands of a table in one kind of index."""

    def __init__(
        self,
        build: Callable[..., BandIndex],
        table: BandTable,
        prices: Mapping[str, Prices] = PRICES,
    ) -> None:
        self._build = build
        self._table = table
        self._prices = prices
        self._upkeep = Upkeep()
        self.version = 0
        self.rebuild()

    def __len__(self) -> int:
        return len(self._upkeep)

    def add(self, slots: Ints, queries: BandQueries) -> None:
        """Let queries come."""
        self._table.put(slots, queries)
        self._upkeep.add(slots)
        self._renew()

    def drop(self, slots: Ints) -> None:
        """Let queries go."""
        self._upkeep.drop(slots)
        self._renew()

    def rebuild(self) -> None:
        """Index all queries anew."""
        self._index = self._indexed(self._build, self._upkeep.settle())
        self._tail = self._indexed(q_outer, self._upkeep.tail)

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Tell which queries the drivers affect, as far as is asked for."""
        assert within_reach(drivers.codes, doubles=self._table.doubles).all(), "within reach"
        return Found(self, drivers, stored)

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected, and perhaps a few queries that have left."""
        probes, values = self._numbers(drivers, stored)
        found = self._index.describe(probes, values)
        if not self._upkeep.tail.size:
            return found
        return joined(found, self._tail.describe(probes, values))

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        probes, values = self._numbers(drivers, stored)
        found = self._index.pair(probes, values)
        standing = self._upkeep.standing(found.queries)
        if standing is not None:
            found = Pairs(found.drivers[standing], found.queries[standing])
        if not self._upkeep.tail.size:
            return found
        return joined(found, self._tail.pair(probes, values))

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        return self._table.reach(drivers, stored, pairs)

    def estimate(self, drivers: Drivers, stored: Stored) -> Floats:
        """Return what counting the affected queries of each driver is expected to take, in ns."""
        n_rows = stored.lengths(drivers.segments).astype(np.float64)
        return self._index.cost(n_rows) + self._tail.cost(n_rows)

    def _numbers(self, drivers: Drivers, stored: Stored) -> tuple[Probes, Numbers]:
        doubles = self._table.doubles
        return probes_of(drivers, stored, doubles=doubles), numbers_of(
            stored.codes, doubles=doubles
        )

    def _renew(self) -> None:
        self.version += 1
        if self._upkeep.due:
            self.rebuild()
        else:
            self._tail = self._indexed(q_outer, self._upkeep.tail)

    def _indexed(self, build: Callable[..., BandIndex], slots: Ints) -> BandIndex:
        """Index the bands of some slots; an empty band is in no index."""
        some = slots[self._table.inhabited(slots)]
        queries, doubles = self._table.queries(some), self._table.doubles
        return build(queries, some, doubles=doubles, prices=self._prices)
