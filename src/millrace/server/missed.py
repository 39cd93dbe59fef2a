"""What a subscriber has missed, read in bounded parts as it is taken.

How many epochs a part has follows from how many answers the last one had. Each part is read of the
newest that is committed, since files of an older manifest may be gone while a slow client is told;
answers that have expired meanwhile end the reading.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.reading.changes import changes
from millrace.reading.reader import Reader
from millrace.server.cursors import Cursor
from millrace.server.events import Event, events_of
from millrace.state.names import MissingError

PART_ROWS = 50_000
FIRST_EPOCHS = 64


class Missed:
    """The answers of a query after a cursor, up to an epoch, as events."""

    def __init__(
        self, reader: Reader, feed: FeedSpec, qid: int | None, start: Cursor, until: int
    ) -> None:
        self._reader, self._feed, self._qid = reader, feed, qid
        self._start, self._until = start, until
        self._n_epochs = FIRST_EPOCHS
        self._events: Iterator[Event] = iter(())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while True:
            event = next(self._events, None)
            if event is not None:
                return event
            if self._start.epoch >= self._until:
                raise StopIteration
            self.read()

    def read(self) -> None:
        """Read the next part."""
        table, last = self._changes()
        self._events = events_of(table, self._start, last)
        self._start = Cursor(last, 0, self._start.feed)
        if table.num_rows > PART_ROWS:
            self._n_epochs = max(self._n_epochs // 2, 1)
        elif 2 * table.num_rows < PART_ROWS:
            self._n_epochs *= 2

    def _changes(self) -> tuple[pa.Table, int]:
        reader, after = self._reader, self._start.epoch
        until = min(after + self._n_epochs, self._until)
        while True:
            manifest = reader.manifest
            try:
                return changes(reader.root, manifest, self._feed, self._qid, after, until=until,
                               functions=reader.functions)  # fmt: skip
            except MissingError:
                if reader.manifest.epoch == manifest.epoch:
                    raise
