"""Reading answers that the root keeps: those of one query, or of a whole feed, in any window."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from millrace.connectors.sinks.sink import FanOut
from millrace.engine.feeds import FeedSpec
from millrace.engine.results import shown
from millrace.engine.stores import answer_store, store_specs_of, tells_queries_apart
from millrace.operators.select import Function
from millrace.reading.window import EVERYTHING, Instant, times_of
from millrace.state.manifest import Manifest
from millrace.state.merge import EPOCH, with_epoch
from millrace.state.root import Root
from millrace.state.run import Range, read_piece


def answers(  # noqa: PLR0913  a window has as many words as in SQL
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None = None,
    *,
    first: int = 0,
    begin: Instant | None = None,
    end: Instant | None = None,
    last: int | None = None,
    functions: Mapping[str, Function] | None = None,
) -> pa.Table:
    """Return the answers of a feed, or of one query in it, oldest first.

    Parameters
    ----------
    first
        The epoch from which on they are wanted.
    begin, end
        The window of their times, half-open; see `reading.window`.
    last
        How many of the newest are wanted.
    functions
        The registered functions, if answers are computed when they are read.
    """
    times = times_of(manifest, feed, begin, end)
    table = kept_answers(root, manifest, feed, qid, first=first, times=times, functions=functions)
    return table if last is None else table.slice(max(table.num_rows - last, 0))


def kept_answers(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None,
    *,
    first: int,
    times: Range,
    functions: Mapping[str, Function] | None,
) -> pa.Table:
    """Return the answers of some times, in whatever way they are kept."""
    return stored_answers(root, manifest, feed, qid, first=first, times=times)


def stored_answers(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None,
    *,
    first: int,
    times: Range = EVERYTHING,
) -> pa.Table:
    """Return answers that are stored as rows of their own."""
    store = answer_store(feed, "rows")
    state = manifest.stores.get(store)
    keys = None if qid is None else (qid, qid + 1)
    tables = [
        with_epoch(read_piece(root, piece, keys=keys, times=times), run.epoch)
        for run in (() if state is None else state.runs)
        if run.epoch >= first
        for piece in run.pieces
        if piece.min_time < times[1] and piece.max_time >= times[0]
    ]
    if not tables:
        return no_answers(feed, "rows")
    stored = pa.concat_tables(tables)
    stored = stored.filter(pc.greater_equal(stored.column(EPOCH), first))
    return shown(stored, several=tells_queries_apart(store))


def no_answers(feed: FeedSpec, fan_out: FanOut) -> pa.Table:
    """Return a table without rows, in the columns in which the answers of a feed are told."""
    store = answer_store(feed, fan_out)
    stored = with_epoch(dict(store_specs_of(feed))[store].schema.empty_table(), 0)
    return shown(stored, several=tells_queries_apart(store))
