"""Fan-out: what a commit brought is read once, and told to everybody who waits for it.

    commit ─► answers of each feed that somebody follows ─► rows by query ─► subscribers' queues

A subscriber that does not keep up, so that its queue is full, is detached and told its cursor; it
may come back with it. Nobody waits for a subscriber: not the others, and least of all the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.feeds import FeedSpec
from millrace.engine.stores import answer_store
from millrace.reading.answers import answers
from millrace.reading.changes import oldest_cursor
from millrace.reading.fan_out import changes_of
from millrace.reading.reader import Reader
from millrace.server.cursors import Cursor, GoneError
from millrace.server.json_rows import json_rows
from millrace.state.manifest import Manifest
from millrace.state.root import Root
from millrace.time import print_duration

Followed = tuple[FeedSpec, set[int | None]]
"""A feed, and those of its queries that somebody follows; None is all of them."""
Spelt = dict[int | None, list[dict[str, Any]]]
"""Rows as JSON, by query."""

MOST_QUEUED = 256
MOST_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Event:
    """Rows of one query, and where a subscriber is behind them."""

    cursor: Cursor
    rows: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def text(self) -> str:
        """The event as JSON, spelt once for all who get it."""
        return json.dumps({"rows": self.rows, "cursor": str(self.cursor)})


class Subscription:
    """One who follows a query, or with `qid` None a whole feed."""

    def __init__(self, feed: FeedSpec, qid: int | None, cursor: Cursor, size: int) -> None:
        self.feed, self.qid = feed, qid
        self.position = cursor.epoch
        self.cursor = cursor
        """Where the one who follows is: behind the last event that was taken."""
        self.ended = ""
        """Why no more events come, if none do."""
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(size + 1)
        self._size = size
        self._missed: Iterator[Event] = iter(())
        self._behind = False

    async def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event; None when there is none for so long, or ever (`ended`)."""
        event = await asyncio.to_thread(next, self._missed, None) if self._behind else None
        self._behind = event is not None
        if event is None and not (self.ended and self._queue.empty()):
            with contextlib.suppress(TimeoutError):
                event = await asyncio.wait_for(self._queue.get(), timeout)
        if event is not None:
            self.cursor = event.cursor
        return event

    def catch_up(self, missed: Iterator[Event]) -> None:
        """Give it what it has missed first; that is spelt as it is taken."""
        self._missed, self._behind = missed, True

    def put(self, event: Event) -> bool:
        """Queue an event; False, and the end, if the queue is full."""
        if self.ended:
            return False
        if self._queue.qsize() >= self._size:
            while not self._queue.empty():
                self._queue.get_nowait()
            self.end("slow")
            return False
        self._queue.put_nowait(event)
        return True

    def end(self, why: str) -> None:
        """Let it end behind what is queued."""
        if not self.ended:
            self.ended = why
            if self._queue.full():
                self._queue.get_nowait()
            self._queue.put_nowait(None)


