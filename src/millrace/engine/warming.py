"""Warm starts: plans that see history begin in the past, and run until they have caught up.

A plan with a history of h begins h before its birth, which is where its streams were complete when
it was registered. Its slabs are then over what its streams retain, at most so many rows an epoch:

    since                      birth          newest        limit
      │▒▒▒ slab ▒▒│▒▒▒ slab ▒▒│  │▒▒▒ slab ▒▒▒▒▒│▒▒▒▒▒▒▒▒▒▒▒▒▒▒│ ... and as all plans go on
                                                rows that came before its birth end here

What lies before `limit`, where the streams were complete before the epoch, is in the history and
nowhere else. What lies behind it has come since the plan is there, if the limit is beyond the
newest row of then, and waits for it where it waits for all plans. So the first slab that may go
beyond takes both, and the plan is like any other.

It remembers what it needs and reads no elements again, as those of the past are not stored for it.

The plan of a family is warm as others are if it begins with queries that see history. Those that
are born later run beside it (`engine.beside`), over the same rows in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from millrace.engine import facts
from millrace.engine.backfill import times_since
from millrace.engine.beside import Beside, begins_at
from millrace.engine.births import Births
from millrace.engine.catalog import Catalog
from millrace.engine.elements import laid_names
from millrace.engine.feeds import FeedSpec
from millrace.engine.laying import Ranges, laid_out
from millrace.engine.plan_stores import EPOCH, ElementStore
from millrace.engine.progress import frontier
from millrace.engine.stores import rows_store
from millrace.engine.streams import StreamSpec
from millrace.kernels.arrays import Ints
from millrace.operators.keys import hash_columns
from millrace.state.manifest import Manifest
from millrace.state.order import TIME
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import read_piece

Range = tuple[int, int]

WARMING = ("since", "birth", "newest")
"""What is remembered of a plan that is catching up."""


@dataclass(frozen=True, slots=True)
class Warming:
    """How a plan catches up: since when, its birth, the newest row of then; and what comes now.

    `limit` is up to where the history is read at most, and `end` where the slab of the epoch ends;
    None is where all its streams are complete after the epoch.
    """

    since: int
    birth: int
    newest: int
    limit: int
    end: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Spell it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, spelt: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**spelt)


@dataclass(slots=True)
class Warmth:
    """Decides how far plans that see history come in an epoch, and which files that takes."""

    root: Root
    manifest: Manifest
    catalog: Catalog
    most_rows: int
    held: dict[str, tuple[Piece, ...]] = field(default_factory=dict)

    def begin(self, feed: FeedSpec, qid: int) -> int | None:
        """Return where a plan begins that is new and sees history; None for all others."""
        new = qid >= self.manifest.facts.get("asked", 1)
        return begins_at(feed, self.manifest, self.catalog) if new else None

    def decided(
        self, plans: Mapping[str, list[Any]], families: Mapping[str, Births]
    ) -> dict[str, Any]:
        """Return how the plans that are catching up go on, as JSON."""
        known = facts.warming(self.manifest, self.catalog)
        found = {}
        for name, (_, begin, begun) in plans.items():
            feed, births = self.catalog.feeds[name], families.get(name)
            limit = self._limit(feed)
            start = births.first if births is not None and begin is None else begin
            if limit is None or start is None:
                continue
            if name not in known and (begun or start >= limit):
                continue
            spelt = known.get(name, {"since": start})
            if name not in known or (births is not None and births.last > births.added):
                spelt = {**spelt, "birth": limit, "newest": self._newest(feed)}
            found[name] = self._step(feed, start, limit, spelt, final=True)
        return found

    def beside(self, besides: Mapping[str, Beside], warming: Mapping[str, Any]) -> dict[str, Any]:
        """Return how those go on that run beside families, as JSON.

        They join plans that are where their streams are, or will be after the epoch.
        """
        found = {}
        for name, each in besides.items():
            feed, births, start = self.catalog.feeds[name], each.births, each.start
            limit = self._limit(feed)
            if births is not None and limit is not None and start is not None:
                spelt = {"since": start} if each.warming is None else each.warming
                if each.warming is None or births.last > births.added:
                    spelt = {**spelt, "birth": limit, "newest": self._newest(feed)}
                final = name not in warming or warming[name]["end"] is None
                step = self._step(feed, start, limit, spelt, final=final)
                each = replace(each, warming=step)  # noqa: PLW2901
            found[name] = each.to_json()
        return found

    def _limit(self, feed: FeedSpec) -> int | None:
        """Return where the history of a plan ends, if it has one."""
        if feed.history is None:
            return None
        return frontier(feed, facts.watermarks(self.manifest, self.catalog))

    def _step(
        self, feed: FeedSpec, begin: int, limit: int, spelt: Mapping[str, Any], *, final: bool
    ) -> dict[str, Any]:
        """Return how far a plan comes that is at an instant; one that is there goes on as all."""
        end, n_rows = self._end(feed, begin, limit, max(self.most_rows, 1))  # none stands still
        self.most_rows = max(self.most_rows - n_rows, 0)
        final = final and end == limit and limit > spelt["newest"]
        self._hold(feed, begin, end)
        known = {name: spelt[name] for name in WARMING}
        return Warming(**known, limit=limit, end=None if final else end).to_json()

    def _newest(self, feed: FeedSpec) -> int:
        clocks = facts.clocks(self.manifest, self.catalog)
        return max(time for name in feed.sources for time in clocks[name].values())

    def _end(self, feed: FeedSpec, begin: int, limit: int, most: int) -> tuple[int, int]:
        """Return where the slab ends, and how many rows it has; an instant is never divided."""
        stores = [rows_store(self.catalog.streams[name]) for name in feed.sources]
        parts = [times_since(self.root, self.manifest, store, begin) for store in stores]
        times: Ints = np.sort(np.concatenate(parts))
        times = times[times < limit]
        if times.size <= most:
            return limit, times.size
        end = int(times[most])
        if end <= begin:
            later = times[times > begin]
            end = int(later[0]) if later.size else limit
        return end, int(np.searchsorted(times, end))

    def _hold(self, feed: FeedSpec, begin: int, end: int) -> None:
        for name in feed.sources:
            store = rows_store(self.catalog.streams[name])
            state = self.manifest.stores.get(store)
            pieces = [
                piece
                for run in (() if state is None else state.runs)
                for piece in run.pieces
                if piece.min_time < end and piece.max_time >= begin
            ]
            known = self.held.get(store, ())
            self.held[store] = (*known, *(each for each in pieces if each not in known))


def together(*held: Mapping[str, tuple[Piece, ...]]) -> dict[str, tuple[Piece, ...]]:
    """Return the files of several readers; a store may be read by more than one."""
    found: dict[str, tuple[Piece, ...]] = {}
    for each in held:
        for store, pieces in each.items():
            known = found.get(store, ())
            found[store] = (*known, *(piece for piece in pieces if piece not in known))
    return found


def warm_needs(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return, for stores of histories, the time from which on plans that catch up read them."""
    found = dict[str, int]()
    for name, needed, _ in _catching_up(manifest, catalog):
        for stream in catalog.feeds[name].sources:
            store = rows_store(catalog.streams[stream])
            found[store] = min(needed, found.get(store, needed))
    return found


