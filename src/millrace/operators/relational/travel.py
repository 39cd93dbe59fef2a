"""Travelling: rows of a relation on their way from shard to shard, between two stages of a plan.

Rows that are equal and come and go together travel as one, with the sum of their weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.operators.keys import hash_columns, shard_of
from millrace.operators.relational.folded import consolidated
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import Timed, rows_of
from millrace.plan.placement import EVERYWHERE, FIRST
from millrace.plan.relations import Hop

_LEADING = ("_start", "_end", "_weight")


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """One hop of a plan: in which stage its rows are made, and whether every shard has them all."""

    name: str
    hop: Hop
    schema: pa.Schema
    stage: int
    everywhere: bool

    def dealt(
        self, given: Timed, slab: Slab, shards: Sequence[int]
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield what goes to each shard; `shards` are the buckets where they begin, and the end."""
        if self.everywhere and not slab.state.first:
            return  # the first shard sends what all have
        timed = consolidated(given, slab.begin)
        if not len(timed):
            return
        table, everyone = _as_table(timed), range(len(shards) - 1)
        if self.hop.to == FIRST:
            yield 0, table
        elif self.hop.to == EVERYWHERE:
            yield from ((shard, table) for shard in everyone)
        else:
            owners = shard_of(hash_columns(timed.rows, [self.hop.to]), shards)
            for shard in everyone:
                mine = table.filter(pa.array(owners == shard))
                if mine.num_rows:
                    yield shard, mine

    def received(self, table: pa.Table | None) -> Timed:
        """Return what has come, from all shards in order."""
        return Timed.empty(self.schema) if table is None else _from_table(table, self.schema)


def _as_table(timed: Timed) -> pa.Table:
    leading = [pa.array(each) for each in (timed.starts, timed.ends, timed.weights)]
    names = [*_LEADING, *timed.rows.schema.names]
    return pa.Table.from_arrays([*leading, *timed.rows.columns], names=names)


def _from_table(table: pa.Table, schema: pa.Schema) -> Timed:
    columns = [_joined(each) for each in table.columns]
    leading = [np.asarray(each) for each in columns[: len(_LEADING)]]
    rows = rows_of(columns[len(_LEADING) :], schema.names, table.num_rows)
    return Timed(rows, *leading)


def _joined(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
