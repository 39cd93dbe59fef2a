"""Results as sinks see them: what a manifest still holds for them, read in canonical order.

The results of a query are a queue store (`stores.results_store`); each run of it belongs to one
epoch. However many shards wrote them, the runs of one query and epoch become one table: the
query's own columns, then `_time`, `_late` and `_epoch`.

Cost: `waiting` looks at each run of the wanted stores once; `read` sorts one epoch's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from millrace.connectors.sinks.sink import Backlog
from millrace.engine.stores import query_of
from millrace.operators.canonical import LEADING, canonical_order
from millrace.schema import TIMESTAMP
from millrace.state.manifest import Manifest, Run
from millrace.state.root import Root
from millrace.state.run import read_piece

Waiting: TypeAlias = Mapping[int, Mapping[str, Sequence[Run]]]
"""The runs that wait: by epoch, ascending; then by query, in the order of the names."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much waits; bytes are those of the runs."""

    n_rows: int = 0
    n_bytes: int = 0


def waiting(manifest: Manifest, queries: Sequence[str] | None, first: int) -> Waiting:
    """Return the results of `queries` (None: of all) in the epochs from `first` on."""
    found: dict[int, dict[str, list[Run]]] = {}
    for query, store in _stores(manifest, queries):
        for run in manifest.stores[store].runs:
            if run.epoch >= first:
                found.setdefault(run.epoch, {}).setdefault(query, []).append(run)
    return dict(sorted(found.items()))


def amount(runs_of_epoch: Mapping[str, Sequence[Run]]) -> Amount:
    """Measure what one epoch holds."""
    pieces = [piece for runs in runs_of_epoch.values() for run in runs for piece in run.pieces]
    return Amount(sum(piece.rows for piece in pieces), sum(piece.bytes for piece in pieces))


def total(held: Waiting) -> Amount:
    """Measure what all epochs hold."""
    amounts = [amount(runs_of_epoch) for runs_of_epoch in held.values()]
    return Amount(sum(each.n_rows for each in amounts), sum(each.n_bytes for each in amounts))


def oldest_beyond(backlog: Backlog, held: Waiting) -> tuple[int, int]:
    """Choose the oldest epochs so that at most half of the limit is left without them.

    Returns the epoch behind them, and their rows. Half, because to drop one epoch at every
    commit would never leave a sink in peace.
    """
    left, n_epochs, n_rows, stop = total(held).n_bytes, len(held), 0, min(held)
    for epoch, runs in held.items():
        if not backlog.exceeded_by(left, n_epochs, share=0.5):
            break
        size = amount(runs)
        left, n_epochs = left - size.n_bytes, n_epochs - 1
        n_rows, stop = n_rows + size.n_rows, epoch + 1
    return stop, n_rows


def read(root: Root, runs: Sequence[Run], epoch: int) -> pa.Table:
    """Read the runs of one query and epoch as the table that its sinks get."""
    pieces = [piece for run in runs for piece in run.pieces]
    stored = pa.concat_tables([read_piece(root, piece) for piece in pieces]).drop_columns("_key")
    ordered = stored.take(canonical_order(stored)).combine_chunks()
    own = [name for name in ordered.column_names if name not in LEADING]
    table = ordered.select([*own, *LEADING])
    at = len(own)
    table = table.set_column(at, pa.field("_time", TIMESTAMP), ordered["_time"].cast(TIMESTAMP))
    return table.append_column("_epoch", pa.array(np.full(table.num_rows, epoch, np.int64)))


def _stores(manifest: Manifest, queries: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Give the wanted queries and their stores; a name that was used again has several."""
    for store in sorted(manifest.stores):
        query = query_of(store)
        if query is not None and (queries is None or query in queries):
            yield query, store
