"""Exploring: drivers ask one leaf after the other, until their combinations are whole.

    driver r ──asks s──► (r, s) ──asks t──► (r, s, t)
      live for                live for r and s,         ...
      its queries             within their windows

The lineage of a combination is narrowed at each step, and a combination that lives for nobody ends.
What is the same for all queries is asked of a combination as soon as it has the columns.

Cost: the combinations that live, times the queries of a block by words of 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bits, Bools, Ints
from millrace.kernels.lineage import alive
from millrace.kernels.probing import runs_of, spelt_out
from millrace.operators.evaluate import evaluate
from millrace.operators.joining import rules
from millrace.operators.joining.conditions import Conditions
from millrace.operators.joining.lineage import narrowed, within
from millrace.operators.joining.queries import Queries
from millrace.operators.joining.stems import Functions, Stems, truth
from millrace.operators.relational.timed import rows_of
from millrace.operators.vectors import as_array
from millrace.plan.expressions import Column, Expression, walk

CELLS_AT_ONCE = 1 << 22
ROWS_AT_ONCE = 1 << 17
NO_BITS: Bits = np.zeros((0, 0), np.uint64)
"""The lineage of what was found for a query by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Combinations:
    """Rows of some leaves that belong together, the time of their driver, and their lineage."""

    rows: Mapping[int, Ints]
    times: Ints
    live: Bits

    def __len__(self) -> int:
        return len(self.times)

    @property
    def bound(self) -> frozenset[int]:
        """The leaves that they have rows of."""
        return frozenset(self.rows)

    def where(self, mask: Bools) -> Combinations:
        """Return those for which `mask` is true."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        rows = {leaf: each[at] for leaf, each in self.rows.items()}
        return Combinations(rows, self.times[at], np.take(self.live, at, axis=1))

    def take(self, at: Ints) -> Combinations:
        """Return those at some places, for queries that are told apart from them."""
        rows = {leaf: each[at] for leaf, each in self.rows.items()}
        return Combinations(rows, self.times[at], NO_BITS)


class Asking(Protocol):
    """What the driver is to the elements that it asks."""

    def meets(self, leaf: int, times: Ints, driver_times: Ints) -> Bools:
        """Say which elements of a leaf a driver may be combined with."""
        ...

    def ages(self, leaf: int, times: Ints, driver_times: Ints) -> Ints:
        """Return how long windows must be to hold elements of a leaf beside their driver."""
        ...


@dataclass(frozen=True, slots=True)
class Latest:
    """The driver is the latest element of its combinations."""

    driver: int

    def meets(self, leaf: int, times: Ints, driver_times: Ints) -> Bools:
        """Say which elements are before the driver."""
        return rules.earlier(times, leaf, driver_times, self.driver)

    def ages(self, leaf: int, times: Ints, driver_times: Ints) -> Ints:  # noqa: ARG002
        """Return how old elements are at the time of the driver."""
        return rules.age(driver_times, times)


@dataclass(frozen=True, slots=True, eq=False)
class Exploring:
    """Finds combinations for a block of queries; `lineage` are the bits of each leaf's rows."""

    stems: Stems
    conditions: Conditions
    queries: Queries
    lineage: tuple[Bits, ...]
    functions: Functions

    def explore(
        self, found: Combinations, asking: Asking, done: frozenset[int] = frozenset()
    ) -> Iterator[Combinations]:
        """Yield the whole combinations that begin with some."""
        n_leaves = len(self.lineage)
        if not len(found):
            return
        if len(found.bound) == n_leaves:
            yield found
            return
        done |= found.bound
        for leaf in self._order(found.bound):
            if rules.ready(leaf, found.bound, done):
                done |= {leaf}
                for more in self._joined(found, leaf, asking):
                    yield from self.explore(more, asking, done)

    def _order(self, bound: frozenset[int]) -> list[int]:
        """Return the leaves that are left: those first that more equalities bind."""
        left = [each for each in range(len(self.lineage)) if each not in bound]
        return sorted(left, key=lambda each: -len(self.stems.binding(each, bound)))

    def _joined(self, found: Combinations, leaf: int, asking: Asking) -> Iterator[Combinations]:
        by = self.stems.binding(leaf, found.bound)
        index = self.stems.index(leaf, by)
        numbers = self.stems.numbers(by, found.rows, len(found))
        widest = int(self.queries.sizes[leaf].max())
        firsts, stops = runs_of(
            index.starts, index.times, index.wanted(numbers), found.times - widest, found.times
        )
        for some in _pieces(stops - firsts, len(self.lineage[leaf])):
            which, runs = spelt_out(firsts[some], stops[some])
            yield self._met(found, which + some.start, leaf, index.places[runs], asking)

    def _met(
        self, found: Combinations, which: Ints, leaf: int, at: Ints, asking: Asking
    ) -> Combinations:
        """Combine rows with those of one more leaf, as far as queries want them together."""
        by = self.stems.binding(leaf, found.bound)
        times, driver_times = self.stems.leaves[leaf].times[at], found.times[which]
        rows = {each: places[which] for each, places in found.rows.items()}
        mask = asking.meets(leaf, times, driver_times) & self.stems.agree(by, rows, leaf, at)
        kept = np.flatnonzero(mask)
        which, at = which[kept], at[kept]
        live = rules.together(found.live, which, self.lineage[leaf], at)
        within(live, asking.ages(leaf, times[kept], driver_times[kept]), self.queries.sizes[leaf])
        rows = {each: places[kept] for each, places in rows.items()}
        more = Combinations({**rows, leaf: at}, driver_times[kept], live)
        return self._asked(more.where(alive(live)), found.bound)

    def _asked(self, found: Combinations, before: frozenset[int]) -> Combinations:
        """Ask what can be asked now, and could not be before."""
        for each in self.conditions.checks:
            if len(found) and each.leaves <= found.bound and not each.leaves <= before:
                rows = columns_of(self.stems, found, [each.condition])
                found = found.where(truth(each.condition, rows, self.functions))
        for at, asked in enumerate(self.conditions.ranges):
            if len(found) and asked.leaves <= found.bound and not asked.leaves <= before:
                found = self._ranged(found, at)
        return found

    def _ranged(self, found: Combinations, at: int) -> Combinations:
        asked, ranged = self.conditions.ranges[at], self.queries.ranges[at]
        rows = columns_of(self.stems, found, [asked.value])
        value = as_array(evaluate(asked.value, rows, self.functions), len(found))
        if asked.hint and value.null_count:
            return found  # it may be too great for a number; what is asked of it says
        narrowed(found.live, ranged.coder(value), ranged.low, ranged.high)
        return found.where(alive(found.live))


def columns_of(stems: Stems, found: Combinations, values: Sequence[Expression]) -> pa.RecordBatch:
    """Return the columns of combinations that some expressions name."""
    wanted = {each.name for one in values for each in walk(one) if isinstance(each, Column)}
    arrays, names = [], []
    for leaf, places in found.rows.items():
        rows = stems.leaves[leaf].rows
        for name in rows.schema.names:
            if name in wanted:
                arrays.append(rows.column(name).take(pa.array(places)))
                names.append(name)
    return rows_of(arrays, names, len(found))


def _pieces(lengths: Ints, n_words: int) -> Iterator[slice]:
    """Cut what asks so that what it finds has a bounded number of bits; one may find more."""
    most = max(1, min(ROWS_AT_ONCE, CELLS_AT_ONCE // max(n_words, 1)))
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        before = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        if int(ends[stop - 1]) > before:
            yield slice(first, stop)
        first = stop
