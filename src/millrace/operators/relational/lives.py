"""Lives: from when to when each query of a family is there, as it is remembered from slab to slab.

Queries come and go by changes of their table; some are told ahead of time, such as that a query is
of age. They are remembered as they come; those of a query that has gone cancel each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.kernels.grouping import add_by_number, net_by_instant, order_by, running_sums
from millrace.operators.relational.equal import ONE_KEY, hashes_of, numbered
from millrace.operators.relational.intervals import interval_rows, interval_schema, intervals_in
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.sweep import next_times
from millrace.operators.relational.timed import OPEN, Timed, rows_of, take_rows


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """Queries, each with its row of parameters, and when it is there: [start, stop)."""

    rows: pa.RecordBatch
    starts: Ints
    stops: Ints

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Remembered:
    """Remembers the queries of a family; all shards have all of them, or each those of a column."""

    name: str
    queries: pa.Schema
    place: str | None

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {self.name: interval_schema(self.queries)}

    def step(self, new: Timed, slab: Slab) -> Lives:
        """Take what changes in the table of queries; return those that are there in the slab."""
        stored = intervals_in(self._stored(slab), self.queries)
        both = Timed.concat([stored, new], self.queries)
        numbers, firsts = numbered(both.rows)
        self._add(new, slab)
        self._forget(stored, both, numbers, slab)
        order = order_by(numbers, both.starts, len(firsts))
        stretches, begins = net_by_instant(numbers[order], both.starts[order])
        changes = add_by_number(stretches, both.weights[order][:, None], len(begins))
        at = order[begins]
        counts = running_sums(numbers[at], changes, np.zeros((len(firsts), 1), np.int64))[:, 0]
        stops = next_times(numbers[at], both.starts[at], np.arange(len(at)))
        there = (counts > 0) & (stops > slab.begin - 1) & (both.starts[at] < slab.end)
        some = at[there]
        return Lives(take_rows(both.rows, some), both.starts[some], stops[there])

    def _stored(self, slab: Slab) -> pa.RecordBatch:
        schema = interval_schema(self.queries)
        if self.place is None:
            return slab.state.of(self.name, schema, np.array([ONE_KEY]), slab.begin)
        return slab.state.due(self.name, schema, slab.begin + 1, OPEN + 1)

    def _add(self, timed: Timed, slab: Slab) -> None:
        """Remember changes; of those that all shards have the first does."""
        if not len(timed) or (self.place is None and not slab.state.first):
            return
        keys = np.full(len(timed), ONE_KEY)
        if self.place is not None:
            keys = hashes_of(timed.rows, self.place)
        slab.state.add(self.name, interval_rows(timed, keys, self.queries))

    def _forget(self, stored: Timed, both: Timed, numbers: Ints, slab: Slab) -> None:
        """Take back the changes of queries that have come and gone before the slab."""
        mine = numbers[: len(stored)]
        left = np.zeros(int(numbers.max(initial=-1)) + 1, np.bool_)
        left[add_by_number(numbers, both.weights[:, None], len(left))[:, 0] > 0] = True
        left[numbers[both.starts >= slab.begin]] = True
        gone = stored.take(np.flatnonzero(~left[mine]))
        marked = rows_of([*gone.rows.columns, pa.array(gone.starts)], [*self.queries.names, ""],
                         len(gone))  # fmt: skip
        equal, firsts = numbered(marked)
        weights = add_by_number(equal, gone.weights[:, None], len(firsts))[:, 0]
        again = gone.take(firsts)
        back = Timed(again.rows, again.starts, again.ends, -weights)
        self._add(back.where(weights != 0), slab)
