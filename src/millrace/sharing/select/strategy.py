"""A strategy: one way to find the affected queries of select joins, as queries come and go.

Indexes are built of a fixed set of queries. What comes later is in a second, small index, made anew
when it has changed and is asked; what goes is forgotten where it is. When the small one holds more
than 4,096 queries and 1 % of all, or the large one has forgotten as many as it knows, everything is
built again as soon as somebody asks: of several strategies most are not asked for long.

Invariant: a query that is live and not empty is in exactly one of the two indexes, and nothing
else is found; so the answer does not depend on what came when.

Cost: building takes 0.3 to 1 us a query; 4,096 late ones cost 2 ms whenever some come or go.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Finder, Found, Pairs, Runs, joined
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Batch, Load
from millrace.sharing.select.index import Build, Index, amounts
from millrace.sharing.select.prices import Prices
from millrace.sharing.select.table import Table
from millrace.sharing.stored import Stored

LEAST_TAIL = 4096
TAIL_SHARE = 0.01


class Strategy(Finder, Protocol):
    """What every strategy can do besides finding."""

    @property
    def n_ways(self) -> int:
        """Among how many ways to do its work it chooses by itself."""
        ...

    def add(self, slots: Ints, queries: SelectQueries) -> None:
        """Take in queries, each in a slot that is free."""
        ...

    def drop(self, slots: Ints) -> None:
        """Let the queries in some slots go."""
        ...

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Find the affected queries, as far as somebody asks."""
        ...

    def estimate(self, drivers: Drivers, stored: Stored, some: Ints | None = None) -> Floats:
        """Return what naming the affected queries of each driver is expected to take, in ns.

        If `some` are given, only those are told of, in the company of all.
        """
        ...

    def price(self, load: Load) -> Floats:
        """Return what each driver of a load is expected to take, in ns."""
        ...


class Indexed:
    """A strategy that is an index, built by `build`; `prices` say what its work takes."""

    def __init__(self, build: Build, prices: Prices) -> None:
        self._build = build
        self._prices = prices
        self._table = Table()
        self._main: Index | None = None
        self._tail: Index | None = None
        self._place = np.zeros(0, np.int64)  # in the main index; -1 if it is not there
        self._late = np.zeros(0, np.int64)
        self._n_main = 0
        self._n_forgotten = 0
        self.version = 0

    @property
    def n_ways(self) -> int:
        """One: it does not choose."""
        return 1

    def add(self, slots: Ints, queries: SelectQueries) -> None:
        """Take in queries, each in a slot that is free."""
        self._table.put(slots, queries)
        more = np.full(self._table.live.size - self._place.size, -1, np.int64)
        self._place = np.concatenate((self._place, more))
        self._late = np.concatenate((self._late, slots[queries.nonempty()]))
        self._changed()

    def drop(self, slots: Ints) -> None:
        """Let the queries in some slots go."""
        self._table.clear(slots)
        self._late = self._late[self._table.live[self._late]]
        places = self._place[slots]
        known = places[places >= 0]
        if known.size:
            assert self._main is not None, "it has places"
            self._main.forget(known)
        self._place[slots] = -1
        self._n_forgotten += known.size
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._tail = None

    @property
    def _due(self) -> bool:
        """Whether it is time to build everything again."""
        most_late = max(LEAST_TAIL, TAIL_SHARE * self._n_main)
        many_gone = 2 * self._n_forgotten > self._n_main + LEAST_TAIL
        return many_gone or self._late.size > most_late

    def _rebuild(self) -> None:
        slots = np.concatenate((np.flatnonzero(self._place >= 0), self._late))
        self._main = self._build(self._table.of(slots), slots) if slots.size else None
        self._place[slots] = np.arange(slots.size)
        self._late = self._late[:0]
        self._n_main, self._n_forgotten = slots.size, 0

    def _indexes(self) -> list[Index]:
        if self._due:
            self._rebuild()
        if self._tail is None and self._late.size:
            self._tail = self._build(self._table.of(self._late), self._late)
        return [each for each in (self._main, self._tail) if each is not None]

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Find the affected queries, as far as somebody asks."""
        return Found(self, drivers, stored)

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected."""
        batch = Batch.of(drivers, stored)
        found = joined(
            Descriptors.none(), *(each.describe(batch.probes) for each in self._indexes())
        )
        if len(batch) == len(drivers):
            return found
        return found._replace(drivers=batch.rows[found.drivers].astype(np.int32))

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        batch = Batch.of(drivers, stored)
        found = joined(Pairs.none(), *(each.pair(batch.probes) for each in self._indexes()))
        return found if len(batch) == len(drivers) else Pairs(batch.rows[found[0]], found[1])

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        return self._table.reach(drivers, stored, pairs)

    def estimate(self, drivers: Drivers, stored: Stored, some: Ints | None = None) -> Floats:
        """Return what naming the affected queries of each driver is expected to take, in ns.

        If `some` are given, only those are told of, in the company of all.
        """
        return estimated(self, drivers, stored, some)

    def price(self, load: Load) -> Floats:
        """Return what each driver of a load is expected to take, in ns."""
        costs = np.zeros(len(load))
        for index in self._indexes():
            costs += np.asarray(self._prices) @ amounts(index, load)
        return costs


def estimated(
    strategy: Strategy, drivers: Drivers, stored: Stored, some: Ints | None = None
) -> Floats:
    """Return what drivers are expected to take; one whose segment is empty takes nothing."""
    batch = Batch.of(drivers, stored)
    rows = np.arange(len(drivers)) if some is None else some
    costs = np.zeros(rows.size)
    within = np.searchsorted(batch.rows, rows)
    found = within < len(batch)
    found[found] = batch.rows[within[found]] == rows[found]
    if found.any():
        costs[found] = strategy.price(Load(batch, within[found]))
    return costs
