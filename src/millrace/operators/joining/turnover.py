"""Turnover: which of the queries that are prepared have gone, and which others have come.

It is told by those who know the change; or it is found by comparing queries that are prepared with
those that stand now, whatever there was in between. Comparing takes about a microsecond a query.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from millrace.kernels.arrays import Ints
from millrace.operators.joining.queries import BORN, Queries
from millrace.operators.relational.equal import numbered
from millrace.operators.relational.timed import concat_rows, rows_of, take_rows
from millrace.plan.levels import QUERY


@dataclass(frozen=True, slots=True, eq=False)
class Turnover:
    """The places of queries that have gone, ascending, and the rows of those that have come."""

    gone: Ints
    come: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.gone) + int(self.come.num_rows)


def told(before: Queries, gone: pa.RecordBatch, come: pa.RecordBatch) -> Turnover | None:
    """Return what was told as rows; None if that is not of these queries."""
    ids, born = (gone.column(each).to_numpy() for each in (QUERY, BORN))
    places, order = np.flatnonzero(np.isin(before.ids, ids)), np.argsort(ids)
    mine = places[np.argsort(before.ids[places])]
    known = np.array_equal(before.ids[mine], ids[order])
    known = known and np.array_equal(before.born[mine], born[order])
    return Turnover(places, come) if known else None


def compared(before: Queries, now: pa.RecordBatch) -> Turnover:
    """Return what is not the same, down to the bits of numbers, in queries that stand now."""
    known, n_before = before.rows, len(before)
    both = concat_rows([known, now.select(known.schema.names)], known.schema)
    columns = [_bits(each) for each in both.columns]
    numbers, firsts = numbered(rows_of(columns, known.schema.names, both.num_rows))
    old, new = numbers[:n_before], numbers[n_before:]
    here, there = (np.bincount(each, minlength=len(firsts)) > 0 for each in (old, new))
    return Turnover(np.flatnonzero(~there[old]), take_rows(now, np.flatnonzero(~here[new])))


def _bits(column: pa.Array) -> pa.Array:
    """Return a column in which 0.0 and -0.0 differ."""
    if kinds.is_float64(column.type):
        return column.view(pa.int64())
    return column.view(pa.int32()) if kinds.is_float32(column.type) else column
