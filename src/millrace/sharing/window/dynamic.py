"""The window join that chooses: each driver goes where it is expected to be cheapest.

A batch is split among strategies only if that is expected to be worth it, since strategies share
work among the drivers of a batch. The choice never changes an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Found, Pairs, Runs, joined
from millrace.sharing.queries import WindowQueries
from millrace.sharing.stored import Stored
from millrace.sharing.window.join import WindowJoin

WORTH = 0.8  # a batch is split if that is expected to take less than this part of the best alone


class WindowDynamic:
    """Strategies by name, all with the same queries."""

    def __init__(self, strategies: Mapping[str, WindowJoin]) -> None:
        self.strategies = dict(strategies)
        self.version = 0

    def add(self, slots: Ints, queries: WindowQueries) -> None:
        """Let queries come."""
        self.version += 1
        for each in self.strategies.values():
            each.add(slots, queries)

    def drop(self, slots: Ints) -> None:
        """Let queries go."""
        self.version += 1
        for each in self.strategies.values():
            each.drop(slots)

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Tell which queries the drivers affect, as far as is asked for."""
        return Found(self, drivers, stored)

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected."""
        found = [Descriptors.none()]
        for strategy, rows in self._split(drivers, stored):
            part = strategy.describe(drivers.take(rows), stored)
            found.append(part._replace(drivers=rows[part.drivers].astype(np.int32)))
        return joined(*found)

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        found = [Pairs.none()]
        for strategy, rows in self._split(drivers, stored):
            part = strategy.pair(drivers.take(rows), stored)
            found.append(Pairs(rows[part.drivers], part.queries))
        return joined(*found)

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        return next(iter(self.strategies.values())).reach(drivers, stored, pairs)

    def estimate(self, drivers: Drivers, stored: Stored) -> Floats:
        """Return what naming the affected queries of each driver is expected to take, in ns."""
        least: Floats = self._costs(drivers, stored).min(axis=0)
        return least

    def _costs(self, drivers: Drivers, stored: Stored) -> Floats:
        return np.stack([each.estimate(drivers, stored) for each in self.strategies.values()])

    def _split(self, drivers: Drivers, stored: Stored) -> Iterator[tuple[WindowJoin, Ints]]:
        """Yield strategies, and the drivers that each is chosen for."""
        costs = self._costs(drivers, stored)
        chosen = np.argmin(costs, axis=0)
        alone = costs.sum(axis=1)
        if costs.min(axis=0).sum() >= WORTH * alone.min():
            chosen[:] = np.argmin(alone)
        for number, strategy in enumerate(self.strategies.values()):
            rows = np.flatnonzero(chosen == number)
            if rows.size:
                yield strategy, rows
