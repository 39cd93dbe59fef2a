"""Reading answers that the root keeps: those of one query, or of a whole feed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.feeds import FeedSpec
from millrace.engine.results import shown
from millrace.engine.stores import answer_store, store_specs_of, tells_queries_apart
from millrace.state.manifest import Manifest, Run
from millrace.state.root import Root
from millrace.state.run import read_piece


def answers(
    root: Root, manifest: Manifest, feed: FeedSpec, qid: int | None = None, *, first: int = 0
) -> pa.Table:
    """Return the answers of a feed, or of one query in it, from epoch `first` on, oldest first."""
    store = answer_store(feed, "rows")
    several = tells_queries_apart(store)
    state = manifest.stores.get(store)
    runs = [] if state is None else [run for run in state.runs if run.epoch >= first]
    tables = list(_by_epoch(root, runs, qid, several=several))
    if tables:
        return pa.concat_tables(tables)
    empty = dict(store_specs_of(feed))[store].schema.empty_table()
    return _with_epoch(shown(empty, several=several), 0)


def _by_epoch(root: Root, runs: list[Run], qid: int | None, *, several: bool) -> Iterator[pa.Table]:
    for epoch in sorted({run.epoch for run in runs}):
        mine = [run for run in runs if run.epoch == epoch]
        pieces = [read_piece(root, piece) for run in mine for piece in run.pieces]
        stored = pa.concat_tables(pieces)
        if qid is not None:
            stored = stored.filter(pc.equal(stored.column("_key"), pa.scalar(qid, pa.uint64())))
        yield _with_epoch(shown(stored, several=several), epoch)


def _with_epoch(table: pa.Table, epoch: int) -> pa.Table:
    return table.append_column("_epoch", pa.array(np.full(table.num_rows, epoch, np.int64)))
