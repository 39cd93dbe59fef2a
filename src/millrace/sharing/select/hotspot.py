"""Hotspot: SSI for the groups that hold many queries, something else for those that are scattered.

SSI costs by groups. Where queries cluster, a few groups hold most of them; were each of the others
a group too, its cost would be theirs. So the groups that are hot (`sharing.hotspots`) are found by
SSI, and scattered queries by SelectFirst, or by an SSI of their own where that is expected to be
quicker. Queries move between the two as groups become hot and cease to be; that is rare.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Found, Pairs, Runs, joined
from millrace.sharing.hotspots import Hotspots
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Load
from millrace.sharing.select.dynamic import Dynamic
from millrace.sharing.select.strategy import Strategy, estimated
from millrace.sharing.select.table import Table
from millrace.sharing.stored import Stored

ALPHA = 0.001


class Hotspot:
    """Two strategies, and who tells which queries are whose."""

    def __init__(
        self,
        hot: Strategy,
        scattered: Mapping[str, Strategy],
        *,
        alpha: float = ALPHA,
        least_hot: int | None = None,
        checked: bool = False,
    ) -> None:
        self._hot = hot
        self._scattered = Dynamic(scattered)
        self._hotspots = Hotspots(alpha, least_hot=least_hot, checked=checked)
        self._table = Table()
        self._is_hot = np.zeros(0, np.int8)  # -1: neither, as it is free or empty
        self.version = 0

    @property
    def n_ways(self) -> int:
        """Among how many ways to find scattered queries it chooses."""
        return self._scattered.n_ways

    @property
    def n_hot(self) -> int:
        """How many groups are hot."""
        return self._hotspots.hot_sizes.size

    @property
    def share_hot(self) -> float:
        """Which part of the queries is in hot groups."""
        return int(self._hotspots.hot_sizes.sum()) / max(len(self._hotspots), 1)

    def add(self, slots: Ints, queries: SelectQueries) -> None:
        """Take in queries, each in a slot that is free."""
        self._table.put(slots, queries)
        more = np.full(self._table.live.size - self._is_hot.size, -1, np.int8)
        self._is_hot = np.concatenate((self._is_hot, more))
        some = queries.nonempty()
        nothing = np.zeros(0, np.int64)
        self._change(nothing, slots[some], queries.stored_low[some], queries.stored_high[some])

    def drop(self, slots: Ints) -> None:
        """Let the queries in some slots go."""
        self._table.clear(slots)
        known = slots[self._is_hot[slots] >= 0]
        self._hot.drop(known[self._is_hot[known] == 1])
        self._scattered.drop(known[self._is_hot[known] == 0])
        self._is_hot[known] = -1
        nothing = np.zeros(0, np.int64)
        self._change(known, nothing, nothing, nothing)

    def _change(self, dropped: Ints, added: Ints, low: Ints, high: Ints) -> None:
        """Let the tracker decide, and move what has changed sides."""
        self.version += 1
        moves = self._hotspots.change(dropped, added, low, high)
        self._hot.drop(moves.scattered[self._is_hot[moves.scattered] == 1])
        self._scattered.drop(moves.hot[self._is_hot[moves.hot] == 0])
        self._is_hot[moves.hot] = 1
        self._is_hot[moves.scattered] = 0
        self._hot.add(moves.hot, self._table.of(moves.hot))
        self._scattered.add(moves.scattered, self._table.of(moves.scattered))

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Find the affected queries, as far as somebody asks."""
        return Found(self, drivers, stored)

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected."""
        both = self._hot, self._scattered
        return joined(Descriptors.none(), *(each.describe(drivers, stored) for each in both))

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        both = self._hot, self._scattered
        return joined(Pairs.none(), *(each.pair(drivers, stored) for each in both))

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        return self._table.reach(drivers, stored, pairs)

    def estimate(self, drivers: Drivers, stored: Stored, some: Ints | None = None) -> Floats:
        """Return what naming the affected queries of each driver is expected to take, in ns."""
        return estimated(self, drivers, stored, some)

    def price(self, load: Load) -> Floats:
        """Return what each driver of a load is expected to take, in ns."""
        return self._hot.price(load) + self._scattered.price(load)
