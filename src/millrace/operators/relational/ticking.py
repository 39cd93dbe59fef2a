"""A family's stream of totals of windows that differ in size: all queries at once, at ticks.

Queries are remembered as they come and go; elements are read again (`again.Past`), as far back as
the largest window of a query reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.grouping import add_by_number
from millrace.operators.relational.equal import ONE_KEY, numbered
from millrace.operators.relational.feeds import values_of
from millrace.operators.relational.folded import consolidated
from millrace.operators.relational.intervals import (
    interval_rows,
    interval_schema,
    intervals_in,
)
from millrace.operators.relational.rowwise import changed, each_row, plain_elements
from millrace.operators.relational.sized import SizedTotals, Sizes, Told
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.streams import ordered
from millrace.operators.relational.timed import (
    OPEN,
    Timed,
    concat_rows,
    empty_rows,
    rows_of,
    take_rows,
)
from millrace.operators.relational.totals import Totals
from millrace.operators.relational.windows import sizes_of
from millrace.plan.levels import BIRTH, QUERIES, QUERIES_AS, SEEN_FROM
from millrace.plan.sizing import Sizing


@dataclass(frozen=True, slots=True)
class Ticking:
    """Tells the totals of all queries of a family at every tick."""

    name: str
    sizing: Sizing
    queries: pa.Schema
    """The columns of queries, as plans call them."""
    groups: pa.Schema
    """The columns of the groups of all queries."""
    told: pa.Schema
    totals: Totals

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {f"{self.name}.queries": interval_schema(self.queries)}

    def step(self, slab: Slab) -> tuple[Elements, int]:
        """Take a slab; return what is told, and how far back windows reach."""
        queries = self._standing(slab)
        sizes = sizes_of(self.sizing.window, queries.rows)
        reach = int(sizes.max(initial=0)) + 1
        every = self.sizing.every
        ticks = np.arange(-(-slab.begin // every), -(-slab.end // every)) * every
        if not len(ticks) or not len(queries):
            return Elements(empty_rows(self.told), ticks[:0]), reach
        assert slab.past is not None, "a plan that reads elements again is given them"
        stream = self.sizing.stream
        before = slab.past.between(stream, slab.begin - reach, slab.begin)
        numbers, firsts = numbered(queries.rows)
        there = np.stack(
            [_there(numbers, queries, tick, len(firsts)) for tick in ticks.tolist()], axis=1
        )
        windows = take_rows(queries.rows, firsts)
        births = windows.column(f"{QUERIES_AS}.{BIRTH}").to_numpy()
        given, sights = self._given([before, slab.streams[stream]], slab)
        keys = rows_of(
            [values_of(each.value, given, slab) for each in self.sizing.keys],
            self.totals.keys.names,
            len(given),
        )
        found, pieces = SizedTotals(self.totals).told(
            given, keys, sights, Sizes(sizes[firsts], births, there), ticks, slab
        )
        parts = [self._shown(windows, found, each, slab) for each in pieces]
        timed = Timed.concat(parts, self.told)
        return ordered(timed.rows, timed.starts, timed.weights), reach

    def _standing(self, slab: Slab) -> Timed:
        """Return the queries that are there, or come or go in the slab; remember what changes."""
        store, schema = f"{self.name}.queries", interval_schema(self.queries)
        stored = slab.state.of(store, schema, np.array([ONE_KEY]), slab.begin)
        new = changed(slab.tables[QUERIES], QUERIES_AS)
        if slab.state.first:
            keys = np.full(len(new), ONE_KEY)
            slab.state.add(store, interval_rows(new, keys, self.queries))
        both = Timed.concat([intervals_in(stored, self.queries), new], self.queries)
        return consolidated(both, slab.begin)

    def _given(self, parts: list[Elements], slab: Slab) -> tuple[Timed, Ints]:
        """Return what is grouped of elements, and for which birth each is."""
        parts = [plain_elements(each) for each in parts]
        rows = concat_rows([each.rows for each in parts], parts[0].rows.schema)
        times = np.concatenate([each.times for each in parts])
        names = [
            each if each == SEEN_FROM else f"{self.sizing.alias}.{each}"
            for each in rows.schema.names
        ]
        given = Timed(
            rows_of(rows.columns, names, len(times)),
            times,
            np.full(len(times), OPEN),
            np.ones(len(times), np.int64),
        )
        for node in self.sizing.below:
            given = each_row(given, slab, node)
        sights: Ints = given.rows.column(SEEN_FROM).to_numpy()
        return given, sights

    def _shown(
        self, windows: pa.RecordBatch, found: pa.RecordBatch, told: Told, slab: Slab
    ) -> Timed:
        """Return the rows of the groups of all queries that a piece is of, as they are told."""
        of_windows = take_rows(windows, told.windows)
        of_groups = take_rows(found, told.groups)
        columns = {
            **dict(zip(of_windows.schema.names, of_windows.columns, strict=True)),
            **dict(zip(of_groups.schema.names, of_groups.columns, strict=True)),
            **told.answers,
        }
        names, n_rows = self.groups.names, len(told.times)
        rows = rows_of([columns[each] for each in names], names, n_rows)
        ones = np.ones(n_rows, np.int64)
        timed = Timed(rows, told.times, told.times + 1, ones)
        for node in self.sizing.above:
            timed = each_row(timed, slab, node)
        return timed


def _there(numbers: Ints, queries: Timed, tick: int, n_queries: int) -> Bools:
    """Say which queries are there at an instant."""
    counted = np.where(queries.starts <= tick, queries.weights, 0)
    found: Bools = add_by_number(numbers, counted[:, None], n_queries)[:, 0] > 0
    return found
