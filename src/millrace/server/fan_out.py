"""Fan-out: what a commit brought is read once, and told to everybody who waits for it.

    commit ─► answers of each feed that somebody follows ─► rows by query ─► subscribers' queues

A subscriber that does not keep up, so that its queue is full, is detached and told its cursor; it
may come back with it. So is one whose query cannot be read, whose answers were gone before they
could be told, or whose query was dropped; the others are told as ever. Nobody waits for a
subscriber: not the others, and least of all the engine.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.engine.policies import stretches
from millrace.engine.stores import answer_store
from millrace.errors import LostAnswersError
from millrace.reading.changes import changes, oldest_cursor
from millrace.reading.fan_out import changes_of
from millrace.reading.reader import Reader
from millrace.server.cursors import Cursor, GoneError
from millrace.server.events import MOST_ROWS, Event, events_in
from millrace.server.json_rows import json_rows
from millrace.server.missed import Missed
from millrace.state.manifest import Manifest
from millrace.time import print_duration

MOST_QUEUED = 256

_logger = logging.getLogger(__name__)


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
        event = await self._next_missed() if self._behind else None
        if event is None:
            event = self._taken()
        if event is None and not self.ended:
            try:
                async with asyncio.timeout(timeout):  # `wait_for` would take a task for each
                    event = await self._queue.get()
            except TimeoutError:  # and perhaps something came in the same moment
                event = self._taken()
        if event is not None:
            self.cursor = event.cursor
        return event

    async def _next_missed(self) -> Event | None:
        """Return the next event of what it has missed; if that is gone, it is all there is."""
        why, event = "", None
        try:
            event = await asyncio.to_thread(next, self._missed, None)
        except LostAnswersError:
            why = "gone"
        except Exception:
            _logger.exception("missed answers not told feed=%s", self.feed.name)
            why = "failed"
        self._behind = event is not None
        if why:
            while not self._queue.empty():  # or there would be a gap before these
                self._queue.get_nowait()
            self.end(why)
        return event

    def _taken(self) -> Event | None:
        return None if self._queue.empty() else self._queue.get_nowait()

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
        self._told = self._checked = -1

    def start(self) -> None:
        """Begin behind what the reader has read so far."""
        self._told = self._reader.manifest.epoch

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
        if start.epoch > manifest.epoch:
            await self._require_past(start)
        subscription = Subscription(feed, qid, start, self._queued)
        subscription.position = max(manifest.epoch, start.epoch)
        self._followed.setdefault(feed.number, set()).add(subscription)
        try:
            if start < now:
                missed = Missed(self._reader, feed, qid, start, manifest.epoch)
                await asyncio.to_thread(missed.read)
                subscription.catch_up(missed)
        except BaseException:
            self.leave(subscription)
            raise
        return subscription

    async def _changes(
        self, manifest: Manifest, feed: FeedSpec, qid: int | None, after: int
    ) -> pa.Table:
        """Read the answers of the epochs after one."""
        reader = self._reader
        table, _ = await asyncio.to_thread(
            changes, reader.root, manifest, feed, qid, after, functions=reader.functions
        )
        return table

    async def _require_past(self, start: Cursor) -> None:
        """Refuse a cursor of an epoch that never was; this gateway may be behind another one."""
        newest = await asyncio.to_thread(self._reader.newest_epoch)
        if start.epoch > newest:
            raise GoneError(
                "the cursor is of an epoch that is still to come",
                Cursor(newest, 0, start.feed),
                detail="The root may have been restored from a backup since.",
            )

    def leave(self, subscription: Subscription) -> None:
        """Follow no longer."""
        number = subscription.feed.number
        self._followed.get(number, set()).discard(subscription)
        if not self._followed.get(number):
            self._followed.pop(number, None)

    async def publish(self) -> None:
        """Tell what has been committed since the last time."""
        manifest, after = self._reader.manifest, self._told
        self._end_dropped()
        if manifest.epoch <= after:
            return
        gathered: list[tuple[FeedSpec, int]] = []
        for some in list(self._followed.values()):
            wanted = {each.qid for each in some if not each.ended}
            if not wanted:
                continue
            feed = next(iter(some)).feed
            kept = {each.policy for each in stretches(manifest, feed, after + 1)}
            if kept == {"lazy"} and None not in wanted:
                gathered += [(feed, qid) for qid in wanted if qid is not None]
            elif kept != {"eager"} or _has_news(manifest, feed, after):
                await self._guarded(self._publish_feed(manifest, feed, after), [feed.number])
        if gathered:
            await self._publish_gathered(manifest, gathered, after)
        self._told = manifest.epoch

    async def _guarded(self, work: Awaitable[None], feeds: Collection[int]) -> bool:
        """Do something for feeds; if that fails, their subscribers come back with a cursor."""
        try:
            await work
        except Exception:
            _logger.exception("answers not told feeds=%s", sorted(feeds))
            self.end("failed", feeds)
            return False
        return True

    def _end_dropped(self) -> None:
        """End the subscriptions of queries that are no longer there."""
        if self._checked == self._reader.number:
            return
        with self._reader.registered() as (catalog, _, queries):
            self._checked = self._reader.number
            for number, some in self._followed.items():
                for each in some:
                    feed = catalog.feeds.get(each.feed.name)
                    gone = each.qid is not None and queries.find(each.qid) is None
                    if feed is None or feed.number != number or gone:
                        each.end("dropped")

    async def _publish_feed(self, manifest: Manifest, feed: FeedSpec, after: int) -> None:
        """Read what is new in a feed once, and part it by query."""
        try:
            table = await self._changes(manifest, feed, None, after)
        except LostAnswersError:  # more has come at once than is kept
            self.end("gone", [feed.number])
            return
        wanted = {each.qid for each in self._followed.get(feed.number, ())}
        self._tell(feed, _by_query(feed, table, wanted), manifest.epoch)

    async def _publish_gathered(
        self, manifest: Manifest, wanted: list[tuple[FeedSpec, int]], after: int
    ) -> None:
        """Read what is new for queries whose answers share the rows of their stream."""
        feeds = {feed.number: feed for feed, _ in wanted}
        for number in [each.number for each in feeds.values()
                       if oldest_cursor(manifest, each) > after]:  # fmt: skip
            self.end("gone", [number])
            del feeds[number]
        wanted = [(feed, qid) for feed, qid in wanted if feed.number in feeds]
        try:
            await self._tell_gathered(manifest, wanted, after)
        except Exception:  # one of them cannot be read; which one, is found out one by one
            _logger.exception("answers not told together")
            for number in feeds:
                mine = [(feed, qid) for feed, qid in wanted if feed.number == number]
                await self._guarded(self._tell_gathered(manifest, mine, after), [number])

    async def _tell_gathered(
        self, manifest: Manifest, wanted: list[tuple[FeedSpec, int]], after: int
    ) -> None:
        spelt = await asyncio.to_thread(self._spelt, manifest, wanted, after)
        feeds = {feed.name: feed for feed, _ in wanted}
        for name, by_query in spelt.items():
            self._tell(feeds[name], by_query, manifest.epoch)

    def _spelt(
        self, manifest: Manifest, wanted: list[tuple[FeedSpec, int]], after: int
    ) -> dict[str, dict[int | None, list[dict[str, Any]]]]:
        """Return new rows by feed and query; tables with the same columns are spelt together."""
        found = changes_of(
            self._reader.root, manifest, wanted, after, functions=self._reader.functions
        )
        alike: dict[str, list[tuple[str, int]]] = {}
        for place, table in found.items():
            alike.setdefault(str(table.schema), []).append(place)
        spelt: dict[str, dict[int | None, list[dict[str, Any]]]] = {}
        for places in alike.values():
            rows = iter(json_rows(pa.concat_tables([found[place] for place in places])))
            for name, qid in places:
                mine = list(islice(rows, found[name, qid].num_rows))
                spelt.setdefault(name, {})[qid] = mine
        return spelt

    def end(self, why: str, feeds: Iterable[int] | None = None) -> None:
        """End the subscriptions of some feeds, or of all."""
        for number in list(self._followed) if feeds is None else feeds:
            for each in self._followed.get(number, ()):
                each.end(why)

    def _tell(
        self, feed: FeedSpec, by_query: dict[int | None, list[dict[str, Any]]], epoch: int
    ) -> None:
        """Give each subscriber the rows of its query that it has not had; most have none."""
        spelt: dict[tuple[int | None, int], list[Event]] = {}
        for each in self._followed.get(feed.number, ()):
            since, each.position = each.position, max(each.position, epoch)
            told = by_query.get(each.qid)
            if not told or each.ended:
                continue
            key = each.qid, since
            if key not in spelt:
                rows = [row for row in told if row["_epoch"] > since]
                parts = (rows[at : at + MOST_ROWS] for at in range(0, len(rows), MOST_ROWS))
                start = Cursor(since, 0, feed.number)
                sizes = Counter(row["_epoch"] for row in rows)
                spelt[key] = list(events_in(parts, sizes, epoch, start))
            for event in spelt[key]:
                each.put(event)


def require_kept(manifest: Manifest, feed: FeedSpec, cursor: Cursor) -> None:
    """Refuse to go on behind a gap: a reader that was away is to know of it."""
    oldest = oldest_cursor(manifest, feed)
    if oldest > cursor.epoch:
        span = feed.retain
        kept = f"the newest {feed.keep:,} rows" if span is None else print_duration(span)
        raise GoneError(
            "answers after the cursor are no longer kept",
            Cursor(oldest, 0, feed.number),
            detail=f"Of this query {kept} are kept.",
        )


def _by_query(
    feed: FeedSpec, table: pa.Table, wanted: set[int | None]
) -> dict[int | None, list[dict[str, Any]]]:
    """Part rows by query; None stands for all of them, and for a feed of one query."""
    rows = json_rows(table)
    if not feed.shared:
        return dict.fromkeys(wanted, rows)
    found: dict[int | None, list[dict[str, Any]]] = {None: rows} if None in wanted else {}
    for row in rows:
        if row["_query"] in wanted:
            found.setdefault(row["_query"], []).append(row)
    return found


def _has_news(manifest: Manifest, feed: FeedSpec, after: int) -> bool:
    state = manifest.stores.get(answer_store(feed, "rows"))
    return state is not None and any(run.epoch > after for run in reversed(state.runs))
