"""Answers that were gathered: which rows are a query's answers, and those rows themselves.

    found/   the sets of rows of some queries, by key        a few binary searches in each run
    seen/    the rows of all those sets, by row id           likewise
    what the queries show, computed over their rows          once for all queries of a family

Nothing but the rows that are asked for is read, whatever else the runs hold.

Cost: about 0.1 ms for a query, whatever the runs of the two stores, and less than 1 us a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.engine.policies import LAST_EPOCH, Stretch
from millrace.engine.row_ids import (
    BACKFILL_TASK,
    EPOCH_SHIFT,
    key_of_query,
    query_of_key,
    task_of_row,
)
from millrace.engine.stores import ASKED, BACKFILL
from millrace.errors import StoreError
from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.kernels.mapped import count_of_keys, members_of_keys
from millrace.kernels.sorted_keys import distinct
from millrace.operators.select import Function, outputs
from millrace.reading.asking import Asking, asking, asking_one
from millrace.reading.bounded_pairs import pairs_within
from millrace.reading.room import Wanted
from millrace.state.lookup import FIRST_TIME, LAST_TIME, lookup
from millrace.state.manifest import Manifest, StoreState
from millrace.state.merge import EPOCH
from millrace.state.root import Root
from millrace.state.run import Range, read_piece

ROWS_AT_ONCE = 1 << 18

_EPOCHS = np.uint64(EPOCH_SHIFT)
_LEADING = ("_key", "_time", "_late")
_SETS = ("_key", "block", "n_rows", "_time", "places")
"""The columns of sets, as kernels want them."""

Answers: TypeAlias = dict[str, pa.Array]
"""Answers as they are stored, column by column."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Pairs: the row at `at[i]` of `rows` is an answer of query `qids[i]`; None is at `i`."""

    qids: Hashes
    at: Ints | None
    rows: pa.RecordBatch

    def of(self, qids: Hashes) -> tuple[Hashes, pa.RecordBatch]:
        """Return the pairs of some queries: the query and the row of each."""
        mine = np.isin(self.qids, qids)
        at = np.flatnonzero(mine) if self.at is None else self.at[mine]
        return self.qids[mine], self.rows.take(pa.array(at))

    def all(self) -> tuple[Hashes, pa.RecordBatch]:
        """Return all pairs."""
        rows = self.rows if self.at is None else self.rows.take(pa.array(self.at))
        return self.qids, rows


def gathered_answers(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qids: Hashes | None,
    stretch: Stretch,
    wanted: Wanted,
    functions: Mapping[str, Function] | None,
) -> Iterator[Answers]:
    """Yield the answers of some queries of a feed, or of all, as stored answers look."""
    times = wanted.times
    asked = [] if qids is not None else list(asking(root, manifest, feed))
    ids = np.concatenate([each.qids for each in asked]) if asked else qids
    if ids is None:
        return
    pairs = _bounded(root, manifest, feed, ids, stretch, wanted)
    if pairs is None:
        pairs = paired(root, manifest, feed, ids, stretch.first, times)
        if pairs is not None and stretch.stop < LAST_EPOCH:
            before = pairs[1] < np.uint64(stretch.stop << EPOCH_SHIFT)
            pairs = pairs[0][before], pairs[1][before]
    if pairs is None or not pairs[1].size:
        return
    if qids is not None and qids.size == 1:
        for each in asking_one(root, manifest, feed, int(qids[0])):
            columns = (*_LEADING, *sorted(each.columns))
            mine = distinct(pairs[1])
            rows = _rows(root, manifest, feed, mine, times, columns, shift=EPOCH_SHIFT)
            _hold(rows, wanted)
            yield answered(feed, each, pairs[0][: rows.num_rows], rows, functions)
        return
    if qids is not None:
        asked = list(asking(root, manifest, feed, qids))
    needed = sorted(frozenset().union(*(each.columns for each in asked)))
    found = with_rows(root, manifest, feed, pairs, times, (*_LEADING, *needed))
    for each in asked:
        owners, rows = found.all() if len(asked) == 1 else found.of(each.qids)
        _hold(rows, wanted)
        yield answered(feed, each, owners, rows, functions)


def _hold(rows: pa.RecordBatch, wanted: Wanted) -> None:
    """Let rows take their room, unless only the last of them are wanted."""
    if not wanted.last:
        wanted.room.take(rows)


def _bounded(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qids: Hashes,
    stretch: Stretch,
    wanted: Wanted,
) -> tuple[Hashes, Hashes] | None:
    """Return the pairs in a window if there may be more than there is room for, else None."""
    found, seen = (_store(manifest, feed, kind) for kind in ("found", "seen"))
    left = wanted.room.rows_left
    if left is None or found is None or seen is None:
        return None
    within = replace(wanted, times=within_int64(wanted.times))
    sets = _sets(root, found, qids, stretch.first, wanted.times)
    if count_of_keys(*sets) <= left:
        return None
    return pairs_within(root, (found, seen), qids, stretch, within)


