"""Answers of queries for which nothing is stored: the rows that were seen are asked again.

A row is an answer of a query that stood when it came. A few queries are evaluated one by one over
whole batches, of which the columns that they name are read; many at once by the index that epochs
use. What a query asks is what it asks now, and that it was paused for a while is not remembered.

Cost: all rows within the window are read for each reading, whatever is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.feeds import FeedSpec
from millrace.engine.policies import LAST_EPOCH, Stretch
from millrace.engine.stores import ASKED
from millrace.index.match import Matcher, Source
from millrace.index.pieces import pieces
from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.operators.select import Function, matching
from millrace.reading.asking import Asking, asking, asking_one, standing
from millrace.reading.gathered import (
    Answers,
    about_history,
    answered,
    epochs_of,
    one_batch,
    rows_between,
)
from millrace.reading.room import Wanted
from millrace.state.manifest import Manifest
from millrace.state.root import Root

ONE_BY_ONE = 8


def answers_found_anew(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qids: Hashes | None,
    stretch: Stretch,
    wanted: Wanted,
    functions: Mapping[str, Function] | None,
) -> Iterator[Answers]:
    """Yield the answers of some queries of a feed, or of all, as stored answers look.

    Rows are asked in bounded parts. What is found takes its room; or if only the last are wanted,
    what is older than those is let go on the way.
    """
    few, newest = qids is not None and qids.size <= ONE_BY_ONE, Newest(wanted.last)
    asked: Sequence[Asking]
    if qids is not None and qids.size == 1:
        asked = asking_one(root, manifest, feed, int(qids[0]), constants=True)
    else:
        asked = list(asking(root, manifest, feed, qids, constants=few))
    sources = () if few else standing(root, manifest, feed.stream)
    last = bool(wanted.last)
    needed = sorted(frozenset().union(*(each.columns for each in asked))) if few else None
    for part in rows_between(root, manifest, feed, wanted.times, needed, newest_first=last):
        kept = _kept(part, stretch)
        rows = part if kept.all() else part.filter(pa.array(kept))
        found = (
            _one_by_one(asked, rows, functions or {})
            if few
            else _together(asked, rows, feed, sources, qids, functions or {})
        )
        for each, owners, mine in found:
            if last:
                late = newest.among(epochs_of(mine))
                yield answered(feed, each, owners[late], one_batch(mine.filter(late)), functions)
            else:
                yield answered(feed, each, owners, one_batch(wanted.room.take(mine)), functions)


def _kept(rows: pa.Table, stretch: Stretch) -> Bools:
    """Say which rows are of some epochs, and not about history, which is there for others."""
    kept = ~about_history(rows)
    if stretch.first or stretch.stop < LAST_EPOCH:
        epochs = epochs_of(rows)
        kept &= (epochs >= stretch.first) & (epochs < stretch.stop)
    return kept


class Newest:
    """Tells which rows may be among the last, of rows that come some at a time; all, if 0."""

    def __init__(self, last: int | None) -> None:
        self._last = last or 0
        self._epochs = np.zeros(0, np.int64)

    def among(self, epochs: Ints) -> Bools:
        """Say which rows of some epochs are not older than the last so far.

        >>> Newest(2).among(np.array([3, 1, 2, 2])).tolist()
        [True, False, True, True]
        """
        known = np.append(self._epochs, epochs)
        if known.size <= self._last or not self._last:
            self._epochs = known
            return np.ones(epochs.size, np.bool_)
        self._epochs = np.partition(known, -self._last)[-self._last :]
        found: Bools = epochs >= self._epochs.min()
        return found


def _one_by_one(
    asked: Sequence[Asking], rows: pa.Table, functions: Mapping[str, Function]
) -> Iterator[tuple[Asking, Hashes, pa.Table]]:
    """Yield the rows of each query by itself, and as often the query."""
    for each in asked:
        for nth in range(each.qids.size):
            found = _matching(each, nth, rows, functions)
            yield each, np.repeat(each.qids[nth], len(found)), found


def _together(
    asked: Sequence[Asking],
    rows: pa.Table,
    feed: FeedSpec,
    sources: Sequence[Source],
    qids: Hashes | None,
    functions: Mapping[str, Function],
) -> Iterator[tuple[Asking, Hashes, pa.Table]]:
    """Yield the rows of queries of a family, and the query of each."""
    places, owners = _matched(feed, rows, sources, functions)
    stood = rows.column(ASKED).to_numpy()[places] > owners
    if qids is not None:
        stood &= np.isin(owners, qids)
    places, owners = places[stood], owners[stood]
    for each in asked:
        mine = np.isin(owners, each.qids)
        yield each, owners[mine], rows.take(pa.array(places[mine]))


def _matching(
    asked: Asking, nth: int, rows: pa.Table, functions: Mapping[str, Function]
) -> pa.Table:
    """Return the rows that one query keeps."""
    assert asked.parameters is not None, "constants were wanted"
    constants = {at: column[nth] for at, column in enumerate(asked.parameters.columns)}
    kept = []
    for batch in rows.to_batches():
        places = matching(asked.selection, batch, functions, constants)
        found = pc.take(batch, places, boundscheck=False)
        stood = found.column(ASKED).to_numpy() > asked.qids[nth]
        kept.append(found if stood.all() else found.filter(pa.array(stood)))
    return pa.Table.from_batches(kept, rows.schema)


def _matched(
    feed: FeedSpec, rows: pa.Table, sources: Sequence[Source], functions: Mapping[str, Function]
) -> tuple[Hashes, Hashes]:
    """Return the places of rows that queries of a feed keep, and the queries."""
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
