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

from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.kernels.grouping import add_by_number, add_in_order, net_by_instant, order_by
from millrace.operators.relational.equal import LESSER_BITS, numbered
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.state import state_rows, state_schema
from millrace.operators.relational.timed import OPEN, Timed, concat_rows, rows_of, take_rows

DUE = ".due"
"""What the names of stores end with that are read by time."""
_WITH = (pa.field("_hash", pa.uint64()), pa.field("_end", pa.int64()))


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Changes of the counts of rows; `changes` has a column for each count.

    A change is taken back at its end, which may be `OPEN`.
    """

    rows: pa.RecordBatch
    hashes: Hashes
    times: Ints
    changes: Ints
    ends: Ints

    def take(self, at: Ints) -> Events:
        """Return the events at some places."""
        rows = take_rows(self.rows, at)
        return Events(rows, self.hashes[at], self.times[at], self.changes[at], self.ends[at])

    def where(self, mask: Bools) -> Events:
        """Return the events for which `mask` is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def taken_back(self) -> Events:
        """Return the events by which these are taken back."""
        some = self.where(self.ends < OPEN)
        if not len(some):
            return some
        forever = np.full(len(some), OPEN)
        return Events(some.rows, some.hashes, some.ends, -some.changes, forever)

    def __len__(self) -> int:
        return len(self.times)


def events_of(timed: Timed, changes: Ints, hashes: Hashes) -> Events:
    """Return when rows come and go; `changes` are what each adds to counts while it is there."""
    return Events(timed.rows, hashes, timed.starts, changes, timed.ends)


def still(rows: pa.RecordBatch, hashes: Hashes, at: int, n_counts: int) -> Events:
    """Return events that change nothing, at one instant."""
    n_rows = rows.num_rows
    nothing = np.zeros((n_rows, n_counts), np.int64)
    return Events(rows, hashes, np.full(n_rows, at), nothing, np.full(n_rows, OPEN))


def joined(parts: list[Events], schema: pa.Schema) -> Events:
    """Put events behind each other."""
    parts = [each for each in parts if len(each)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return Events(
        concat_rows([each.rows for each in parts], schema),
        np.concatenate([each.hashes for each in parts]),
        np.concatenate([each.times for each in parts]),
        np.concatenate([each.changes for each in parts]),
        np.concatenate([each.ends for each in parts]),
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
        return state_schema(pa.schema([*self.schema, *_WITH]), *self.counts)

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {f"{self.name}{DUE}": self._awaited, f"{self.name}.counts": self._stored}

    def due(self, events: Events, slab: Slab) -> Events:
        """Return what happens in the slab: by new events, and by older ones that fall due in it.

        What will happen later is remembered, once: what takes an event back is made of it when
        it has happened.
        """
        store = f"{self.name}{DUE}"
        stored = slab.state.due(store, self._awaited, slab.begin, slab.end)
        later = events.where(events.times >= slab.end)
        now = events.where(events.times < slab.end)
        if stored.num_rows:
            now = joined([self._due_now(stored), now], self.schema)
        back = now.taken_back()
        later = joined([later, back.where(back.times >= slab.end)], self.schema)
        if len(later):
            slab.state.add(store, self._await(later))
        return joined([now, back.where(back.times < slab.end)], self.schema)

    def _due_now(self, stored: pa.RecordBatch) -> Events:
        hashes, ends = (stored.column(each.name).to_numpy() for each in _WITH)
        times = stored.column("_time").to_numpy()
        return Events(self._select(stored), hashes, times, self._counts(stored), ends)

    def _await(self, events: Events) -> pa.RecordBatch:
        """Return events as they are stored until they are due: by bucket, and then by time."""
        columns = [*events.rows.columns, pa.array(events.hashes), pa.array(events.ends)]
        names = [*self.schema.names, *(each.name for each in _WITH)]
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
        changes = add_in_order(stretches, order, events.changes, len(begins))
        hashes = np.concatenate((events.hashes, stored.column("_key").to_numpy()))[firsts]
        return Account(rows, hashes, base, numbers[begins], times[begins], changes)

    def standing(self, slab: Slab) -> Events:
        """Return events that change nothing, of all rows that have counts, when a slab begins."""
        rows = slab.state.due(f"{self.name}.counts", self._stored, OPEN, OPEN + 1)
        hashes = rows.column("_key").to_numpy()
        return still(self._select(rows), hashes, slab.begin, len(self.counts))

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


@dataclass(frozen=True, slots=True)
class RowCounts:
    """An operator that keeps count of how often each row of a relation is there."""

    name: str
    schema: pa.Schema
    place: str | None

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self.name, self.schema, ("n",))

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return self._ledger.stores()
