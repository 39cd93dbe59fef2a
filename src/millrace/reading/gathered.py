"""Answers that were gathered: which rows are a query's answers, and those rows themselves.

    found/   the sets of rows of some queries, by key        a few binary searches in each run
    seen/    the rows of all those sets, by row id           likewise
    what the queries show, computed over their rows          once for all queries of a family

Nothing but the rows that are asked for is read, whatever else the runs hold.

Cost: about 0.1 ms for each run of the two stores, and 1 us a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.engine.row_ids import (
    BACKFILL_TASK,
    EPOCH_SHIFT,
    PLACE_BITS,
    epoch_of_block,
    key_of_query,
    query_of_key,
    task_of_row,
)
from millrace.engine.stores import ASKED, BACKFILL
from millrace.errors import StoreError
from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.kernels.containers import unpack_places
from millrace.kernels.sorted_keys import distinct
from millrace.operators.keys import read_only, text_buffers
from millrace.operators.select import Function, project
from millrace.reading.asking import Asking, asking
from millrace.reading.window import FIRST_TIME
from millrace.state.manifest import Manifest, StoreState
from millrace.state.merge import EPOCH
from millrace.state.order import sort_rows
from millrace.state.root import Root
from millrace.state.run import Range, read_keys, read_piece

_PLACES = np.uint64(PLACE_BITS)
_EPOCHS = np.uint64(EPOCH_SHIFT)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Pairs: row `rows[i]` is an answer of query `qids[i]`."""

    qids: Hashes
    rows: Hashes

    def where(self, chosen: Bools) -> Found:
        """Choose some of the pairs."""
        return Found(self.qids[chosen], self.rows[chosen])


def gathered_answers(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qids: Hashes | None,
    *,
    first: int,
    times: Range,
    functions: Mapping[str, Function] | None,
) -> Iterator[pa.Table]:
    """Yield the answers of some queries of a feed, or of all, as stored answers look."""
    asked = list(asking(root, manifest, feed, qids))
    if not asked:
        return
    wanted = np.concatenate([each.qids for each in asked])
    found = _found(root, _stores(manifest, feed, "found"), wanted, first, times)
    if not found.rows.size:
        return
    rows = _rows(root, _stores(manifest, feed, "seen"), distinct(found.rows))
    ids = rows.column("_key").to_numpy()
    at = np.searchsorted(ids, found.rows)
    time = rows.column("_time").to_numpy()
    there = np.append(ids, ~np.uint64(0))[at] == found.rows
    within = np.append((time >= times[0]) & (time < times[1]), values=False)
    found, at = found.where(there & within[at]), at[there & within[at]]
    for each in asked:
        mine = slice(None) if len(asked) == 1 else np.isin(found.qids, each.qids)
        yield answered(feed, each, found.qids[mine], rows.take(pa.array(at[mine])), functions)


def answered(
    feed: FeedSpec,
    asked: Asking,
    qids: Hashes,
    rows: pa.Table,
    functions: Mapping[str, Function] | None,
) -> pa.Table:
    """Compute what queries show of rows, row i for query `qids[i]`."""
    parameters = asked.parameters
    if parameters is not None:
        parameters = parameters.take(pa.array(np.searchsorted(asked.qids, qids)))
    batch = _one_batch(rows)
    try:
        shown = project(asked.selection, batch, feed.answer, functions or {}, parameters)
    except MemoryError:
        raise
    except Exception as cause:
        raise StoreError(
            f'answers of "{feed.name}" cannot be computed',
            detail=f"{type(cause).__name__}: {cause}",
            hint="What a query shows is computed when it is asked; drop it, or mend its functions.",
        ) from cause
    return pa.table(
        {
            "_key": pa.array(qids),
            "_time": batch.column("_time"),
            "_late": batch.column("_late"),
            **({} if feed.history is None else {BACKFILL: pa.array(about_history(batch))}),
            **dict(zip(feed.answer.names, shown.columns, strict=True)),
            EPOCH: pa.array(epochs_of(batch)),
        }
    )


def rows_between(root: Root, manifest: Manifest, feed: FeedSpec, times: Range) -> pa.Table | None:
    """Return all rows of a feed's stream that were seen in some times, None if there are none."""
    found = [
        read_piece(root, piece, times=times)
        for store in _stores(manifest, feed, "seen")
        for run in store.runs
        for piece in run.pieces
        if piece.min_time < times[1] and piece.max_time >= times[0]
    ]
    return pa.concat_tables(found) if found else None


def about_history(rows: pa.Table | pa.RecordBatch) -> Bools:
    """Say which rows were not seen when they came, but when history was answered."""
    found: Bools = task_of_row(rows.column("_key").to_numpy()) == BACKFILL_TASK
    return found


def _stores(manifest: Manifest, feed: FeedSpec, kind: str) -> list[StoreState]:
    """Return the stores of a feed's stream; a store is known by the stream's declaration."""
    born = manifest.facts.get("born", {}).get(feed.stream)
    rest = f"/{feed.retain}" if kind == "found" else ""
    state = manifest.stores.get(f"{kind}/{feed.stream}.{born}{rest}")
    return [] if state is None else [state]


def _found(root: Root, stores: list[StoreState], qids: Hashes, first: int, times: Range) -> Found:
    """Return the pairs of some queries in epochs from `first` on; times may be before `times`."""
    keys = np.sort(key_of_query(qids))
    whole = [
        read_keys(root, piece, keys, max(times[0] - 1, FIRST_TIME))
        for store in stores
        for run in store.runs
        if run.epoch >= first
        for piece in run.pieces
        if piece.max_time >= times[0]
        and piece.low[0] <= int(keys[-1])
        and piece.high[0] >= int(keys[0])
    ]
    found, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for table in whole:
        for batch in table.to_batches():
            sets = batch
            if first:
                epochs = epoch_of_block(batch.column("block").to_numpy())
                sets = batch.filter(pa.array(epochs >= np.uint64(first)))
            counts = sets.column("n_rows").to_numpy()
            bases = sets.column("block").to_numpy() << _PLACES
            packed = text_buffers(sets.column("places"))
            rows.append(unpack_places(read_only(bases), read_only(counts), *packed))
            found.append(np.repeat(query_of_key(sets.column("_key").to_numpy()), counts))
    return Found(np.concatenate(found), np.concatenate(rows))


def _rows(root: Root, stores: list[StoreState], ids: Hashes) -> pa.Table:
    """Return the rows of some ids, ascending; those that have expired may be missing."""
    found = [
        read_keys(root, piece, ids, FIRST_TIME)
        for store in stores
        for run in store.runs
        for piece in run.pieces
        if piece.low[0] <= int(ids[-1]) and piece.high[0] >= int(ids[0])
    ]
    empty = [store.schema.empty_table() for store in stores]
    return sort_rows(pa.concat_tables([*empty, *found])).drop_columns([ASKED])


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def epochs_of(rows: pa.Table | pa.RecordBatch) -> Ints:
    """Return the epoch of each row."""
    epochs: Ints = (rows.column("_key").to_numpy() >> _EPOCHS).astype(np.int64)
    return epochs
