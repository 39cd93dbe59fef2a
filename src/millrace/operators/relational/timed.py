"""Weighted intervals: the form in which relations travel between operators.

    a row, s, e, w      the row is in the relation w times at every instant from s on, before e

What a relation holds at an instant is the sum over all its intervals. An end that is not known
yet is `OPEN`; when it becomes known, a *tail* takes the row away again: the same row from there on,
with the opposite weight.

    price 10   [5, OPEN)  +1        came at 5
    price 10   [9, OPEN)  -1        and turned out to end at 9

So the sum of what an operator has told never has to be taken back, and for every instant before
the frontier it is final, however the input was cut into batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints

OPEN = 2**63 - 1
"""The end that is not known."""
NEVER = -(2**63)
"""An instant before all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """Rows of a relation, with the interval and the weight of each."""

    rows: pa.RecordBatch
    starts: Ints
    ends: Ints
    weights: Ints

    @classmethod
    def empty(cls, schema: pa.Schema) -> Self:
        """Return no rows of these columns."""
        none = np.zeros(0, np.int64)
        return cls(empty_rows(schema), none, none, none)

    @classmethod
    def concat(cls, parts: Sequence[Timed], schema: pa.Schema) -> Self:
        """Put rows of the same columns behind each other."""
        parts = [each for each in parts if len(each)]
        if not parts:
            return cls.empty(schema)
        return cls(
            concat_rows([each.rows for each in parts], schema),
            np.concatenate([each.starts for each in parts]),
            np.concatenate([each.ends for each in parts]),
            np.concatenate([each.weights for each in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, at: Ints) -> Timed:
        """Return the rows at some places."""
        rows = take_rows(self.rows, at)
        return Timed(rows, self.starts[at], self.ends[at], self.weights[at])

    def where(self, mask: Bools) -> Timed:
        """Return the rows for which `mask` is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def with_rows(self, rows: pa.RecordBatch) -> Timed:
        """Return other rows at the same instants."""
        return Timed(rows, self.starts, self.ends, self.weights)


def empty_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)


def rows_of(columns: Sequence[pa.Array], names: Sequence[str], n_rows: int) -> pa.RecordBatch:
    """Return a batch of columns; one without columns has rows nevertheless."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns), names=list(names))
    marked = pa.RecordBatch.from_arrays([pa.nulls(n_rows)], names=["_"])
    return marked.select([])


def take_rows(rows: pa.RecordBatch, at: Ints) -> pa.RecordBatch:
    """Return the rows at some places."""
    places = pa.array(at)
    columns = [each.take(places) for each in rows.columns]
    return rows_of(columns, rows.schema.names, len(at))


def concat_rows(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Put rows of the same columns behind each other."""
    if len(parts) == 1:
        return parts[0]
    n_rows = sum(each.num_rows for each in parts)
    columns = [
        pa.concat_arrays([each.column(at) for each in parts]) for at in range(len(schema.names))
    ]
    return rows_of(columns, schema.names, n_rows)
