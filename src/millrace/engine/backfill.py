"""Backfill: queries that see history catch up with their stream, slice by slice, and then go live.

Queries that were registered together with a history are a *cohort*. It has a cursor, `at`: rows of
earlier times have been answered. In each epoch the cohort that waits longest goes on over as many
rows as the settings allow, and whoever stands where the slice is goes with it:

    time of the stream     since        at    slice    watermark    newest
                             │ answered  │▒▒▒▒▒▒▒▒│        │  .  . .  │
                                                           └ rows may still come here

A slice ends at the watermark at the latest: what lies before it is complete. When little is left,
the last slice takes all of it, also what lies behind the watermark; those rows have come in epochs
before, and from this epoch on the queries answer what comes. Until then punctual rows that come are
not answered for them: they enter the history. Late ones are answered at once, as they never do.

Invariant: a punctual row with a time from `since` on is answered once, in a slice if it came
before the epoch in which its query goes live, else when it comes. What is sliced is decided and
logged, with the files that are read, so a replay reads the same.

Cost: an epoch reads the times of all rows that are left, 8 bytes each, to find the end of a slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.population import Population
from millrace.engine.stores import rows_store
from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.state.manifest import Manifest
from millrace.state.merge import LAST_TIME
from millrace.state.order import TIME
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.store import scan_unsorted

Ranges = tuple[tuple[int, int], ...]
"""Ids of queries, as half-open ranges, ascending."""


@dataclass(frozen=True, slots=True)
class Cohort:
    """Queries that catch up together: since which time, how far they are, where they began."""

    epoch: int
    queries: Ranges
    since: int
    at: int
    birth: int

    @property
    def progress(self) -> float:
        """Which share of the history before its birth has been answered."""
        whole = self.birth - self.since
        return min(max((self.at - self.since) / whole, 0.0), 1.0) if whole > 0 else 0.0

    @classmethod
    def from_json(cls, spelt: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` spelt."""
        return cls(**{**spelt, "queries": _ranges(spelt["queries"])})


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of time [begin, end) whose rows are answered for some queries."""

    begin: int
    end: int
    queries: Ranges


@dataclass(frozen=True, slots=True)
class Backfill:
    """What one epoch does about the history of one stream.

    `behind` are the queries that punctual rows of the epoch are not answered for, `after` the
    cohorts that are left.
    """

    slices: tuple[Slice, ...] = ()
    behind: Ranges = ()
    after: tuple[Cohort, ...] = ()
    store: str = ""

    def to_json(self) -> dict[str, Any]:
        """Spell it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, spelt: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            tuple(Slice(each["begin"], each["end"], _ranges(each["queries"]))
                  for each in spelt["slices"]),
            _ranges(spelt["behind"]),
            tuple(map(Cohort.from_json, spelt["after"])),
            spelt["store"],
        )  # fmt: skip


@dataclass(slots=True)
class Deciding:
    """Decides what an epoch does about histories, and which files that takes."""

    root: Root
    manifest: Manifest
    catalog: Catalog
    population: Population
    most_rows: int
    held: dict[str, tuple[Piece, ...]] = field(default_factory=dict)

    def decided(self) -> dict[str, Any]:
        """Return what to do, by stream, as JSON; `held` then says which files are read."""
        known = cohorts(self.manifest, self.catalog)
        fresh = self._fresh()
        found = {}
        for stream in sorted({*known, *fresh}):
            waiting = [*known.get(stream, ()), *fresh.get(stream, ())]
            standing = [each for each in waiting if self._stands(each)]
            if standing:
                found[stream] = self._step(stream, standing).to_json()
        return found

    def _fresh(self) -> dict[str, list[Cohort]]:
        """Return the cohorts of queries that are new; one without a past goes live at once."""
        asked = self.manifest.facts.get("asked", 1)
        if self.catalog.next_qid <= asked or not self.catalog.historic:
            return {}
        marks, found = facts.watermarks(self.manifest, self.catalog), dict[str, list[Cohort]]()
        epoch, next_qid = self.manifest.epoch + 1, self.catalog.next_qid
        for stream, mark in marks.items():
            retain = self.catalog.streams[stream].retain or 0
            for family, qids in self.population.newcomers(stream, asked, next_qid):
                known = self.catalog.families.get(family)
                feed = None if known is None else self.catalog.feeds.get(known.feed)
                if feed is None or feed.history is None or feed.plan is not None:
                    continue
                since = mark - (min(feed.history, retain) if feed.partial else feed.history)
                cohort = Cohort(epoch, ranges_of(qids), since, since, mark)
                found.setdefault(stream, []).append(cohort)
        return {stream: _together(some) for stream, some in found.items()}

    def _stands(self, cohort: Cohort) -> bool:
        qids = np.concatenate([np.arange(*each, dtype=np.uint64) for each in cohort.queries])
        return self.population.missing(qids).size < qids.size

    def _step(self, stream: str, waiting: list[Cohort]) -> Backfill:
        """Let the first cohort go on, and with it those that are where it comes by."""
        spec = self.catalog.streams[stream]
        store, low = rows_store(spec), waiting[0].at
        mark = facts.watermarks(self.manifest, self.catalog)[stream]
        high = self._end(store, low, mark)
        cuts = sorted({low, high} | {each.at for each in waiting if low < each.at < high})
        slices = [
            Slice(begin, end, _union(each.queries for each in waiting if low <= each.at <= begin))
            for begin, end in pairwise(cuts)
        ]
        moved = [each for each in waiting if low <= each.at < high]
        after = [replace(each, at=high) if each in moved else each for each in waiting]
        left = tuple(each for each in after if each.at < LAST_TIME)
        state = self.manifest.stores.get(store)
        runs = () if state is None else state.runs
        self.held[store] = tuple(
            piece
            for run in runs
            for piece in run.pieces
            if piece.min_time < high and piece.max_time >= low
        )
        behind = _union(each.queries for each in left)
        return Backfill(tuple(slices), behind, left, store)

    def _end(self, store: str, low: int, mark: int) -> int:
        """Return where the slice that begins at `low` ends; an instant is never divided."""
        if low >= mark:
            return LAST_TIME
        times = times_since(self.root, self.manifest, store, low)
        if times.size <= self.most_rows:
            return LAST_TIME
        times.partition(self.most_rows)
        high = int(times[self.most_rows])
        if high <= low:
            later = times[times > low]
            high = int(later.min()) if later.size else mark
        return min(high, mark)


