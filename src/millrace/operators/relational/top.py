"""ORDER BY and LIMIT: the first rows of a relation by an order, told where they change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.grouping import add_by_number, net_by_instant, order_by, running_sums
from millrace.kernels.multisets import first_values
from millrace.operators.relational.entries import Entries, entries_of
from millrace.operators.relational.equal import hashes_of
from millrace.operators.relational.events import RowCounts, events_of
from millrace.operators.relational.ranks import ranked
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.sweep import next_times, stepped
from millrace.operators.relational.timed import OPEN, Timed, take_rows
from millrace.operators.relational.values import Held
from millrace.plan.relations import Order


@dataclass(frozen=True, slots=True)
class TopRows(RowCounts):
    """The first rows by an order, of each value of some columns; ties are in canonical order."""

    order: tuple[Order, ...]
    limit: int
    offset: int
    per: tuple[str, ...]

    def step(self, given: Timed, slab: Slab) -> Timed:
        """Take what is new in the relation."""
        keys = pa.schema([self.schema.field(each) for each in self.per])
        ledger = self._ledger
        hashes = hashes_of(given.rows.select(list(self.per)), self.place)
        events = ledger.due(events_of(given, given.weights[:, None], hashes), slab)
        if not len(events):
            return Timed.empty(self.schema)
        entries = entries_of([events], keys, self.place)
        account = ledger.settle(events, entries.hashes, slab)
        by = ranked(account.rows, self.order, slab)
        held = Held.of(account, entries, keys.names, by)
        return self._told(held, entries)

    def _told(self, held: Held, entries: Entries) -> Timed:
        at, places, copies = first_values(*held.layout, self.offset, self.limit)
        n_values = held.rows.num_rows
        everything = np.arange(len(entries))
        ends = next_times(entries.groups, entries.times, everything)
        before = entries.before[at]
        base = add_by_number(places[before], copies[before][:, None], n_values)
        ending = ends[at] < OPEN
        numbers = np.concatenate((places[~before], places[ending]))
        times = np.concatenate((entries.times[at[~before]], ends[at[ending]]))
        changes = np.concatenate((copies[~before], -copies[ending]))
        order = order_by(numbers, times, n_values)
        stretches, begins = net_by_instant(numbers[order], times[order])
        net = add_by_number(stretches, changes[order][:, None], len(begins))
        numbers, times = numbers[order][begins], times[order][begins]
        weights = running_sums(numbers, net, base)[:, 0]
        found, starts, stops, signed = stepped(numbers, times, weights, base[:, 0])
        return Timed(take_rows(held.rows, numbers[found]), starts, stops, signed)
