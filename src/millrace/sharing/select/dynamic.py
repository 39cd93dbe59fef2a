"""Dynamic: the drivers of a batch go each to the strategy that is expected to be the cheapest.

What a driver costs with each strategy follows from exact counts (how many queries select it, how
many rows its segment has, how many groups those reach) and prices that were measured. They are
counted for a sample of the drivers, and corrected by what strategies took when they were tried
(`sharing.select.experience`). If one strategy is the cheapest, or nearly, for all of the sample,
the batch goes there as a whole; else each driver is asked, and the batch is split among those that
are the cheapest for some. The choice never changes an answer.

Cost: about 1 ms to choose, when batches change or a quarter of the queries has, or once in 256
batches, and so seldom that it is at most 0.5 % of the work; 1 us a driver and strategy where a
batch is split.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Found, Pairs, Runs, joined
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Batch, Load
from millrace.sharing.select.experience import Experience
from millrace.sharing.select.strategy import Strategy, estimated
from millrace.sharing.stored import Stored

SAMPLE = 128
ENDURANCE = 256  # so many batches go by until one is looked at again
TURNED_OVER = 1 / 4  # of the queries have changed when one is looked at again
CHOOSING_NS = 1e6
MOST_CHOOSING = 0.005  # of the work
WORTH = 0.8  # a batch is split if that is expected to take less than this part of the best alone
DECIDING_NS = 1_000.0  # what it takes to ask one strategy about one driver
LEAST_PART = 0.02  # of the drivers of a sample, for which a strategy must be the cheapest


class Dynamic:
    """Strategies by name, all with the same queries."""

    def __init__(self, strategies: Mapping[str, Strategy]) -> None:
        self.strategies = dict(strategies)
        self.version = 0
        self._n_queries = self._n_changed = self._era = 0
        self._experience = Experience({name: each.n_ways for name, each in strategies.items()})
        self._chosen = [*self.strategies]
        self._alone: Strategy | None = None  # what batches go to as they are, if that is settled
        self._known = (-1, -1, -1)
        self._n_left = 0
        self._expected_ns = 0.0  # of a driver, while a strategy is tried

    @property
    def n_ways(self) -> int:
        """Among how many ways it chooses."""
        return sum(each.n_ways for each in self.strategies.values())

    @property
    def chosen(self) -> list[str]:
        """The names of the strategies that batches go to now."""
        return self._chosen

    def add(self, slots: Ints, queries: SelectQueries) -> None:
        """Take in queries, each in a slot that is free."""
        self._count(slots.size, slots.size)
        for each in self.strategies.values():
            each.add(slots, queries)

    def drop(self, slots: Ints) -> None:
        """Let the queries in some slots go."""
        self._count(slots.size, -slots.size)
        for each in self.strategies.values():
            each.drop(slots)

    def _count(self, n_changed: int, n_more: int) -> None:
        """Note that queries change; what was chosen for most of them stands."""
        self.version += 1
        self._n_queries += n_more
        self._n_changed += n_changed
        if self._n_changed > TURNED_OVER * self._n_queries:
            self._era, self._n_changed = self._era + 1, 0

    def costs(self, load: Load) -> Floats:
        """Return what each strategy is expected to take for each driver, in ns."""
        return np.stack([each.price(load) for each in self.strategies.values()])

    def _stands(self, drivers: Drivers, stored: Stored) -> bool:
        """Say whether a batch goes where those before it went, which has to be quick to say.

        Batches are alike if their sizes have the same magnitude, with about the same queries.
        """
        self._n_left -= 1
        shape = len(drivers).bit_length(), len(stored).bit_length(), self._era
        return self._n_left > 0 and self._known == shape

    def _choose(self, drivers: Drivers, stored: Stored) -> list[str]:
        """Return the strategies among which a batch is split."""
        names = [*self.strategies]
        if len(names) == 1 or self._stands(drivers, stored):
            return self._chosen
        shape = len(drivers).bit_length(), len(stored).bit_length()
        batch = Batch.of(drivers, stored)
        if not len(batch):
            self._expected_ns = 0.0
            return names[:1]
        self._experience.begin(shape)
        some = np.unique(np.linspace(0, len(batch) - 1, SAMPLE).astype(np.int64))
        expected = self.costs(Load(batch, some))
        untried = self._experience.untried(expected.sum(axis=1))
        self._known = *shape, self._era
        if untried is not None:
            at, self._n_left = untried
            self._chosen, self._alone = [names[at]], None
            self._expected_ns = float(expected[at].mean() * len(batch) / len(drivers))
            return self._chosen
        self._expected_ns = 0.0
        costs = self._experience.correct(expected)
        alone = costs.sum(axis=1)
        batch_ns = alone.min() * len(batch) / some.size
        self._n_left = max(ENDURANCE, int(CHOOSING_NS / MOST_CHOOSING / max(batch_ns, 1.0)))
        wins = np.bincount(np.argmin(costs, axis=0), minlength=len(names))
        mixed = np.flatnonzero(wins >= max(LEAST_PART * some.size, 1))
        split = costs[mixed].min(axis=0).sum() + DECIDING_NS * mixed.size * some.size
        cheapest = [int(np.argmin(alone))]
        self._chosen = [names[at] for at in (mixed if split < WORTH * alone.min() else cheapest)]
        self._alone = self.strategies[self._chosen[0]] if len(self._chosen) == 1 else None
        return self._chosen

    def _split(self, drivers: Drivers, stored: Stored) -> Iterator[tuple[Strategy, Ints | None]]:
        """Yield strategies and the drivers each is chosen for; None if that is all of them."""
        if not len(drivers):
            return
        names = self._choose(drivers, stored)
        chosen = [self.strategies[name] for name in names]
        if len(chosen) == 1:
            yield chosen[0], None
            return
        costs = [
            self._experience.factor(name) * self.strategies[name].estimate(drivers, stored)
            for name in names
        ]
        cheapest = np.argmin(costs, axis=0)
        for number, strategy in enumerate(chosen):
            rows = np.flatnonzero(cheapest == number)
            if rows.size:
                yield strategy, rows

    def find(self, drivers: Drivers, stored: Stored) -> Found:
        """Find the affected queries, as far as somebody asks."""
        return Found(self, drivers, stored)

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected."""
        found = []
        for strategy, rows in self._split(drivers, stored):
            if rows is None:
                return strategy.describe(drivers, stored)
            part = strategy.describe(drivers.take(rows), stored)
            found.append(part._replace(drivers=rows[part.drivers].astype(np.int32)))
        return joined(Descriptors.none(), *found)

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        if self._alone is not None and self._stands(drivers, stored):
            return self._alone.pair(drivers, stored)
        found = []
        for strategy, rows in self._split(drivers, stored):
            if rows is None:
                return self._whole(strategy, drivers, stored)
            part = strategy.pair(drivers.take(rows), stored)
            found.append(Pairs(rows[part.drivers], part.queries))
        return joined(Pairs.none(), *found)

    def _whole(self, strategy: Strategy, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected by one strategy; if it is being tried, learn what that takes."""
        if not self._expected_ns:
            return strategy.pair(drivers, stored)
        start = time.thread_time()
        pairs = strategy.pair(drivers, stored)
        took = time.thread_time() - start
        self._experience.learn(self._chosen[0], self._expected_ns * len(drivers), took * 1e9)
        return pairs

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        return next(iter(self.strategies.values())).reach(drivers, stored, pairs)

    def estimate(self, drivers: Drivers, stored: Stored, some: Ints | None = None) -> Floats:
        """Return what naming the affected queries of each driver is expected to take, in ns."""
        return estimated(self, drivers, stored, some)

    def price(self, load: Load) -> Floats:
        """Return what each driver of a load is expected to take, in ns."""
        least: Floats = self.costs(load).min(axis=0)
        return least
