"""Fanning out: the new answers of many subscribers, read in one pass.

Whoever serves thousands of subscribers asks once for each epoch. Queries whose answers were
gathered in the same stores are looked up together, whatever their feeds, and those that show the
same of a row are computed together; each subscriber then gets a slice.

Cost: about 20 us for each subscriber that has new answers, and nothing for one that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.engine.policies import stretches
from millrace.engine.results import shown
from millrace.engine.stores import answer_store
from millrace.kernels.arrays import Hashes
from millrace.operators.select import Function
from millrace.reading.asking import Asking, asking
from millrace.reading.changes import changes
from millrace.reading.gathered import Found, answered, paired, with_rows
from millrace.reading.window import times_of
from millrace.state.manifest import Manifest
from millrace.state.root import Root

Subscriber = tuple[str, int]
"""The name of a feed, and the id of a query in it."""


def changes_of(
    root: Root,
    manifest: Manifest,
    subscribers: Iterable[tuple[FeedSpec, int]],
    after: int,
    *,
    functions: Mapping[str, Function] | None = None,
) -> dict[Subscriber, pa.Table]:
    """Return the answers of the epochs after a cursor, of those subscribers that have any.

    Each table is what `changes` returns for the subscriber alone.
    """
    together: dict[tuple[str, int | None], list[tuple[FeedSpec, int]]] = {}
    found: dict[Subscriber, pa.Table] = {}
    for feed, qid in subscribers:
        kept = {each.policy for each in stretches(manifest, feed, after + 1)}
        if kept == {"lazy"}:
            together.setdefault((feed.stream, feed.retain), []).append((feed, qid))
        elif kept != {"eager"} or _told_after(manifest, feed, after):
            table, _ = changes(root, manifest, feed, qid, after, functions=functions)
            if table.num_rows:
                found[feed.name, qid] = table
    for some in together.values():
        found.update(_gathered(root, manifest, some, after, functions))
    return found


def _told_after(manifest: Manifest, feed: FeedSpec, after: int) -> bool:
    """Say whether a feed has rows of its own that are newer than an epoch."""
    state = manifest.stores.get(answer_store(feed, "rows"))
    return state is not None and any(run.epoch > after for run in state.runs[-1:])


def _gathered(
    root: Root,
    manifest: Manifest,
    subscribers: Sequence[tuple[FeedSpec, int]],
    after: int,
    functions: Mapping[str, Function] | None,
) -> Iterator[tuple[Subscriber, pa.Table]]:
    """Yield the new answers of subscribers whose answers are in the same stores."""
    feed = subscribers[0][0]
    qids = np.unique(np.array([qid for _, qid in subscribers], np.uint64))
    times = times_of(manifest, feed)
    pairs = paired(root, manifest, feed, qids, after + 1, times)
    if pairs is None:
        return
    found = with_rows(root, manifest, feed, pairs, times)
    feeds = {each.name: each for each, _ in subscribers}
    asked: dict[tuple[str, str, bool], list[Asking]] = {}
    for each in asking(root, manifest, feed, np.unique(found.qids)):
        if each.feed in feeds:
            mine = feeds[each.feed]
            place = each.alike, str(mine.answer), mine.history is None
            asked.setdefault(place, []).append(each)
    for some in asked.values():
        yield from _parted(some, found, feeds, functions)


def _parted(
    some: Sequence[Asking],
    found: Found,
    feeds: Mapping[str, FeedSpec],
    functions: Mapping[str, Function] | None,
) -> Iterator[tuple[Subscriber, pa.Table]]:
    """Compute what queries show that show the same, and part it by query."""
    owners = {int(qid): each.feed for each in some for qid in each.qids.tolist()}
    qids: Hashes = np.array(sorted(owners), np.uint64)
    whole = some[0] if len(some) == 1 else replace(some[0], qids=qids, parameters=None)
    queries, rows = found.of(qids)
    answers = answered(feeds[some[0].feed], whole, queries, rows, functions)
    table = shown(pa.table(answers), several=True)
    order = np.argsort(table.column("_query").to_numpy(), kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    plain = table.drop_columns(["_query"])
    mine, firsts = np.unique(table.column("_query").to_numpy(), return_index=True)
    bounds = [*firsts.tolist(), table.num_rows]
    for nth, qid in enumerate(mine.tolist()):
        feed = feeds[owners[qid]]
        rows = (table if feed.shared else plain).slice(bounds[nth], bounds[nth + 1] - bounds[nth])
        yield (feed.name, qid), rows
