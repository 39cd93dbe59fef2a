"""A window join of queries that come and go, by any of the indexes.

Queries that came lately are asked one by one, and what is found for those that left is not heard
(`sharing.upkeep`). Whatever has to be built anew is when somebody asks.

Invariant: no stored row is newer than a driver that probes its segment. Rows that are late, or came
together, are for `AnyOrder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Found, Pairs, Runs, Triples, joined
from millrace.sharing.queries import WindowQueries
from millrace.sharing.select.prices import Prices
from millrace.sharing.stored import Stored
from millrace.sharing.upkeep import Upkeep
from millrace.sharing.window.batch import Links, WindowBatch
from millrace.sharing.window.indexes import JoinFirst, SelectFirst, WindowIndex
from millrace.sharing.window.table import WindowTable

Build: TypeAlias = Callable[[WindowQueries, Ints], WindowIndex]


class WindowJoin:
    """Queries in one kind of index; `prices` say what its work takes."""

    def __init__(self, build: Build, prices: Prices, build_tail: Build = SelectFirst) -> None:
        self._build = build
        self._build_tail = build_tail
        self._prices = np.array(prices)
        self._table = WindowTable()
        self._upkeep = Upkeep()
        self._links: Links | None = None
        self.version = 0
        self.rebuild()

    def __len__(self) -> int:
        return len(self._upkeep)

    def add(self, slots: Ints, queries: WindowQueries) -> None:
        """Let queries come."""
        self._table.put(slots, queries)
        self._upkeep.add(slots)
        self._changed()

    def drop(self, slots: Ints) -> None:
        """Let queries go."""
        self._upkeep.drop(slots)
        self._changed()

    def rebuild(self) -> None:
        """Index all queries anew."""
        self._index = self._indexed(self._build, self._upkeep.settle())
        self._tail = self._indexed(self._build_tail, self._upkeep.tail)
        self._stale = False

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Tell which queries the drivers affect, as far as is asked for."""
        return Found(self, drivers, stored)

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected, and perhaps a few queries that have left."""
        batch = self._batch(drivers, stored)
        parts = [each.describe(batch) for each in self._indexes()]
        found = joined(*parts)
        return found._replace(drivers=batch.rows[found.drivers].astype(np.int32))

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        batch = self._batch(drivers, stored)
        found = self._index.pair(batch)
        standing = self._upkeep.standing(found.queries)
        if standing is not None:
            found = Pairs(found.drivers[standing], found.queries[standing])
        if self._upkeep.tail.size:
            found = joined(found, self._tail.pair(batch))
        return Pairs(batch.rows[found.drivers], found.queries)

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        return self._table.reach(drivers, stored, pairs)

    def estimate(self, drivers: Drivers, stored: Stored) -> Floats:
        """Return what naming the affected queries of each driver is expected to take, in ns."""
        batch = self._batch(drivers, stored)
        costs = np.zeros(len(drivers))
        costs[batch.rows] = self._prices @ self._index.work(batch)
        return costs

    def _batch(self, drivers: Drivers, stored: Stored) -> WindowBatch:
        """Return what is asked; the indexes know all queries then."""
        self._renew()
        links = self._links
        if links is None or links.stored is not stored:
            links = self._links = Links(stored)  # another thread may ask about other rows
        return WindowBatch.of(drivers, stored, links)

    def _indexes(self) -> list[WindowIndex]:
        return [self._index, self._tail] if self._upkeep.tail.size else [self._index]

    def _changed(self) -> None:
        self.version += 1
        self._stale = True

    def _renew(self) -> None:
        if self._upkeep.due:
            self.rebuild()
        elif self._stale:
            self._tail = self._indexed(self._build_tail, self._upkeep.tail)
            self._stale = False

    def _indexed(self, build: Build, slots: Ints) -> WindowIndex:
        """Index the queries of some slots, but for those that match nothing."""
        some = slots[self._table.queries(slots).nonempty()]
        return build(self._table.queries(some), some)


class AnyOrder(WindowJoin):
    """JoinFirst, which also joins rows that are late or came together."""

    def __init__(self, prices: Prices) -> None:
        super().__init__(JoinFirst, prices, JoinFirst)

    def meet(self, drivers: Drivers, stored: Stored) -> Triples:
        """Return all results of drivers, of which stored rows may be newer."""
        batch = self._batch(drivers, stored)
        assert isinstance(self._index, JoinFirst), "it was built so"
        assert isinstance(self._tail, JoinFirst), "it was built so"
        found, late = self._index.meet(batch), self._tail.meet(batch)
        standing = self._upkeep.standing(found.queries)
        if standing is not None:
            found = Triples(*(each[standing] for each in found))
        return Triples(*map(np.concatenate, zip(found, late, strict=True)))
