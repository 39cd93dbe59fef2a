"""Answers: what is told of combinations, to each query for which they live.

ISTREAM tells what comes at an instant, less what goes at it: of equal rows of one query, one that
comes and one that goes are no news. No row is remembered for that. What goes at an instant at which
a query is told something is found again, by the element whose time in its window ends there:

    x ├──── window ────┤ t        y comes at t, and with it a row for query q
                                  x, with what it was together with until then, is asked for
                                  rows of q: equal ones cancel

Where rows have the times of all their elements, equal ones cannot come and go at one instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.grouping import add_by_number
from millrace.kernels.lineage import alive, listed
from millrace.kernels.probing import spelt_out
from millrace.operators.evaluate import evaluate
from millrace.operators.joining.exploring import (
    NO_BITS,
    Combinations,
    Exploring,
    Latest,
    columns_of,
)
from millrace.operators.joining.lineage import of_size
from millrace.operators.joining.queries import Queries
from millrace.operators.joining.residuals import left_over
from millrace.operators.joining.stems import Functions, Stems
from millrace.operators.relational.equal import numbered, plain
from millrace.operators.relational.timed import concat_rows, empty_rows, rows_of, take_rows
from millrace.operators.vectors import as_array
from millrace.plan.nodes import Output

PAIRS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of queries at instants; queries are numbered as they are in their block."""

    queries: Ints
    times: Ints
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def concat(cls, parts: Sequence[Rows], schema: pa.Schema) -> Rows:
        """Put rows behind each other."""
        none = np.zeros(0, np.int64)
        if not parts:
            return cls(none, none, empty_rows(schema))
        return cls(
            np.concatenate([each.queries for each in parts]),
            np.concatenate([each.times for each in parts]),
            concat_rows([each.rows for each in parts], schema),
        )

    def take(self, at: Ints) -> Rows:
        """Return the rows at some places."""
        return Rows(self.queries[at], self.times[at], take_rows(self.rows, at))


@dataclass(frozen=True, slots=True, eq=False)
class Telling:
    """What is told of combinations, and the functions that are called for it."""

    outputs: tuple[Output, ...]
    told: pa.Schema
    functions: Functions


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

    def coming(self) -> Rows:
        """Return what comes in the slab."""
        found = []
        for leaf, rows in enumerate(self.exploring.stems.leaves):
            drivers = self._drivers(leaf, rows.new, rows.times[rows.new])
            for each in self.exploring.explore(drivers.where(alive(drivers.live)), Latest(leaf)):
                found += self._rows(each)
        return Rows.concat(found, self.telling.told)

    def _drivers(self, leaf: int, at: Ints, times: Ints) -> Combinations:
        live = np.take(self.exploring.lineage[leaf], at, axis=1)
        return Combinations({leaf: at}, times, live)

    def news(self, came: Rows) -> Rows:
        """Leave out what is equal to something that goes at the same instant."""
        gone = Rows.concat([each for part in self._going(came) for each in part], self.telling.told)
        if not len(gone):
            return came
        both_ways = Rows.concat([came, gone], self.telling.told)
        columns = [pa.array(both_ways.queries), pa.array(both_ways.times), *both_ways.rows.columns]
        marked = rows_of(columns, ["_query", "_time", *self.telling.told.names], len(both_ways))
        numbers, firsts = numbered(marked)
        signs = np.where(np.arange(len(both_ways)) < len(came), 1, -1)
        net = np.maximum(add_by_number(numbers, signs[:, None], len(firsts))[:, 0], 0)
        return both_ways.take(np.repeat(firsts, net))

    def _going(self, came: Rows) -> Iterator[list[Rows]]:
        """Yield the rows that go where and when something has come, for the same queries."""
        marks = np.unique(np.stack((came.queries, came.times)), axis=1)
        for leaf, rows in enumerate(self.exploring.stems.leaves):
            sizes = self.exploring.queries.sizes[leaf]
            wanted = np.unique(np.stack((marks[1] - sizes[marks[0]] - 1, marks[1] - 1)), axis=1)
            order = np.argsort(rows.times, kind="stable")
            firsts = np.searchsorted(rows.times[order], wanted[0])
            stops = np.searchsorted(rows.times[order], wanted[0], side="right")
            which, places = spelt_out(firsts, stops)
            drivers = self._drivers(leaf, order[places], wanted[1][which])
            of_size(drivers.live, drivers.times - rows.times[order[places]], sizes)
            for each in self.exploring.explore(drivers.where(alive(drivers.live)), Ending(leaf)):
                yield self._rows(each, shift=1, marks=marks)

    def _rows(
        self, found: Combinations, shift: int = 0, marks: np.ndarray | None = None
    ) -> list[Rows]:
        """Return the rows of combinations, at the time of the driver or so much later."""
        at, queries = listed(found.live)
        times = found.times[at] + shift
        if marks is not None:
            kept = _among(queries, times, marks)
            at, queries, times = at[kept], queries[kept], times[kept]
        parts = []
        for first in range(0, len(at), PAIRS_AT_ONCE):
            piece = slice(first, first + PAIRS_AT_ONCE)
            rows = {leaf: places[at[piece]] for leaf, places in found.rows.items()}
            some = Combinations(rows, times[piece], NO_BITS)
            exploring = self.exploring
            parts.append(
                told_rows(exploring.stems, some, exploring.queries, queries[piece], self.telling)
            )
        return parts


def told_rows(
    stems: Stems, found: Combinations, queries: Queries, wanted: Ints, telling: Telling
) -> Rows:
    """Ask what is left to be asked of each combination and its query, and compute what is told."""
    times = found.times
    if queries.unsettled:
        kept = left_over(stems, found, queries, wanted, telling.functions)
        places = {leaf: each[kept] for leaf, each in found.rows.items()}
        wanted, times = wanted[kept], times[kept]
        found = Combinations(places, times, NO_BITS)
    values = [each.value for each in telling.outputs]
    rows = columns_of(stems, found, values)
    parameters = take_rows(queries.parameters, wanted)
    columns = [
        plain(as_array(evaluate(each, rows, telling.functions, parameters), len(times)))
        for each in values
    ]
    return Rows(wanted, times, rows_of(columns, telling.told.names, len(times)))


def _among(queries: Ints, times: Ints, marks: np.ndarray) -> Ints:
    """Return which pairs of a query and an instant are among some."""
    pairs = np.concatenate((marks, np.stack((queries, times))), axis=1)
    _, numbers = np.unique(pairs, axis=1, return_inverse=True)
    numbers = numbers.reshape(-1)
    found: Ints = np.flatnonzero(np.isin(numbers[marks.shape[1] :], numbers[: marks.shape[1]]))
    return found