def times_since(root: Root, manifest: Manifest, store: str, low: int) -> Ints:
    """Return the times of a history's rows from an instant on, in no order."""
    state, none = manifest.stores.get(store), np.zeros(0, np.int64)
    if state is None:
        return none
    parts = scan_unsorted(root, state, times=(low, LAST_TIME), columns=[TIME])
    found: Ints = np.concatenate([none, *(each.column(TIME).to_numpy() for each in parts)])
    return found


def cohorts(manifest: Manifest, catalog: Catalog) -> dict[str, list[Cohort]]:
    """Return the cohorts that are catching up, by stream, those first that wait longest."""
    found = facts.backfills(manifest, catalog)
    return {stream: [Cohort.from_json(each) for each in some] for stream, some in found.items()}


def needed_since(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return, for stores of histories, the time from which on rows are still to be answered."""
    return {
        rows_store(catalog.streams[stream]): min(each.at for each in some)
        for stream, some in cohorts(manifest, catalog).items()
        if some
    }


def progress_of(manifest: Manifest, catalog: Catalog, stream: str, qid: int) -> float | None:
    """Return which share of its history a query has answered; None if it is live."""
    for each in cohorts(manifest, catalog).get(stream, ()):
        if any(first <= qid < stop for first, stop in each.queries):
            return each.progress
    return None


def n_catching_up(some: Iterable[Cohort], qids: Hashes) -> int:
    """Count those of some queries that are in cohorts."""
    return sum(int(members(each.queries, qids).sum()) for each in some)


def behind(spelt: Mapping[str, Any], stream: str) -> Ranges:
    """Return the queries that punctual rows of an epoch are not answered for."""
    return Backfill.from_json(spelt[stream]).behind if stream in spelt else ()


def members(ranges: Ranges, qids: Hashes) -> Bools:
    """Say which ids lie in some ranges."""
    bounds = np.array([bound for each in ranges for bound in each], np.uint64)
    found: Bools = np.searchsorted(bounds, qids, side="right") % 2 == 1
    return found


def ranges_of(qids: Hashes) -> Ranges:
    """Return ascending ids as ranges.

    >>> ranges_of(np.array([3, 4, 5, 9], np.uint64))
    ((3, 6), (9, 10))
    """
    ids = qids.astype(np.int64)
    breaks = np.flatnonzero(np.diff(ids) > 1)
    firsts = ids[np.concatenate(([0], breaks + 1))]
    lasts = ids[np.concatenate((breaks, [ids.size - 1]))]
    return tuple(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _ranges(spelt: Iterable[Sequence[int]]) -> Ranges:
    return tuple((first, stop) for first, stop in spelt)


def _union(some: Iterable[Ranges]) -> Ranges:
    """Return all ids of some ranges, none of which overlap."""
    found: list[tuple[int, int]] = []
    for first, stop in sorted(each for ranges in some for each in ranges):
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((first, stop))
    return tuple(found)


def _together(some: list[Cohort]) -> list[Cohort]:
    """Return cohorts of which those that begin at the same time are one."""
    found: dict[int, Cohort] = {}
    for each in some:
        known = found.get(each.since)
        queries = each.queries if known is None else _union((known.queries, each.queries))
        found[each.since] = replace(each, queries=queries)
    return list(_by_since(found))


def _by_since(found: Mapping[int, Cohort]) -> Iterator[Cohort]:
    for since in sorted(found):
        yield found[since]
