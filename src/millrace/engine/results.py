"""Results as sinks see them: what a manifest still holds for them, read in canonical order.

The results of a query are a queue store (`stores.results_store`); each run of it belongs to one
epoch. However many shards wrote them, the runs of one query and epoch become one table: the
query's own columns, then `_time`, `_late` and `_epoch`. A query that was dropped and declared
anew with other columns has two stores, and for a while perhaps two tables.

Cost: `waiting` looks at each run of the wanted stores once, and once for each manifest at the
names of all stores; `read` sorts one epoch's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from millrace.connectors.sinks.sink import Backlog
from millrace.engine.stores import query_of
from millrace.operators.canonical import LEADING, canonical_order
from millrace.schema import TIMESTAMP
from millrace.state.manifest import Manifest, Run, StoreState
from millrace.state.root import Root
from millrace.state.run import read_piece


@dataclass(frozen=True, slots=True)
class Answer:
    """The runs of one query and epoch; all have the same columns."""

    query: str
    runs: tuple[Run, ...]


Waiting: TypeAlias = Mapping[int, Sequence[Answer]]
"""What waits, by epoch, ascending; within an epoch in the order of the queries' names."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much waits; bytes are those of the runs."""

    n_rows: int = 0
    n_bytes: int = 0


def waiting(manifest: Manifest, queries: Sequence[str] | None, first: int) -> Waiting:
    """Return the results of `queries` (None: of all) in the epochs from `first` on."""
    queues = _queues(manifest)
    found: dict[int, list[Answer]] = {}
    for query in sorted(queues if queries is None else queries):
        for alike in queues.get(query, ()):
            runs = (run for store in alike for run in store.runs if run.epoch >= first)
            for epoch, group in groupby(sorted(runs, key=_epoch), key=_epoch):
                found.setdefault(epoch, []).append(Answer(query, tuple(group)))
    return dict(sorted(found.items()))


def amount(answers: Sequence[Answer]) -> Amount:
    """Measure what one epoch holds."""
    pieces = [piece for each in answers for run in each.runs for piece in run.pieces]
    return Amount(sum(piece.rows for piece in pieces), sum(piece.bytes for piece in pieces))


def total(held: Waiting) -> Amount:
    """Measure what all epochs hold."""
    amounts = [amount(answers) for answers in held.values()]
    return Amount(sum(each.n_rows for each in amounts), sum(each.n_bytes for each in amounts))


def oldest_beyond(backlog: Backlog, held: Waiting) -> tuple[int, int]:
    """Choose the oldest epochs so that at most half of the limit is left without them.

    Returns the epoch behind them, and their rows. Half, because to drop one epoch at every
    commit would never leave a sink in peace.
    """
    left, n_epochs, n_rows, stop = total(held).n_bytes, len(held), 0, min(held)
    for epoch, answers in held.items():
        if not backlog.exceeded_by(left, n_epochs, share=0.5):
            break
        size = amount(answers)
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


def _epoch(run: Run) -> int:
    return run.epoch


@lru_cache(maxsize=2)  # a manifest never changes, and every sink asks for the same one
def _queues(manifest: Manifest) -> dict[str, list[list[StoreState]]]:
    """Find the stores of each query's results; those with the same columns are together."""
    queues: dict[str, list[list[StoreState]]] = {}
    for name in sorted(manifest.stores):
        query, store = query_of(name), manifest.stores[name]
        if query is None:
            continue
        groups = queues.setdefault(query, [])
        alike = next((group for group in groups if group[0].schema == store.schema), None)
        if alike is None:
            groups.append([store])
        else:
            alike.append(store)
    return queues
