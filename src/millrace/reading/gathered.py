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
    key_of_query,
    query_of_key,
    task_of_row,
)
from millrace.engine.stores import BACKFILL
from millrace.errors import StoreError
from millrace.kernels.arrays import Bools, Bytes, Hashes, Ints, Ints32
from millrace.kernels.containers import unpack_places
from millrace.kernels.sorted_keys import distinct
from millrace.operators.keys import read_only, text_buffers
from millrace.operators.select import Function, project
from millrace.reading.asking import Asking, asking
from millrace.state.lookup import Block, lookup
from millrace.state.manifest import Manifest, StoreState
from millrace.state.merge import EPOCH
from millrace.state.order import sort_rows
from millrace.state.root import Root
from millrace.state.run import Range, read_piece

_EPOCHS = np.uint64(EPOCH_SHIFT)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Pairs: the row at `at[i]` of `rows` is an answer of query `qids[i]`."""

    qids: Hashes
    at: Ints
    rows: pa.Table

    def of(self, qids: Hashes) -> tuple[Hashes, pa.Table]:
        """Return the pairs of some queries: the query and the row of each."""
        mine = np.isin(self.qids, qids)
        return self.qids[mine], self.rows.take(pa.array(self.at[mine]))

    def all(self) -> tuple[Hashes, pa.Table]:
        """Return all pairs; mostly each row is in one of them, in their order."""
        plain = self.rows.num_rows == self.at.size and bool((np.diff(self.at) == 1).all())
        return self.qids, self.rows if plain else self.rows.take(pa.array(self.at))


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
    asked = [] if qids is not None else list(asking(root, manifest, feed))
    wanted = np.concatenate([each.qids for each in asked]) if asked else qids
    pairs = None if wanted is None else paired(root, manifest, feed, wanted, first, times)
    if pairs is None:
        return
    asked = asked or list(asking(root, manifest, feed, qids))
    needed = sorted(frozenset().union(*(each.columns for each in asked)))
    found = with_rows(root, manifest, feed, pairs, times, ("_key", "_time", "_late", *needed))
    for each in asked:
        owners, rows = found.all() if len(asked) == 1 else found.of(each.qids)
        yield answered(feed, each, owners, rows, functions)


def paired(
    root: Root, manifest: Manifest, feed: FeedSpec, qids: Hashes, first: int, times: Range
) -> tuple[Hashes, Hashes] | None:
    """Find which rows answer queries whose feeds read the same stream and retain as long as `feed`.

    Return the queries and the ids of rows, in epochs from `first` on; their times may be too early.
    """
    store = _store(manifest, feed, "found")
    if store is None or not qids.size:
        return None
    pairs = _pairs(root, store, qids, first, times)
    return pairs if pairs[1].size else None


def with_rows(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    pairs: tuple[Hashes, Hashes],
    times: Range,
    columns: tuple[str, ...] | None = None,
) -> Found:
    """Read the rows of pairs that are within some times; all columns, if none are named."""
    owners, ids = pairs
    store = _store(manifest, feed, "seen")
    assert store is not None, "there are sets of its rows"
    rows = _rows(root, store, distinct(ids), columns or tuple(store.schema.names))
    keys, time = rows.column("_key").to_numpy(), rows.column("_time").to_numpy()
    within = np.append((time >= times[0]) & (time < times[1]), values=False)
    at = keys.searchsorted(ids)
    there = within[at] & (np.append(keys, np.uint64(0))[at] == ids)
    return Found(owners[there], at[there], rows)


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
    store = _store(manifest, feed, "seen")
    found = [
        read_piece(root, piece, times=times)
        for run in (() if store is None else store.runs)
        for piece in run.pieces
        if piece.min_time < times[1] and piece.max_time >= times[0]
    ]
    return pa.concat_tables(found) if found else None


def about_history(rows: pa.Table | pa.RecordBatch) -> Bools:
    """Say which rows were not seen when they came, but when history was answered."""
    found: Bools = task_of_row(rows.column("_key").to_numpy()) == BACKFILL_TASK
    return found


def _store(manifest: Manifest, feed: FeedSpec, kind: str) -> StoreState | None:
    """Return a store of a feed's stream, which is known by the stream's declaration."""
    born = manifest.facts.get("born", {}).get(feed.stream)
    rest = f"/{feed.retain}" if kind == "found" else ""
    return manifest.stores.get(f"{kind}/{feed.stream}.{born}{rest}")


def _pairs(
    root: Root, store: StoreState, qids: Hashes, first: int, times: Range
) -> tuple[Hashes, Hashes]:
    """Return the queries and rows of pairs in epochs from `first` on; times may be earlier."""
    keys = key_of_query(qids)
    keys.sort()
    owning, rows = [], [np.zeros(0, np.uint64)]
    for block, places in lookup(root, store).stretches(keys, begin=times[0], first=first):
        blocks, counts, newest, offsets, data = _sets(block)
        ends = offsets[places.start : places.stop + 1]
        mine = unpack_places(blocks[places], counts[places], ends, data, newest[places], times[0])
        owning.append(block.keys[places.start])
        rows.append(mine)
    ids = np.concatenate(rows)
    sizes = [each.size for each in rows[1:]]
    owners = np.repeat(query_of_key(np.array(owning, np.uint64)), sizes)
    if first:
        fresh = ids >= np.uint64(first << EPOCH_SHIFT)
        owners, ids = owners[fresh], ids[fresh]
    return owners, ids


def _sets(block: Block) -> tuple[Hashes, Ints32, Ints, Ints32, Bytes]:
    """Return columns of sets as arrays: their blocks of rows, sizes, times, offsets and bytes."""
    if "sets" not in block.kept:
        rows = block.rows
        plain = [read_only(rows.column(name).to_numpy()) for name in ("block", "n_rows", "_time")]
        block.kept["sets"] = (*plain, *text_buffers(rows.column("places")))
    sets: tuple[Hashes, Ints32, Ints, Ints32, Bytes] = block.kept["sets"]
    return sets


def _rows(root: Root, store: StoreState, ids: Hashes, columns: tuple[str, ...]) -> pa.Table:
    """Return the rows of some ids, ascending; those that have expired may be missing."""
    fields = [store.schema.field(name) for name in columns]
    return sort_rows(lookup(root, store).take(ids, fields))


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def epochs_of(rows: pa.Table | pa.RecordBatch) -> Ints:
    """Return the epoch of each row."""
    epochs: Ints = (rows.column("_key").to_numpy() >> _EPOCHS).astype(np.int64)
    return epochs