def lagging(manifest: Manifest, catalog: Catalog) -> bool:
    """Say whether a plan that is catching up can go on by itself."""
    marks = facts.watermarks(manifest, catalog)
    for name, _, reached in _catching_up(manifest, catalog):
        limit = frontier(catalog.feeds[name], marks)
        if limit is not None and (reached is None or reached < limit):
            return True
    return False


def _catching_up(manifest: Manifest, catalog: Catalog) -> Iterator[tuple[str, int, int | None]]:
    """Yield the plans that do: the feed, since when they read history, how far they have come."""
    reached = facts.frontiers(manifest, catalog)
    for name, spelt in facts.warming(manifest, catalog).items():
        begin = reached.get(name, spelt["since"])
        yield name, begin, begin
    for name, spelt in facts.besides(manifest, catalog).items():
        beside = Beside.from_json(spelt)
        if beside.needed is not None:
            yield name, beside.needed, beside.begin


def warm_progress(manifest: Manifest, catalog: Catalog, name: str) -> float | None:
    """Return which share of its history a plan has seen; None if that is all.

    Of a family it is that of the queries that have to catch up.
    """
    spelt = facts.warming(manifest, catalog).get(name)
    reached = facts.frontiers(manifest, catalog).get(name)
    beside = facts.besides(manifest, catalog).get(name)
    if beside is not None:
        spelt, reached = beside["warming"], beside["begin"]
        if spelt is None or reached is None:
            return 0.0
    if spelt is None or reached is None:
        return None
    share = (reached - spelt["since"]) / max(spelt["birth"] - spelt["since"], 1)
    return share if share < 1 else None


def past_rows(
    root: Root,
    held: Mapping[str, tuple[Piece, ...]],
    spec: StreamSpec,
    store: ElementStore,
    ranges: Ranges | None,
    keys: Range,
    times: Range,
) -> pa.Table:
    """Return what a stream retains of some times, as the elements of one shard of a plan.

    Those of a stream that no column spreads are in the first shard.
    """
    names = [TIME, *spec.schema.names]
    empty = pa.schema([(TIME, pa.int64()), *spec.schema.to_arrow()]).empty_table()
    elsewhere = store.column is None and keys[0] > 0
    pieces = () if elsewhere else held.get(rows_store(spec), ())
    parts = (read_piece(root, piece, times=times, columns=names).select(names) for piece in pieces)
    table = pa.concat_tables([empty, *parts]).combine_chunks()
    if store.laid is not None and ranges is not None:
        some = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        batch, _ = laid_out(some[0], store.laid, ranges)
        table = pa.Table.from_batches([batch])
    if store.column is not None and table.num_rows:
        [batch] = table.to_batches()
        hashes = hash_columns(batch.drop_columns([TIME]), [store.column])
        mine = (hashes >= np.uint64(keys[0])) & (hashes <= np.uint64(keys[1] - 1))
        table = table.filter(pa.array(mine))
    epochs = pa.array(np.zeros(table.num_rows, np.uint32))
    names = [TIME, EPOCH, *spec.schema.names, *laid_names(store.laid)]
    return table.append_column(EPOCH, epochs).select(names)
