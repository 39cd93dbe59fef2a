"""GROUP BY: one row for each group at every instant, told where it changes.

Rows that come and go together are added up first: whatever the number of rows, there is one change
for each group, start and end. Counts and sums are kept as they are; for aggregates that look at
single values (min, percentiles, ...) the values of a group are kept, each with how often it is
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools
from millrace.kernels.grouping import firsts_of
from millrace.operators.relational.entries import Entries, entries_of
from millrace.operators.relational.equal import hashes_of, same_values
from millrace.operators.relational.events import Events, still
from millrace.operators.relational.feeds import Fed, Feed, values_of
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.sweep import next_times
from millrace.operators.relational.timed import OPEN, Timed, rows_of, take_rows
from millrace.plan.nodes import Output


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups of equal keys, with the aggregates that feeds keep count of."""

    name: str
    keys: tuple[Output, ...]
    key_schema: pa.Schema
    feeds: tuple[Feed, ...]
    schema: pa.Schema
    place: str | None = None

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {name: schema for each in self.feeds for name, schema in each.stores().items()}

    def step(self, given: Timed, slab: Slab) -> Timed:
        """Take what is new in the relation."""
        keys = self._keys(given, slab)
        fed = [each.take(given, keys, slab) for each in self.feeds]
        events = [part for each in fed for part in each.events()]
        if not self.keys and slab.first and slab.state.first:
            events.append(_beginning(slab))
        if not sum(map(len, events)):
            return Timed.empty(self.schema)
        entries = entries_of(events, self.key_schema, self.place)
        columns, present = self._answers(fed, entries, slab)
        return self._told(entries, columns, present)

    def _keys(self, given: Timed, slab: Slab) -> pa.RecordBatch:
        n_rows = len(given)
        columns = [values_of(each.value, given, slab) for each in self.keys]
        return rows_of(columns, self.key_schema.names, n_rows)

    def _answers(
        self, fed: Sequence[Fed], entries: Entries, slab: Slab
    ) -> tuple[list[pa.Array], Bools]:
        """Return the aggregates at each entry, and whether there is a row at all."""
        answers: dict[str, pa.Array] = {}
        present = np.ones(len(entries), np.bool_)
        for each in fed:
            answers.update(each.answers(entries, slab))
            if each.n_rows is not None and self.keys:
                present = each.n_rows > 0
        if not self.keys:
            present = ~entries.before | (not slab.first)
        keys = take_rows(entries.keys, entries.groups).columns
        names = self.schema.names[len(self.keys) :]
        return [*keys, *(answers[name] for name in names)], present

    def _told(self, entries: Entries, columns: list[pa.Array], present: Bools) -> Timed:
        """Tell the entries at which something is other than before."""
        rows = rows_of(columns, self.schema.names, len(entries))
        other = np.concatenate(([True], present[1:] != present[:-1]))
        both = np.concatenate(([False], present[1:] & present[:-1]))
        shifted = np.maximum(np.arange(len(entries)) - 1, 0)
        for column in rows.columns[len(self.keys) :]:
            other |= both & ~same_values(column, column.take(pa.array(shifted)))
        changed = np.flatnonzero(other & ~entries.before)
        ends = next_times(entries.groups, entries.times, changed)
        shown = present[changed]
        last = entries.begins[entries.groups[changed]]  # how the group stood before
        tails = firsts_of(entries.groups[changed]) & present[last]
        at = np.concatenate((changed[shown], last[tails]))
        return Timed(
            take_rows(rows, at),
            np.concatenate((entries.times[changed[shown]], entries.times[changed[tails]])),
            np.concatenate((ends[shown], np.full(int(tails.sum()), OPEN))),
            np.concatenate((np.ones(int(shown.sum()), np.int64), np.full(int(tails.sum()), -1))),
        )


def _beginning(slab: Slab) -> Events:
    """Return an event that changes nothing, of the only group, when the first slab begins."""
    rows = rows_of([], [], 1)
    return still(rows, hashes_of(rows), slab.begin, 0)
