"""Answers of queries for which nothing is stored: the rows that were seen are asked again.

A row is an answer of a query that stood when it came. A few queries are evaluated one by one over
whole batches; many at once by the index that epochs use. What a query asks is what it asks now, and
that it was paused for a while is not remembered.

Cost: all rows within the window are read for each reading, whatever is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.engine.policies import Stretch
from millrace.engine.stores import ASKED
from millrace.index.match import Matcher
from millrace.index.pieces import pieces
from millrace.kernels.arrays import Hashes
from millrace.operators.select import Function, matching
from millrace.reading.asking import Asking, asking, standing
from millrace.reading.gathered import (
    Answers,
    about_history,
    answered,
    epochs_of,
    one_batch,
    rows_between,
)
from millrace.state.manifest import Manifest
from millrace.state.root import Root
from millrace.state.run import Range

ONE_BY_ONE = 8


def answers_found_anew(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qids: Hashes | None,
    stretch: Stretch,
    *,
    times: Range,
    functions: Mapping[str, Function] | None,
) -> Iterator[Answers]:
    """Yield the answers of some queries of a feed, or of all, as stored answers look."""
    rows = rows_between(root, manifest, feed, times)
    if rows is None:
        return
    rows = rows.filter(pa.array(~about_history(rows)))  # which is there for others
    epochs = epochs_of(rows)
    rows = rows.filter(pa.array((epochs >= stretch.first) & (epochs < stretch.stop)))
    few = qids is not None and qids.size <= ONE_BY_ONE
    if few:
        for asked in asking(root, manifest, feed, qids, constants=True):
            for nth in range(asked.qids.size):
                found = _matching(asked, nth, rows, functions or {})
                yield answered(
                    feed, asked, np.repeat(asked.qids[nth], len(found)), one_batch(found), functions
                )
        return
    places, owners = _matched(root, manifest, feed, rows, functions or {})
    stood = rows.column(ASKED).to_numpy()[places] > owners
    if qids is not None:
        stood &= np.isin(owners, qids)
    places, owners = places[stood], owners[stood]
    for asked in asking(root, manifest, feed, qids):
        mine = np.isin(owners, asked.qids)
        taken = one_batch(rows.take(pa.array(places[mine])))
        yield answered(feed, asked, owners[mine], taken, functions)


def _matching(
    asked: Asking, nth: int, rows: pa.Table, functions: Mapping[str, Function]
) -> pa.Table:
    """Return the rows that one query keeps."""
    assert asked.parameters is not None, "constants were wanted"
    constants = {at: column[nth] for at, column in enumerate(asked.parameters.columns)}
    kept = []
    for batch in rows.to_batches():
        found = batch.take(matching(asked.selection, batch, functions, constants))
        stood = found.column(ASKED).to_numpy() > asked.qids[nth]
        kept.append(found if stood.all() else found.filter(pa.array(stood)))
    return pa.Table.from_batches(kept, rows.schema)


def _matched(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    rows: pa.Table,
    functions: Mapping[str, Function],
) -> tuple[Hashes, Hashes]:
    """Return the places of rows that queries of a feed keep, and the queries."""
    sources = standing(root, manifest, feed.stream)
    matcher = Matcher(sources, functions)
    wanted = []
    for each in sources:
        mine = np.array([family.feed == feed.name for family in each.run.families])
        wanted.append(mine[each.run.owners(np.arange(each.run.n, dtype=np.int32))])
    places, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
    first = 0
    for batch in rows.to_batches():
        for piece in pieces(batch, matcher.rows_at_once(batch, wanted)):
            for pairs in matcher.pairs(piece, wanted):
                places.append(first + pairs.rows.astype(np.int64))
                owners.append(pairs.run.qids[pairs.slots])
            first += piece.num_rows
    return np.concatenate(places), np.concatenate(owners)
