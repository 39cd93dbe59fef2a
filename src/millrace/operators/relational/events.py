"""Events: where the counts of rows change, and by how much.

    a row in [s, e) with weight w      is      +w at s, and -w at e

Operators whose answer depends on counts (DISTINCT, EXCEPT, groups, streams of changes) work on
events: those of the slab now, those of later when they fall due, out of a store that is read by
time. What the counts were when the slab began is in a second store, read by key.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Hashes, Ints
from millrace.kernels.grouping import add_by_number, net_by_instant, order_by
from millrace.operators.relational.equal import LESSER_BITS, numbered
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.state import state_rows, state_schema
from millrace.operators.relational.timed import OPEN, Timed, concat_rows, rows_of, take_rows

_HASH = pa.field("_hash", pa.uint64())


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Changes of the counts of rows; `changes` has a column for each count."""

    rows: pa.RecordBatch
    hashes: Hashes
    times: Ints
    changes: Ints

    def take(self, at: Ints) -> Events:
        """Return the events at some places."""
        rows = take_rows(self.rows, at)
        return Events(rows, self.hashes[at], self.times[at], self.changes[at])

    def __len__(self) -> int:
        return len(self.times)


def events_of(timed: Timed, changes: Ints, hashes: Hashes) -> Events:
    """Return when rows come and go; `changes` are what each adds to counts while it is there."""
    ending = np.flatnonzero(timed.ends < OPEN)
    at = np.concatenate((np.arange(len(timed)), ending))
    return Events(
        take_rows(timed.rows, at),
        hashes[at],
        np.concatenate((timed.starts, timed.ends[ending])),
        np.concatenate((changes, -changes[ending])),
    )


def joined(parts: list[Events], schema: pa.Schema) -> Events:
    """Put events behind each other."""
    return Events(
        concat_rows([each.rows for each in parts], schema),
        np.concatenate([each.hashes for each in parts]),
        np.concatenate([each.times for each in parts]),
        np.concatenate([each.changes for each in parts]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What happens in a slab to the counts of some rows, and what these were when it began."""

    rows: pa.RecordBatch
    """The different rows: those with events, and all others of the same keys."""
    hashes: Hashes
    base: Ints
    numbers: Ints
    """For each event, which row it is of; events are ordered by that and then by time."""
    times: Ints
    changes: Ints


@dataclass(frozen=True, slots=True)
class Ledger:
    """Two stores: the counts of rows as they are, and the changes that will fall due."""

    name: str
    schema: pa.Schema
    counts: tuple[str, ...]

    @property
    def _stored(self) -> pa.Schema:
        return state_schema(self.schema, *self.counts)

    @property
    def _awaited(self) -> pa.Schema:
        return state_schema(pa.schema([*self.schema, _HASH]), *self.counts)

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {f"{self.name}.due": self._awaited, f"{self.name}.counts": self._stored}

    def due(self, events: Events, slab: Slab) -> Events:
        """Return the events of the slab: new ones, and older ones that fall due in it.

        New events of later are remembered.
        """
        store = f"{self.name}.due"
        later = np.flatnonzero(events.times >= slab.end)
        if len(later):
            slab.state.add(store, self._await(events.take(later)))
            events = events.take(np.flatnonzero(events.times < slab.end))
        rows = slab.state.due(store, self._awaited, slab.begin, slab.end)
        if not rows.num_rows:
            return events
        hashes, times = rows.column(_HASH.name).to_numpy(), rows.column("_time").to_numpy()
        old = Events(self._select(rows), hashes, times, self._counts(rows))
        return joined([old, events], self.schema)

    def _await(self, events: Events) -> pa.RecordBatch:
        """Return events as they are stored until they are due: by bucket, and then by time."""
        columns = [*events.rows.columns, pa.array(events.hashes)]
        names = [*self.schema.names, _HASH.name]
        rows = rows_of(columns, names, len(events))
        changes = [np.ascontiguousarray(each) for each in events.changes.T]
        keys = events.hashes & ~LESSER_BITS
        return state_rows(self._awaited, keys, events.times, rows, *changes)

    def settle(self, events: Events, keys: Hashes, slab: Slab) -> Account:
        """Add up the events of each row and instant, and read the counts of all rows of `keys`.

        From the next slab on the counts are what they are after these events.
        """
        account = self.account(events, keys, slab)
        totals = add_by_number(account.numbers, account.changes, account.rows.num_rows)
        at = np.flatnonzero(totals.any(axis=1))
        self.write(account.hashes[at], take_rows(account.rows, at), totals[at], slab)
        return account

    def write(self, hashes: Hashes, rows: pa.RecordBatch, changes: Ints, slab: Slab) -> None:
        """Change the counts of rows for all slabs to come."""
        forever = np.full(len(hashes), OPEN)
        slab.state.add(f"{self.name}.counts", self._rows(hashes, forever, rows, changes))

    def account(self, events: Events, keys: Hashes, slab: Slab) -> Account:
        """Do what `settle` does, but leave the counts as they are."""
        stored = slab.state.of(f"{self.name}.counts", self._stored, keys, slab.begin)
        n_events = len(events)
        both = concat_rows([events.rows, self._select(stored)], self.schema)
        numbers, firsts = numbered(both)
        rows = take_rows(both, firsts)
        base = add_by_number(numbers[n_events:], self._counts(stored), len(firsts))
        numbers = numbers[:n_events]
        order = order_by(numbers, events.times, len(firsts))
        numbers, times = numbers[order], events.times[order]
        stretches, begins = net_by_instant(numbers, times)
        changes = add_by_number(stretches, events.changes[order], len(begins))
        hashes = np.concatenate((events.hashes, stored.column("_key").to_numpy()))[firsts]
        return Account(rows, hashes, base, numbers[begins], times[begins], changes)

    def standing(self, slab: Slab) -> Events:
        """Return events that change nothing, of all rows that have counts, when a slab begins."""
        rows = slab.state.due(f"{self.name}.counts", self._stored, OPEN, OPEN + 1)
        nothing = np.zeros((rows.num_rows, len(self.counts)), np.int64)
        times = np.full(rows.num_rows, slab.begin)
        return Events(self._select(rows), rows.column("_key").to_numpy(), times, nothing)

    def _rows(
        self, hashes: Hashes, times: Ints, rows: pa.RecordBatch, changes: Ints
    ) -> pa.RecordBatch:
        columns = [np.ascontiguousarray(each) for each in changes.T]
        return state_rows(self._stored, hashes, times, rows, *columns)

    def _select(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        return stored.select(self.schema.names)

    def _counts(self, stored: pa.RecordBatch) -> Ints:
        columns = [stored.column(f"+{each}").to_numpy() for each in self.counts]
        return np.stack(columns, axis=1)
