"""Found: which queries a batch of drivers affects, told no further than somebody asks.

    descriptors()   for a driver and a group of queries, how many are affected      counts only
    pairs()         (driver, query), each once                                      identification
    runs()          and the run of stored rows that the query joins with the driver
    triples()       (driver, stored row, query), in pieces of bounded size          full output

Each step costs more than the one before: with 10,000 affected queries a row and 1,000 stored rows
each, a descriptor is 32 bytes, the triples are 240 MB. Nothing is computed before it is asked for.

Invariant: what a strategy has found stands until the strategy's queries change; asking later fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np

from millrace.kernels.arrays import Ints, Ints32
from millrace.sharing.drivers import Drivers
from millrace.sharing.stored import Stored

PIECE = 1 << 20


class Descriptors(NamedTuple):
    """Per driver and group: the prefixes of the group's two lists that are affected, as lengths.

    A query may be in both prefixes, so a driver affects at least the longer and at most the sum.
    Strategies that know no groups tell the number of affected queries in `lefts`, in group -1.
    """

    drivers: Ints | Ints32
    groups: Ints | Ints32
    lefts: Ints | Ints32
    rights: Ints | Ints32

    @classmethod
    def none(cls) -> Self:
        """Return what is found where there are no queries."""
        return cls(*np.zeros((4, 0), np.int32))

    def shifted(self, first: int) -> Descriptors:
        """Return the same with another number for the first driver."""
        return self._replace(drivers=self.drivers + np.int32(first)) if first else self

    def at_most(self, n_drivers: int) -> Ints:
        """Return for each driver how many queries it affects at most."""
        counts = np.zeros(n_drivers, np.int64)
        np.add.at(counts, self.drivers, self.lefts)
        np.add.at(counts, self.drivers, self.rights)
        return counts


class Pairs(NamedTuple):
    """Affected queries, in the order in which they were found; no pair comes twice."""

    drivers: Ints
    queries: Ints

    def neighbouring(self) -> Pairs:
        """Return the pairs in the order of drivers."""
        order = np.argsort(self.drivers, kind="stable")
        return Pairs(self.drivers[order], self.queries[order])

    @classmethod
    def none(cls) -> Self:
        """Return what is found where there are no queries."""
        return cls(*np.zeros((2, 0), np.int64))

    def shifted(self, first: int) -> Pairs:
        """Return the same with another number for the first driver."""
        return self._replace(drivers=self.drivers + first) if first else self


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """For each pair the rows `firsts[i] <= row < stops[i]` of what is stored; none is empty.

    Where `since` is given, rows of a run with an earlier time do not count.
    """

    drivers: Ints
    queries: Ints
    firsts: Ints
    stops: Ints
    since: Ints | None = None


class Triples(NamedTuple):
    """Results: the driver, the place of the stored row, and the query."""

    drivers: Ints
    places: Ints
    queries: Ints


Told = TypeVar("Told", Descriptors, Pairs)


def joined(*parts: Told) -> Told:
    """Return what was found in parts as one, part after part."""
    some = [each for each in parts if each.drivers.size]
    if len(some) < 2:
        return some[0] if some else parts[0]
    return type(parts[0])(*map(np.concatenate, zip(*some, strict=True)))


class Finder(Protocol):
    """What makes one step after the other; every strategy is one."""

    @property
    def version(self) -> int:
        """A number that changes with the queries."""
        ...

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        """Count what is affected."""
        ...

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        ...

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        """Find the run of each pair."""
        ...


class Found:
    """What a finder finds for some drivers, step by step."""

    def __init__(self, finder: Finder, drivers: Drivers, stored: Stored) -> None:
        self._finder = finder
        self._drivers = drivers
        self._stored = stored
        self._version = finder.version

    def descriptors(self) -> Descriptors:
        """Return how many queries are affected, by driver and group."""
        self._check()
        return self._finder.describe(self._drivers, self._stored)

    def pairs(self) -> Pairs:
        """Return the affected queries of each driver."""
        self._check()
        return self._finder.pair(self._drivers, self._stored)

    def runs(self) -> Runs:
        """Return the affected queries and where their stored rows are."""
        return self._finder.reach(self._drivers, self._stored, self.pairs())

    def triples(self, most: int = PIECE) -> Iterator[Triples]:
        """Yield all results, at most `most` at a time; neither pairs nor runs exist as a whole."""
        for first, stop in _cuts(self.descriptors().at_most(len(self._drivers)), most):
            self._check()
            some = self._drivers.cut(first, stop)
            runs = self._finder.reach(some, self._stored, self._finder.pair(some, self._stored))
            for piece in expand(runs, self._stored, most):
                yield piece._replace(drivers=piece.drivers + first)

    def _check(self) -> None:
        assert self._version == self._finder.version, "queries have changed since"


def _cuts(sizes: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Cut a row of sizes where the sum would go beyond `most`; one that is larger is alone."""
    sums = np.cumsum(sizes)
    first, before = 0, 0
    while first < sizes.size:
        stop = max(first + 1, int(np.searchsorted(sums, before + most, "right")))
        if sums[stop - 1] > before:
            yield first, stop
        first, before = stop, int(sums[stop - 1])


def expand(runs: Runs, stored: Stored, most: int = PIECE) -> Iterator[Triples]:
    """Yield the rows of all runs that count, at most `most` at a time."""
    ends = np.cumsum(runs.stops - runs.firsts)
    total = int(ends[-1]) if ends.size else 0
    for begin in range(0, total, most):
        end = min(begin + most, total)
        low = int(np.searchsorted(ends, begin, "right"))
        high = int(np.searchsorted(ends, end, "left")) + 1
        lengths = runs.stops[low:high] - runs.firsts[low:high]
        skipped = begin - (int(ends[low]) - int(lengths[0]))
        lengths[0] -= skipped
        lengths[-1] -= int(ends[high - 1]) - end
        # The k-th result of a run is its k-th row: number them all, and take away where runs begin.
        shifts = runs.firsts[low:high] - (np.cumsum(lengths) - lengths)
        shifts[0] += skipped
        rows = np.arange(end - begin) + np.repeat(shifts, lengths)
        which = np.repeat(np.arange(low, high), lengths)
        if runs.since is not None:
            young = stored.times[rows] >= runs.since[which]
            rows, which = rows[young], which[young]
        if rows.size:
            yield Triples(runs.drivers[which], stored.places[rows], runs.queries[which])
