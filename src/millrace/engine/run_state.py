"""What a plan remembers, in runs: the stores of its operators, for the keys of one shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Hashes
from millrace.kernels.sorted_keys import distinct
from millrace.operators.keys import BUCKET_BITS
from millrace.operators.relational.equal import LESSER_BITS
from millrace.operators.relational.events import DUE
from millrace.operators.relational.plan import Plan
from millrace.operators.relational.timed import OPEN, empty_rows
from millrace.state.folding import widened
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import read_due, read_keys, read_piece

Range = tuple[int, int]
MOST_LOOKUPS = 1 << 18


@dataclass(slots=True)
class RunState:
    """The stores of one plan in runs, for the keys of one shard."""

    root: Root
    held: Mapping[str, Sequence[Piece]]
    prefix: str
    keys: Range
    added: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def of(self, store: str, schema: pa.Schema, keys: Hashes, after: int) -> pa.RecordBatch:
        """Return the rows of some keys whose time is greater than `after`."""
        pieces = self.held.get(self.prefix + store, ())
        ascending = distinct(keys)
        tables = [read_keys(self.root, piece, ascending, after) for piece in pieces]
        return _batch(tables, schema)

    @property
    def first(self) -> bool:
        """Whether this is the first shard."""
        return self.keys[0] == 0

    def anywhere(self, store: str, schema: pa.Schema, keys: Hashes, after: int) -> pa.RecordBatch:
        """Return the rows of this shard whose key is one of some but for what says the shard.

        A few keys are looked for in each bucket; for many the shard's rows are read once.
        """
        low, high = (each >> (64 - BUCKET_BITS) for each in self.keys)
        rests = distinct(keys & LESSER_BITS)
        if len(rests) * (high - low) <= MOST_LOOKUPS:
            buckets = np.arange(low, high, dtype=np.uint64) << np.uint64(64 - BUCKET_BITS)
            return self.of(store, schema, (buckets[:, None] | rests[None, :]).ravel(), after)
        rows = self.due(store, schema, after + 1, OPEN + 1)
        return rows.filter(pa.array(np.isin(rows.column("_key").to_numpy() & LESSER_BITS, rests)))

    def due(self, store: str, schema: pa.Schema, begin: int, end: int) -> pa.RecordBatch:
        """Return the rows of this shard whose time is in [begin, end)."""
        pieces = self.held.get(self.prefix + store, ())
        read = read_due if store.endswith(DUE) else read_piece
        tables = [
            read(self.root, piece, keys=self.keys, times=(begin, end))
            for piece in pieces
            if piece.min_time < end and piece.max_time >= begin
        ]
        return _batch(tables, schema)

    def add(self, store: str, rows: pa.RecordBatch) -> None:
        """Add rows; they are not read before the next slab."""
        if rows.num_rows:
            self.added.setdefault(self.prefix + store, []).append(rows)

    def joining(self, prefix: str, plan: Plan, end: int) -> RunState:
        """Return what is remembered after a slab as what other stores have to be given.

        That is what belongs to queries and their births: those stores have what is for all.
        """
        found = RunState(self.root, self.held, prefix, self.keys)
        for store, schema in plan.own_stores().items():
            for rows in (
                self.due(store, schema, end, OPEN + 1),
                *self.added.get(self.prefix + store, ()),
            ):
                found.add(store, rows)
        return found


def _batch(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.RecordBatch:
    names = schema.names
    whole = [widened(each, names) for each in tables if each.num_rows]
    if not whole:
        return empty_rows(schema)
    [batch] = pa.concat_tables(whole).combine_chunks().to_batches()
    return batch
