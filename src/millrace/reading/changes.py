"""Cursors: what has come since a reader was last here, or that it was away for too long.

A cursor is the number of the last epoch that was seen. Whoever comes back with it gets all answers
of later epochs, once; if some of them are not kept any more, it is told, and from where on it can
go on without a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.engine.policies import LAST_EPOCH, stretches
from millrace.engine.retention import horizon_of, last_expired
from millrace.engine.stores import answer_store
from millrace.errors import LostAnswersError, PlanError
from millrace.operators.select import Function
from millrace.reading.answers import kept_answers
from millrace.reading.room import Wanted
from millrace.reading.window import EVERYTHING, times_of
from millrace.state.manifest import Manifest
from millrace.state.root import Root
from millrace.time import print_duration


def changes(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None,
    after: int,
    *,
    until: int | None = None,
    functions: Mapping[str, Function] | None = None,
) -> tuple[pa.Table, int]:
    """Return the answers of the epochs after a cursor, and the cursor behind them.

    If there are many epochs, some may be read at a time, those up to `until`.

    Raises
    ------
    LostAnswersError
        If some of them are no longer kept; it names the oldest cursor that is.
    """
    require_cursor(manifest, feed, after)
    # What plans tell has no least time; that some of it has gone is known when its run is dropped.
    times = times_of(manifest, feed) if feed.plan is None else EVERYTHING
    last = manifest.epoch if until is None else min(until, manifest.epoch)
    stop = LAST_EPOCH if last == manifest.epoch else last + 1
    epochs = {"first": after + 1, "stop": stop}
    table = kept_answers(root, manifest, feed, qid, Wanted(times), **epochs, functions=functions)
    return table, last


def oldest_cursor(manifest: Manifest, feed: FeedSpec) -> int:
    """Return the least cursor with which a reader misses nothing."""
    if feed.plan is None and feed.retain is not None:
        horizon = horizon_of(feed, manifest.facts.get("watermarks", {}))
        kinds = ("spans",) if feed.history is None else ("spans", "past_spans")
        spans = [manifest.facts.get(kind, {}).get(feed.stream, ()) for kind in kinds]
        gone = last_expired(chain.from_iterable(spans), horizon)
        return -1 if gone is None else gone
    gone = None
    if feed.found_anew:
        horizon = horizon_of(feed, manifest.facts.get("watermarks", {}))
        spans = manifest.facts.get("told_spans", {}).get(str(feed.number), ())
        gone = last_expired(spans, horizon)
    state = manifest.stores.get(answer_store(feed, "rows"))
    dropped = -1
    if state is not None and {"eager"} & {each.policy for each in stretches(manifest, feed)}:
        dropped = state.dropped_epoch
    return dropped if gone is None else max(dropped, gone)


def require_cursor(manifest: Manifest, feed: FeedSpec, after: int) -> None:
    """Refuse to go on behind a gap: a reader that is slow, or was away, is to know of it."""
    oldest = oldest_cursor(manifest, feed)
    if oldest > after:
        kept = f"{feed.keep:,} rows" if feed.retain is None else print_duration(feed.retain)
        raise LostAnswersError(
            f'answers of "{feed.name}" after epoch {after} are no longer kept',
            detail=f"Those up to epoch {oldest} have made room for newer ones; {kept} are kept.",
            hint=f"Go on with changes(after={oldest}), keep more, or attach a sink, which misses "
            "none.",
            oldest=oldest,
        )


def require_kept(feed: FeedSpec) -> None:
    """Refuse to follow a feed of which nothing is kept."""
    if not feed.kept:
        raise PlanError(
            f'no answers of "{feed.name}" are kept',
            hint="Declare it with keep=10_000, or so, or retain='1 hour'; or attach a sink, which "
            "misses none.",
        )
