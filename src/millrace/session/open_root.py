"""A root that is open: its engine, what it holds, and the changes that are recorded in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.backend import Run
from millrace.engine.changing import changed
from millrace.engine.delivery import Delivery
from millrace.engine.epoch import Engine
from millrace.engine.registry import Registry
from millrace.engine.settings import Settings
from millrace.engine.sink_status import SinkStatus
from millrace.engine.statistics import EpochStatistics
from millrace.engine.stores import DEAD_LETTERS, late_store, rows_store
from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError
from millrace.reading.unexpired import unexpired
from millrace.session.backends import backend_for
from millrace.session.following import Following
from millrace.session.keeping import require_found_anew
from millrace.state.fence import Fence
from millrace.state.order import TIME
from millrace.state.root import Root
from millrace.state.run_store import RunStore
from millrace.time import Clock, WallClock, to_micros


class OpenRoot:
    """One engine on one root, from when it takes the root until it is closed."""

    def __init__(
        self, root: Root, spark: object, settings: Settings, clock: Clock | None, *, threads: bool
    ) -> None:
        self._root, self._clock = root, clock or WallClock()
        self.updating = threading.RLock()
        self.followers: list[Following] = []
        self._fence = Fence.acquire(self._root, who="millrace engine")
        try:
            self._backend = backend_for(spark, self._fence)
            self.engine = self._opened(settings, threads=threads)
        except BaseException:
            self._fence.release()
            raise
        self._run: Run | None = None
        self.allowed: Callable[[dict[str, Any]], object] = lambda _: None  # raises if it is not

    def now(self) -> int:
        """Return what time it is, by the clock that the session goes by, in us."""
        return self._clock.now()

    def change(self, *changes: dict[str, Any]) -> None:
        """Record changes of the registry, all or none, and let them take effect soon."""
        self.record(list(changes))

    def change_settings(
        self, changes: Mapping[str, object] | None = None, /, **more: object
    ) -> None:
        """Change settings by name, all or none; they hold from the next epoch on."""
        self.engine.settings = changed(self.engine.settings, {**(changes or {}), **more})
        if self._run is not None:
            self._run.take_settings()

    def retain(self, stream: str, duration: str | int) -> None:
        """Keep the history of a stream for another while, from the next epoch on.

        Of a stream that was declared without, it is kept from then on.
        """
        retain = to_micros(duration)
        require_found_anew(self, stream, retain)
        self.change({"do": "retain stream", "name": stream, "retain": retain})

    def record(
        self, changes: list[dict[str, Any]], tables: Sequence[pa.RecordBatch] = ()
    ) -> list[int]:
        """Record changes that come with tables; return the first id of each that adds queries."""
        for change in changes:
            self.allowed(change)
        first = self.engine.registry.record(changes, tables)
        if self._run is not None:
            self._run.nudge()
        return first

    @property
    def streams(self) -> Mapping[str, StreamSpec]:
        """The declared streams, by name."""
        return self.engine.registry.catalog.streams

    def dead_letters(self, stream: str | None = None) -> pa.Table:
        """Return the rows that could not be read: stream, source, position, reason, raw bytes.

        Those of one stream, or of all of them.
        """
        found = self._table(DEAD_LETTERS)
        if stream is None:
            return found
        return found.filter(
            pc.equal(found["stream"], self.engine.registry.catalog.stream(stream).name)
        )

    def late_rows(self, stream: str) -> pa.Table:
        """Return the rows of a stream that came too late, with their source and position."""
        return self._table(late_store(self.engine.registry.catalog.stream(stream)))

    def history(self, stream: str) -> pa.Table:
        """Return the rows of a stream that were in time and are retained, oldest first."""
        spec = self.engine.registry.catalog.stream(stream)
        if spec.retain is None:
            raise PlanError(
                f'stream "{stream}" keeps no history',
                hint='Declare the stream with retain, such as retain="1 hour".',
            )
        return self._table(rows_store(spec)).sort_by(TIME)

    def statistics(self) -> list[EpochStatistics]:
        """Return the statistics of this session's last epochs, oldest first."""
        return list(self.engine.statistics)

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Say how each sink is: cursor, lag, backlog, last error."""
        return self.engine.delivery.status()

    def close(self, *, drain: float = 30.0) -> None:
        """Stop the run, deliver what is committed (for at most `drain` seconds), free the root."""
        if self._run is not None:
            self._run.stop()
            self._run = None
        for following in self.followers:
            following.stop()
        self.engine.delivery.drain(drain)
        self.engine.delivery.stop()
        self.engine.registry.close()
        self._fence.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self, settings: Settings, *, threads: bool) -> Engine:
        """Read what the root holds."""
        root, fence, clock = self._root, self._fence, self._clock
        store = RunStore.open(root, fence)
        registry = Registry.open(root, fence.check)
        delivery = Delivery(root, fence.check, clock=clock, term=fence.term, threads=threads)
        return Engine(root, store, registry, delivery, settings, clock)

    def _table(self, store: str) -> pa.Table:
        """Return the rows of a store that have not expired."""
        engine, now = self.engine, self._clock.now()
        catalog, keep = engine.registry.catalog, engine.settings.keep_rejected
        return unexpired(self._root, engine.manifest, catalog, store, keep, now)
