"""Reading answers that the root keeps: those of one query, or of a whole feed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millrace.connectors.sinks.sink import FanOut
from millrace.engine.feeds import FeedSpec
from millrace.engine.results import shown, stored_rows
from millrace.engine.stores import answer_store, store_specs_of, tells_queries_apart
from millrace.state.manifest import Manifest
from millrace.state.merge import EPOCH, with_epoch
from millrace.state.root import Root


def answers(
    root: Root, manifest: Manifest, feed: FeedSpec, qid: int | None = None, *, first: int = 0
) -> pa.Table:
    """Return the answers of a feed, or of one query in it, from epoch `first` on, oldest first."""
    store = answer_store(feed, "rows")
    state = manifest.stores.get(store)
    runs = [] if state is None else [run for run in state.runs if run.epoch >= first]
    if runs:
        stored = stored_rows(root, runs)
        stored = stored.filter(pc.greater_equal(stored.column(EPOCH), first))
    else:
        return no_answers(feed, "rows")
    if qid is not None:
        stored = stored.filter(pc.equal(stored.column("_key"), pa.scalar(qid, pa.uint64())))
    return shown(stored, several=tells_queries_apart(store))


def no_answers(feed: FeedSpec, fan_out: FanOut) -> pa.Table:
    """Return a table without rows, in the columns in which the answers of a feed are told."""
    store = answer_store(feed, fan_out)
    stored = with_epoch(dict(store_specs_of(feed))[store].schema.empty_table(), 0)
    return shown(stored, several=tells_queries_apart(store))
