"""Reading answers that the root keeps: those of one query, or of a whole feed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millrace.connectors.sinks.sink import FanOut
from millrace.engine.feeds import FeedSpec
from millrace.engine.results import shown, stored_rows
from millrace.engine.stores import answer_store, store_specs_of, tells_queries_apart
from millrace.schema import TIMESTAMP
from millrace.state.manifest import Manifest
from millrace.state.merge import EPOCH, with_epoch
from millrace.state.root import Root


def answers(  # noqa: PLR0913  what is asked for may be narrowed in several ways
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None = None,
    *,
    first: int = 0,
    begin: int | None = None,
    end: int | None = None,
    last: int | None = None,
) -> pa.Table:
    """Return the answers of a feed, or of one query in it, from epoch `first` on, oldest first.

    Parameters
    ----------
    begin, end
        Only those whose time is in `[begin, end)`, in us.
    last
        Only so many of the newest.
    """
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
    table = shown(stored, several=tells_queries_apart(store))
    if begin is not None:
        table = table.filter(pc.greater_equal(table["_time"], pa.scalar(begin, TIMESTAMP)))
    if end is not None:
        table = table.filter(pc.less(table["_time"], pa.scalar(end, TIMESTAMP)))
    return table if last is None else table.slice(max(table.num_rows - last, 0))


def no_answers(feed: FeedSpec, fan_out: FanOut) -> pa.Table:
    """Return a table without rows, in the columns in which the answers of a feed are told."""
    store = answer_store(feed, fan_out)
    stored = with_epoch(dict(store_specs_of(feed))[store].schema.empty_table(), 0)
    return shown(stored, several=tells_queries_apart(store))
