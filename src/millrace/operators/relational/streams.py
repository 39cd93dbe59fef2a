"""Relation to stream: what comes, what goes, or all that is there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import pyarrow as pa
from pyarrow.types import is_integer

from millrace.kernels.arrays import Ints
from millrace.kernels.grouping import add_in_order, net_by_instant, order_by, running_sums
from millrace.kernels.sorted_keys import distinct
from millrace.operators.canonical import ordered_by
from millrace.operators.relational.equal import hashes_of, numbered
from millrace.operators.relational.events import RowCounts, events_of, joined
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.sweep import next_times
from millrace.operators.relational.timed import Timed, take_rows

TIME = "_time"


@dataclass(frozen=True, slots=True, eq=False)
class Net:
    """What comes (above 0) and goes (below 0) of each row at an instant, all in all."""

    rows: pa.RecordBatch
    times: Ints
    copies: Ints

    def came(self) -> Elements:
        """Return what comes, as a stream."""
        return ordered(self.rows, self.times, np.maximum(self.copies, 0))

    def went(self) -> Elements:
        """Return what goes, as a stream."""
        return ordered(self.rows, self.times, np.maximum(-self.copies, 0))


@dataclass(frozen=True, slots=True)
class Changes(RowCounts):
    """Adds up what happens to each row of a relation at an instant."""

    def step(self, given: Timed, slab: Slab) -> Net:
        """Take what is new in the relation."""
        hashes = hashes_of(given.rows, self.place)
        events = self._ledger.due(events_of(given, given.weights[:, None], hashes), slab)
        numbers, firsts = numbered(events.rows, events.hashes)
        order = order_by(numbers, events.times, len(firsts))
        stretches, begins = net_by_instant(numbers[order], events.times[order])
        net = add_in_order(stretches, order, events.changes, len(begins))[:, 0]
        at = order[begins][net != 0]
        return Net(take_rows(events.rows, at), events.times[at], net[net != 0])


@dataclass(frozen=True, slots=True)
class Repeating(RowCounts):
    """Tells all of a relation at every instant, or at every multiple of `every`."""

    every: int | None

    def step(self, given: Timed, slab: Slab) -> Elements:
        """Take what is new in the relation."""
        ledger, every = self._ledger, self.every or 1
        hashes = hashes_of(given.rows, self.place)
        events = ledger.due(events_of(given, given.weights[:, None], hashes), slab)
        events = joined([ledger.standing(slab), events], self.schema)
        account = ledger.settle(events, distinct(events.hashes), slab)
        counts = running_sums(account.numbers, account.changes, account.base)[:, 0]
        places = np.arange(len(counts))
        ends = np.minimum(next_times(account.numbers, account.times, places), slab.end)
        first = -(-account.times // every)
        n_ticks = np.where(counts > 0, np.maximum(-(-ends // every) - first, 0), 0)
        at = np.repeat(places, n_ticks)
        begins = np.cumsum(n_ticks) - n_ticks
        ticks = (first[at] + np.arange(len(at)) - begins[at]) * every
        return ordered(take_rows(account.rows, account.numbers[at]), ticks, counts[at])


def ordered(rows: pa.RecordBatch, times: Ints, copies: Ints) -> Elements:
    """Return copies of rows in order of time, and at one instant in canonical order."""
    if (copies != 1).any():
        at = np.repeat(np.arange(len(copies)), copies)
        rows, times = take_rows(rows, at), times[at]
    columns = [pa.array(times), *rows.columns]
    table = pa.table(columns, names=[TIME, *rows.schema.names])
    numbers = takewhile(lambda name: _whole(table.column(name)), rows.schema.names)
    table = ordered_by(table, [TIME, *numbers])  # which the canonical order begins with, too
    batches = table.combine_chunks().to_batches()
    if not batches:
        return Elements(rows, times)
    return Elements(batches[0].select(rows.schema.names), batches[0].column(TIME).to_numpy())


def _whole(column: pa.ChunkedArray) -> bool:
    """Say whether a column is of whole numbers alone."""
    return not column.null_count and is_integer(column.type)
