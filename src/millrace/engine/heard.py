"""What plans tell, as it is heard: rows, and whose each is; of a family perhaps sets of queries.

What queries of a family tell that go or are paused is not heard. A family that is one join tells a
row once, with the set of its queries; it stays so where answers are stored so, and otherwise
becomes a row for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow.types import is_binary

from millrace.engine.plans import CHANGE
from millrace.engine.stores import BACKFILL
from millrace.kernels.arrays import Hashes, Ints
from millrace.operators.query_sets import packed, rows_of_ids, unpacked
from millrace.operators.relational.slab import Elements
from millrace.operators.relational.timed import take_rows
from millrace.plan.relations import StreamOf


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """Rows at instants, and the ids of their queries: one a row, or as many as `bounds` say."""

    rows: pa.RecordBatch
    times: Ints
    queries: Hashes
    bounds: Ints | None = None

    @classmethod
    def of_one(cls, told: Elements, qid: int) -> Heard:
        """Hear all that one query tells."""
        return cls(told.rows, told.times, np.full(len(told), qid, np.uint64))

    @classmethod
    def of_family(cls, told: Elements, n_columns: int, silent: Ints) -> Heard:
        """Hear a family; whose a row is stands first, the columns that are shown stand last."""
        rows = told.rows.select(told.rows.schema.names[-n_columns:])
        whose = told.rows.column(0)
        if is_binary(whose.type):
            ids, bounds = unpacked(whose)
        else:
            ids, bounds = whose.to_numpy(), None
        every = cls(rows, told.times, ids.view(np.uint64), bounds)
        unheard = np.isin(ids, silent)
        return every.where(np.flatnonzero(~unheard)) if unheard.any() else every

    def where(self, kept: Ints) -> Heard:
        """Return what is told to some of the queries, by their places."""
        if self.bounds is None:
            return Heard(take_rows(self.rows, kept), self.times[kept], self.queries[kept])
        bounds = np.searchsorted(kept, self.bounds)
        at = np.flatnonzero(np.diff(bounds))
        bounds = np.append(bounds[at], len(kept))
        return Heard(take_rows(self.rows, at), self.times[at], self.queries[kept], bounds)

    def since(self, instant: int) -> Heard:
        """Return what is told from an instant on; there is a row for each query."""
        return self.where(np.flatnonzero(self.times >= instant))

    def by_query(self) -> Heard:
        """Return a row for each query."""
        if self.bounds is None:
            return self
        at = rows_of_ids(self.bounds)
        return Heard(take_rows(self.rows, at), self.times[at], self.queries)

    def apart(self) -> Iterator[tuple[int, Heard]]:
        """Yield what each query is told, by its id; there is a row for each query."""
        order = np.argsort(self.queries, kind="stable")
        ids, firsts = np.unique(self.queries[order], return_index=True)
        stops = np.append(firsts[1:], len(order))
        for qid, first, stop in zip(*map(np.ndarray.tolist, (ids, firsts, stops)), strict=False):
            yield qid, self.where(order[first:stop])

    @property
    def keys(self) -> Hashes:
        """The keys under which rows are stored: the query, or nothing for a set of them."""
        return self.queries if self.bounds is None else np.zeros(len(self.times), np.uint64)

    def answers(
        self, answer: pa.Schema, told: StreamOf, past: Ints | int | None = None
    ) -> dict[str, pa.Array]:
        """Return what is heard of a stream as answers are stored, column by column.

        Those are about history that are before the instants `past`, if a feed sees history.
        """
        n_rows = len(self.times)
        columns = {
            "_key": pa.array(self.keys),
            "_time": pa.array(self.times),
            "_late": pa.array(np.zeros(n_rows, np.bool_)),
        }
        if past is not None:
            columns[BACKFILL] = pa.array(self.times < past)
        if CHANGE in answer.names:
            sign = -1 if told.kind == "dstream" else 1
            columns[CHANGE] = pa.array(np.full(n_rows, sign, np.int32))
        for column, wanted in zip(self.rows.columns, shown_fields(answer), strict=True):
            columns[wanted.name] = column.cast(wanted.type)
        return columns

    def sets(self) -> pa.Array:
        """Return the sets of queries, as a column."""
        assert self.bounds is not None, "it is of sets"
        return packed(self.queries, self.bounds)


def shown_fields(answer: pa.Schema) -> list[pa.Field]:
    """Return the columns of answers that the plan computes."""
    return [each for each in answer if each.name != CHANGE]
