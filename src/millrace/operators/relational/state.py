"""What operators remember from one slab to the next: rows in stores, which only ever grow.

An operator never changes what it stored. It adds rows, and rows that cancel others; reading adds
up. So a store is a set of sorted runs, and whoever merges runs may fold them: rows that are equal
but for their *counts* become one, whose counts are the sums, and vanish if those are zero.

    _key    a hash: equal keys are found together, and decide about the shard
    _time   the instant from which on the row is of no use to anybody
    ...     the row
    +n      columns whose names begin with a plus sign are counts

A store is read by keys, or by the time when rows fall due.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Hashes
from millrace.operators.relational.equal import LESSER_BITS
from millrace.operators.relational.timed import OPEN, empty_rows

KEY, TIME, COUNT = "_key", "_time", "+"


class State(Protocol):
    """The stores of one plan, as they were before a slab, and what the slab adds to them.

    Of several shards, the `first` remembers what all of them have.
    """

    @property
    def first(self) -> bool:
        """Whether this is the first shard."""
        ...

    def of(self, store: str, schema: pa.Schema, keys: Hashes, after: int) -> pa.RecordBatch:
        """Return the rows of some keys whose time is greater than `after`."""
        ...

    def anywhere(self, store: str, schema: pa.Schema, keys: Hashes, after: int) -> pa.RecordBatch:
        """Return the rows of this shard whose key is one of some but for what says the shard."""
        ...

    def due(self, store: str, schema: pa.Schema, begin: int, end: int) -> pa.RecordBatch:
        """Return the rows of this shard whose time is in [begin, end)."""
        ...

    def add(self, store: str, rows: pa.RecordBatch) -> None:
        """Add rows; they are not read before the next slab."""
        ...


@dataclass
class MemoryState:
    """Stores in memory, which several shards may have in common; `keys` are those of this one."""

    stores: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    keys: tuple[int, int] = (0, 1 << 64)
    added: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def of(self, store: str, schema: pa.Schema, keys: Hashes, after: int) -> pa.RecordBatch:
        """Return the rows of some keys whose time is greater than `after`."""
        rows = self._all(store, schema)
        times = rows.column(TIME).to_numpy()
        mask = np.isin(rows.column(KEY).to_numpy(), keys) & (times > after)
        return rows.filter(pa.array(mask))

    @property
    def first(self) -> bool:
        """Whether this is the first shard."""
        return self.keys[0] == 0

    def anywhere(self, store: str, schema: pa.Schema, keys: Hashes, after: int) -> pa.RecordBatch:
        """Return the rows of this shard whose key is one of some but for what says the shard."""
        rows = self.due(store, schema, after + 1, OPEN + 1)
        rests = rows.column(KEY).to_numpy() & LESSER_BITS
        return rows.filter(pa.array(np.isin(rests, keys & LESSER_BITS)))

    def due(self, store: str, schema: pa.Schema, begin: int, end: int) -> pa.RecordBatch:
        """Return the rows of this shard whose time is in [begin, end)."""
        rows = self._all(store, schema)
        times, keys = rows.column(TIME).to_numpy(), rows.column(KEY).to_numpy()
        mine = (keys >= np.uint64(self.keys[0])) & (keys <= np.uint64(self.keys[1] - 1))
        return rows.filter(pa.array(mine & (times >= begin) & (times <= end - 1)))

    def add(self, store: str, rows: pa.RecordBatch) -> None:
        """Add rows; they are not read before the next slab."""
        if rows.num_rows:
            self.added.setdefault(store, []).append(rows)

    def settle(self, frontier: int) -> None:
        """End a slab: what it added is there from now on, and what is of no use is forgotten."""
        for store, parts in self.added.items():
            self.stores.setdefault(store, []).extend(parts)
        self.added.clear()
        for store, parts in self.stores.items():
            kept = [
                each.filter(pa.array(each.column(TIME).to_numpy() > frontier - 1)) for each in parts
            ]
            self.stores[store] = [each for each in kept if each.num_rows]

    def _all(self, store: str, schema: pa.Schema) -> pa.RecordBatch:
        parts = self.stores.get(store, [])
        if not parts:
            return empty_rows(schema)
        table = pa.Table.from_batches(parts).combine_chunks()
        return table.to_batches()[0]


def state_schema(rows: pa.Schema, *counts: str) -> pa.Schema:
    """Return the columns of a store of such rows with some counts."""
    leading = [pa.field(KEY, pa.uint64()), pa.field(TIME, pa.int64())]
    return pa.schema([*leading, *rows, *(pa.field(f"+{each}", pa.int64()) for each in counts)])


def state_rows(
    schema: pa.Schema,
    keys: Hashes,
    times: np.ndarray,
    rows: pa.RecordBatch,
    *counts: np.ndarray,
) -> pa.RecordBatch:
    """Return rows as they are stored."""
    columns = [pa.array(keys), pa.array(times), *rows.columns, *(pa.array(each) for each in counts)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
