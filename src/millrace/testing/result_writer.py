"""A stand-in for the engine: commits epochs of results and drops what was consumed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from millrace.engine.delivery import Delivery
from millrace.engine.stores import answers_in
from millrace.state.manifest import Delta, Manifest, StoreSpec, apply
from millrace.state.memory_root import MemoryRoot
from millrace.state.order import sort_rows
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import write_runs

SCHEMA = pa.schema(
    [
        ("_key", pa.uint64()),
        ("_time", pa.int64()),
        ("_late", pa.bool_()),
        ("symbol", pa.string()),
        ("price", pa.float64()),
    ]
)


def result_rows(epoch: int, n_rows: int = 5) -> pa.Table:
    """Make the results of an epoch, the same each time, in no order."""
    numbers = range(n_rows)
    columns = {
        "_key": [7] * n_rows,
        "_time": [epoch * 1000 + number * 13 % 5 for number in numbers],
        "_late": [number % 3 == 0 for number in numbers],
        "symbol": [f"S{number * 7 % 4}" for number in numbers],
        "price": [float(epoch * 100 + number) for number in numbers],
    }
    return pa.table(columns, schema=SCHEMA)


@dataclass
class ResultWriter:
    """Commits epochs of results to a root."""

    root: Root = field(default_factory=MemoryRoot)
    manifest: Manifest = field(default_factory=Manifest)

    def commit(self, *queries: str, n_rows: int = 5, n_shards: int = 1) -> Manifest:
        """Commit an epoch in which these queries have rows, spread over some shards."""
        epoch = self.manifest.epoch + 1
        stores = {f"results/{query}.1": query for query in queries}
        created = {
            store: StoreSpec(SCHEMA, queue=True)
            for store in stores
            if store not in self.manifest.stores
        }
        table = result_rows(epoch, n_rows)
        added = {
            store: self._runs(epoch, query, table, n_shards) for store, query in stores.items()
        }
        self.manifest = apply(self.manifest, Delta(epoch, term=0, created=created, added=added))
        return self.manifest

    def drop_consumed(self, delivery: Delivery) -> Manifest:
        """Commit an epoch without rows that drops the runs which no sink needs any more."""
        dropped = {}
        for store, state in self.manifest.stores.items():
            found = answers_in(store)
            assert found is not None, "there are no other stores"
            needed = delivery.consumed(found[1], found[0][0])
            gone = [run.id for run in state.runs if needed is None or run.epoch < needed]
            dropped[store] = tuple(gone)
        delta = Delta(self.manifest.epoch + 1, term=0, dropped=dropped)
        self.manifest = apply(self.manifest, delta)
        return self.manifest

    def _runs(
        self, epoch: int, query: str, table: pa.Table, n_shards: int
    ) -> tuple[tuple[Piece, ...], ...]:
        runs = []
        for shard in range(n_shards):
            part = sort_rows(table.take(list(range(shard, table.num_rows, n_shards))))
            buckets = (shard, shard + 1)
            runs.append(write_runs(self.root, {query: part}, epoch=epoch, buckets=buckets))
        return tuple(tuple(pieces.values()) for pieces in runs)