class FanOut:
    """All subscriptions of one gateway."""

    def __init__(self, reader: Reader, *, queued: int = MOST_QUEUED) -> None:
        self._reader, self._queued = reader, queued
        self._followed: dict[int, set[Subscription]] = {}
        self._told = reader.manifest.epoch

    def __len__(self) -> int:
        return sum(len(each) for each in self._followed.values())

    async def subscribe(
        self, feed: FeedSpec, qid: int | None, cursor: Cursor | None
    ) -> Subscription:
        """Follow a query from a cursor on, or from now."""
        manifest = self._reader.manifest
        now = Cursor(manifest.epoch, 0, feed.number)
        start = now if cursor is None else cursor
        require_kept(manifest, feed, start)
        subscription = Subscription(feed, qid, start, self._queued)
        subscription.position = manifest.epoch
        self._followed.setdefault(feed.number, set()).add(subscription)
        if start < now:
            table = await asyncio.to_thread(
                answers, self._reader.root, manifest, feed, qid, first=start.epoch + 1
            )
            subscription.catch_up(events_of(table, feed, start, manifest.epoch))
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Follow no longer."""
        number = subscription.feed.number
        self._followed.get(number, set()).discard(subscription)
        if not self._followed.get(number):
            self._followed.pop(number, None)

    async def publish(self, manifest: Manifest) -> None:
        """Tell what has been committed since the last time."""
        after, self._told = self._told, manifest.epoch
        followed = [
            (next(iter(some)).feed, {each.qid for each in some}) for some in self._followed.values()
        ]
        news = await asyncio.to_thread(_news, self._reader.root, manifest, followed, after)
        for feed, by_query in news:
            self._tell(feed, by_query, manifest.epoch)

    def end(self, why: str, feeds: Iterable[int] | None = None) -> None:
        """End the subscriptions of some feeds, or of all."""
        for number in list(self._followed) if feeds is None else feeds:
            for each in self._followed.get(number, ()):
                each.end(why)

    def _tell(self, feed: FeedSpec, by_query: Spelt, epoch: int) -> None:
        """Give each subscriber the rows of its query that it has not had."""
        wanted = [each for each in self._followed.get(feed.number, ()) if not each.ended]
        spelt: dict[tuple[int | None, int], list[Event]] = {}
        for each in wanted:
            since, each.position = each.position, max(each.position, epoch)
            key = each.qid, since
            if key not in spelt:
                rows = [row for row in by_query.get(each.qid, ()) if row["_epoch"] > since]
                parts = (rows[at : at + MOST_ROWS] for at in range(0, len(rows), MOST_ROWS))
                start = Cursor(since, 0, feed.number)
                spelt[key] = list(_events(parts, len(rows), feed, epoch, start))
            for event in spelt[key]:
                each.put(event)


def require_kept(manifest: Manifest, feed: FeedSpec, cursor: Cursor) -> None:
    """Refuse to go on behind a gap: a reader that was away is to know of it."""
    oldest = oldest_cursor(manifest, feed)
    if oldest > cursor.epoch:
        kept = f"the newest {feed.keep:,} rows"
        kept = kept if feed.retain is None else f"those of the last {print_duration(feed.retain)}"
        raise GoneError(
            "answers after the cursor are no longer kept",
            Cursor(oldest, 0, feed.number),
            detail=f"Kept are {kept}.",
        )


def events_of(table: pa.Table, feed: FeedSpec, start: Cursor, epoch: int) -> Iterator[Event]:
    """Yield what follows a cursor, of answers from its epoch on, spelt part by part."""
    if start.told:
        same = pc.sum(pc.equal(table["_epoch"], start.epoch + 1)).as_py() or 0
        table = table.slice(min(start.told, same))
    parts = (json_rows(table.slice(at, MOST_ROWS)) for at in range(0, table.num_rows, MOST_ROWS))
    return _events(parts, table.num_rows, feed, epoch, start)


def _events(
    parts: Iterable[list[dict[str, Any]]], n_rows: int, feed: FeedSpec, epoch: int, start: Cursor
) -> Iterator[Event]:
    """Give parts of rows, ordered by epochs, their cursors; the last is complete up to `epoch`."""
    told, within, left = start.told, start.epoch + 1, n_rows
    for some in parts:
        left -= len(some)
        if not left:
            yield Event(Cursor(epoch, 0, feed.number), some)
            return
        last = some[-1]["_epoch"]
        same = sum(row["_epoch"] == last for row in some)
        told = told + same if last == within else same
        within = last
        yield Event(Cursor(last - 1, told, feed.number), some)


def _news(
    root: Root, manifest: Manifest, followed: Iterable[Followed], after: int
) -> list[tuple[FeedSpec, Spelt]]:
    """Read what is new since an epoch of the feeds and queries that somebody follows."""
    told: list[tuple[FeedSpec, Spelt]] = []
    apart: list[Followed] = []
    for feed, qids in followed:
        if feed.policy != "eager" and None not in qids:
            apart.append((feed, qids))  # each query is found by itself, and nothing else is read
        elif feed.policy != "eager" or _has_news(manifest, feed, after):
            table = answers(root, manifest, feed, first=after + 1)
            told.append((feed, _by_query(feed, table, qids)))
    queries = [(feed, qid) for feed, qids in apart for qid in qids if qid is not None]
    found = changes_of(root, manifest, queries, after)
    for feed, qids in apart:
        mine = {qid: found.get((feed.name, qid)) for qid in qids if qid is not None}
        spelt: Spelt = {qid: json_rows(table) for qid, table in mine.items() if table is not None}
        told.append((feed, spelt))
    return told


def _by_query(feed: FeedSpec, table: pa.Table, wanted: set[int | None]) -> Spelt:
    """Part rows by query; None stands for all of them, and for a feed of one query."""
    rows = json_rows(table)
    if not feed.shared:
        return dict.fromkeys(wanted, rows)
    found: Spelt = {None: rows} if None in wanted else {}
    for row in rows:
        if row["_query"] in wanted:
            found.setdefault(row["_query"], []).append(row)
    return found


def _has_news(manifest: Manifest, feed: FeedSpec, after: int) -> bool:
    state = manifest.stores.get(answer_store(feed, "rows"))
    return state is not None and any(run.epoch > after for run in reversed(state.runs))
