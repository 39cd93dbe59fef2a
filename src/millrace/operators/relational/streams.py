"""Relation to stream: what comes, what goes, or all that is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.kernels.grouping import add_by_number, net_by_instant, order_by, running_sums
from millrace.operators.canonical import ordered_by
from millrace.operators.relational.equal import hashes_of, numbered
from millrace.operators.relational.events import Events, Ledger, events_of, joined
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.sweep import next_times
from millrace.operators.relational.timed import Timed, take_rows
from millrace.plan.relations import StreamKind

TIME = "_time"


@dataclass(frozen=True, slots=True)
class Telling:
    """Makes a stream of a relation; of what is told at one instant the order is canonical."""

    name: str
    schema: pa.Schema
    kind: StreamKind
    every: int | None
    place: str | None = None

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self.name, self.schema, ("n",))

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return self._ledger.stores()

    def step(self, given: Timed, slab: Slab) -> Elements:
        """Take what is new in the relation."""
        ledger = self._ledger
        hashes = hashes_of(given.rows, self.place)
        events = ledger.due(events_of(given, given.weights[:, None], hashes), slab)
        if self.kind == "rstream":
            return self._all(ledger, joined([ledger.standing(slab), events], self.schema), slab)
        numbers, firsts = numbered(events.rows, events.hashes)
        order = order_by(numbers, events.times, len(firsts))
        stretches, begins = net_by_instant(numbers[order], events.times[order])
        net = add_by_number(stretches, events.changes[order], len(begins))[:, 0]
        copies = np.maximum(net if self.kind == "istream" else -net, 0)
        at = order[begins]
        return self._ordered(take_rows(events.rows, at), events.times[at], copies)

    def _all(self, ledger: Ledger, events: Events, slab: Slab) -> Elements:
        """Repeat each row at every instant in which it is there."""
        every = self.every or 1
        account = ledger.settle(events, np.unique(events.hashes), slab)
        counts = running_sums(account.numbers, account.changes, account.base)[:, 0]
        places = np.arange(len(counts))
        ends = np.minimum(next_times(account.numbers, account.times, places), slab.end)
        first = -(-account.times // every)
        n_ticks = np.where(counts > 0, np.maximum(-(-ends // every) - first, 0), 0)
        at = np.repeat(places, n_ticks)
        begins = np.cumsum(n_ticks) - n_ticks
        ticks = (first[at] + np.arange(len(at)) - begins[at]) * every
        return self._ordered(take_rows(account.rows, account.numbers[at]), ticks, counts[at])

    def _ordered(self, rows: pa.RecordBatch, times: Ints, copies: Ints) -> Elements:
        at = np.repeat(np.arange(len(copies)), copies)
        rows, times = take_rows(rows, at), times[at]
        table = pa.table({TIME: pa.array(times)})
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            table = table.append_column(f"{name}", column)
        table = ordered_by(table, [TIME]).combine_chunks()
        batches = table.to_batches()
        if not batches:
            return Elements(rows, times)
        batch = batches[0]
        return Elements(batch.select(rows.schema.names), batch.column(TIME).to_numpy())