def paired(
    root: Root, manifest: Manifest, feed: FeedSpec, qids: Hashes, first: int, times: Range
) -> tuple[Hashes, Hashes] | None:
    """Find which rows answer queries whose feeds read the same stream and retain as long as `feed`.

    Return the queries and the ids of rows, in epochs from `first` on; their times may be too early.
    """
    store = _store(manifest, feed, "found")
    if store is None or not qids.size:
        return None
    owners, ids = _pairs(root, store, qids, first, times)
    return (owners, ids) if ids.size else None


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
    rows = _rows(root, manifest, feed, distinct(ids), times, columns)
    keys = rows.column(0).to_numpy()
    if keys.size == ids.size and (keys == ids).all():
        return Found(owners, None, rows)
    if not keys.size:
        return Found(owners[:0], np.zeros(0, np.int64), rows)
    at = np.minimum(keys.searchsorted(ids), keys.size - 1)
    there = keys[at] == ids
    return Found(owners[there], at[there], rows)


def answered(
    feed: FeedSpec,
    asked: Asking,
    qids: Hashes,
    batch: pa.RecordBatch,
    functions: Mapping[str, Function] | None,
) -> Answers:
    """Compute what queries show of rows, row i for query `qids[i]`."""
    parameters = asked.parameters if asked.differs else None
    if parameters is not None:
        parameters = parameters.take(pa.array(np.searchsorted(asked.qids, qids)))
    try:
        shown = outputs(asked.selection, batch, feed.answer, functions or {}, parameters)
    except MemoryError:
        raise
    except Exception as cause:
        raise StoreError(
            f'answers of "{feed.name}" cannot be computed',
            detail=f"{type(cause).__name__}: {cause}",
            hint="What a query shows is computed when it is asked; drop it, or mend its functions.",
        ) from cause
    return {
        "_key": pa.array(qids),
        "_time": batch.column("_time"),
        "_late": batch.column("_late"),
        **({} if feed.history is None else {BACKFILL: pa.array(about_history(batch))}),
        **dict(zip(feed.answer.names, shown, strict=True)),
        EPOCH: pa.array(epochs_of(batch)),
    }


def rows_between(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    times: Range,
    columns: Sequence[str] | None = None,
    *,
    newest_first: bool = False,
) -> Iterator[pa.Table]:
    """Yield all rows of a feed's stream that were seen in some times, in bounded parts.

    All columns are read, or some and those that every kept row has.
    """
    names = None if columns is None else (*_LEADING, ASKED, *columns)
    store = _store(manifest, feed, "seen")
    runs = () if store is None else store.runs
    some: list[pa.Table] = []
    for piece in (piece for run in runs[:: -1 if newest_first else 1] for piece in run.pieces):
        if piece.min_time < times[1] and piece.max_time >= times[0]:
            some.append(read_piece(root, piece, times=times, columns=names))
        if sum(each.num_rows for each in some) >= ROWS_AT_ONCE:
            yield pa.concat_tables(some)
            some = []
    if some:
        yield pa.concat_tables(some)


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
    owners, ids = members_of_keys(*_sets(root, store, qids, first, times))
    if first:
        fresh = ids >= np.uint64(first << EPOCH_SHIFT)
        owners, ids = owners[fresh], ids[fresh]
    return query_of_key(owners), ids


def _sets(
    root: Root, store: StoreState, qids: Hashes, first: int, times: Range
) -> tuple[Hashes, Ints, Ints, Hashes, int]:
    """Return where the sets of queries may stand, as kernels take them."""
    keys = key_of_query(qids)
    keys.sort()
    begin, _ = within_int64(times)
    found = lookup(root, store)
    chosen = found.blocks(keys, begin=begin, first=first)
    return found.columns(_SETS, chosen).bases, found.sizes, chosen, keys, begin


def _rows(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    ids: Hashes,
    times: Range,
    columns: tuple[str, ...] | None,
    shift: int | None = None,
) -> pa.RecordBatch:
    """Return the rows of some ids, ascending, in some times; those that expired may be missing.

    With `shift` they are ordered by their epochs, and then by their times.
    """
    store = _store(manifest, feed, "seen")
    assert store is not None, "there are sets of its rows"
    begin, latest = within_int64(times)
    names = columns or tuple(store.schema.names)
    return lookup(root, store).take(ids, names, begin=begin, latest=latest, shift=shift)


def within_int64(times: Range) -> Range:
    """Return the first and the last time of a half-open range, as far as there are such times."""
    return min(max(times[0], FIRST_TIME), LAST_TIME), min(max(times[1] - 1, FIRST_TIME), LAST_TIME)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows of a table in one piece."""
    if not rows.num_rows:
        return pa.RecordBatch.from_pylist([], schema=rows.schema)
    [batch] = rows.combine_chunks().to_batches()
    return batch


def epochs_of(rows: pa.Table | pa.RecordBatch) -> Ints:
    """Return the epoch of each row."""
    epochs: Ints = (rows.column("_key").to_numpy() >> _EPOCHS).astype(np.int64)
    return epochs
