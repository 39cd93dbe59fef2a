"""Answers: what is told of combinations, and the queries for which they live.

A row is computed once, however many queries are told it (`told`). ISTREAM tells what comes at an
instant, less what goes at it: of equal rows of one query, one that comes and one that goes are no
news. No row is remembered for that. What goes at an instant at which a query is told something is
found again, by the element whose time in its window ends there; so is what DSTREAM tells:

    x ├──── window ────┤ t        y comes at t, and with it a row for query q
                                  x, with what it was together with until then, is asked for
                                  rows of q: equal ones cancel

Where rows have the times of all their elements, equal ones cannot come and go at one instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.lineage import alive, listed
from millrace.kernels.probing import spelt_out
from millrace.operators.joining.exploring import NO_BITS, Combinations, Exploring, Latest
from millrace.operators.joining.lineage import of_size
from millrace.operators.joining.told import Pairs, Rows, Telling, still_wanted, told_rows

PAIRS_AT_ONCE = 1 << 20
Marks: TypeAlias = np.ndarray
"""Queries and instants, a column each."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The driver is an element that ends, with what it was together with at the instant before.

    Of several that end together the one of the first leaf is the driver.
    """

    driver: int

    def meets(self, leaf: int, times: Ints, driver_times: Ints) -> Bools:  # noqa: ARG002
        """Say which elements were there."""
        found: Bools = times <= driver_times
        return found

    def ages(self, leaf: int, times: Ints, driver_times: Ints) -> Ints:
        """Return how long windows are that hold elements then, and longer for earlier leaves."""
        return driver_times - times + (leaf < self.driver)


@dataclass(frozen=True, slots=True, eq=False)
class Answering:
    """Tells what combinations give to a block of queries."""

    exploring: Exploring
    telling: Telling

    def coming(self) -> Iterator[Pairs]:
        """Yield what comes in the slab, and to whom."""
        for leaf, rows in enumerate(self.exploring.stems.leaves):
            drivers = self._drivers(leaf, rows.new, rows.times[rows.new])
            for each in self.exploring.explore(drivers.where(alive(drivers.live)), Latest(leaf)):
                yield from self._pairs(each)

    def _drivers(self, leaf: int, at: Ints, times: Ints) -> Combinations:
        live = np.take(self.exploring.lineage[leaf], at, axis=1)
        return Combinations({leaf: at}, times, live)

    def news(self, came: Rows) -> Rows:
        """Leave out what is equal to something that goes at the same instant."""
        gone = Pairs.concat([*self._going(came)])
        if not len(gone):
            return came
        exploring = self.exploring
        went = told_rows(exploring.stems, gone, exploring.queries, self.telling, timed=True)
        return came.less(went, len(exploring.queries))

    def going(self, begin: int, end: int) -> Iterator[Pairs]:
        """Yield what goes at the instants of a slab, and from whom, by what ends first of it."""
        for leaf, rows in enumerate(self.exploring.stems.leaves):
            sizes = np.unique(self.exploring.queries.sizes[leaf])
            order = np.argsort(rows.times, kind="stable")
            firsts = np.searchsorted(rows.times[order], begin - 1 - sizes)
            stops = np.searchsorted(rows.times[order], end - 1 - sizes)
            which, places = spelt_out(firsts, stops)
            yield from self._ended(leaf, order[places], sizes[which])

    def _ended(
        self, leaf: int, at: Ints, ages: Ints, marks: Marks | None = None
    ) -> Iterator[Pairs]:
        """Yield what goes where elements of a leaf end that are so old, and windows as large."""
        times = self.exploring.stems.leaves[leaf].times[at] + ages
        drivers = self._drivers(leaf, at, times)
        of_size(drivers.live, ages, self.exploring.queries.sizes[leaf])
        for each in self.exploring.explore(drivers.where(alive(drivers.live)), Ending(leaf)):
            yield from self._pairs(each, shift=1, marks=marks)

    def _going(self, came: Rows) -> Iterator[Pairs]:
        """Yield what goes where and when something has come, for the same queries."""
        marks = np.unique(np.stack((came.queries, came.times[came.at])), axis=1)
        for leaf, rows in enumerate(self.exploring.stems.leaves):
            sizes = self.exploring.queries.sizes[leaf]
            wanted = np.unique(np.stack((marks[1] - sizes[marks[0]] - 1, marks[1] - 1)), axis=1)
            order = np.argsort(rows.times, kind="stable")
            firsts = np.searchsorted(rows.times[order], wanted[0])
            stops = np.searchsorted(rows.times[order], wanted[0], side="right")
            which, places = spelt_out(firsts, stops)
            at = order[places]
            yield from self._ended(leaf, at, wanted[1][which] - rows.times[at], marks)

    def _pairs(
        self, found: Combinations, shift: int = 0, marks: Marks | None = None
    ) -> Iterator[Pairs]:
        """Yield combinations and their queries, at the time of the driver or so much later."""
        at, queries = listed(found.live)
        found = Combinations(found.rows, found.times + shift, NO_BITS)
        if marks is not None:
            kept = _among(queries, found.times[at], marks)
            at, queries = at[kept], queries[kept]
        for first in range(0, len(at), PAIRS_AT_ONCE):
            piece = slice(first, first + PAIRS_AT_ONCE)
            some = Pairs.of(found, at[piece], queries[piece])
            exploring = self.exploring
            yield still_wanted(exploring.stems, some, exploring.queries, self.telling.functions)


def _among(queries: Ints, times: Ints, marks: Marks) -> Ints:
    """Return which pairs of a query and an instant are among some."""
    pairs = np.concatenate((marks, np.stack((queries, times))), axis=1)
    _, numbers = np.unique(pairs, axis=1, return_inverse=True)
    numbers = numbers.reshape(-1)
    found: Ints = np.flatnonzero(np.isin(numbers[marks.shape[1] :], numbers[: marks.shape[1]]))
    return found
