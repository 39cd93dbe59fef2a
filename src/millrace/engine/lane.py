"""A lane: one sink, its cursor, and the span of epochs that the sink has open.

A lane is driven by one thread, which calls `attempt` with the newest manifest; `enforce` and
`detach` may come from another. The two meet in the cursor alone, which is changed under a lock:
a span is settled only if the cursor still stands where the span began.

    cursor ─────► settled │ span, taken by the sink │ waiting in the root │ not yet committed
                  next_epoch = span.first       span.stop           manifest.epoch + 1

After any error the span is forgotten and the sink opened again, exactly as after a restart.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

from millrace import failpoints
from millrace.connectors.sinks.sink import Sink, Span
from millrace.engine.cursor import Cursor, CursorLog
from millrace.engine.results import Answer, Waiting, oldest_beyond, read, total, waiting
from millrace.engine.sink_status import Health, SinkStatus, State, sink_status
from millrace.errors import FencedError, IdentityError
from millrace.operators.canonical import logical_bytes
from millrace.state.manifest import Manifest
from millrace.state.root import Root
from millrace.time import Clock

OPEN_PAUSE = 0.25
"""Seconds between two looks at the age of an open span."""

_logger = logging.getLogger(__name__)


class Lane:
    """Delivers to one sink; see the module's head for who may call what."""

    def __init__(self, sink: Sink, log: CursorLog, root: Root, clock: Clock) -> None:
        self.sink = sink
        self.health = Health()
        self._log, self._root, self._clock = log, root, clock
        self._wanted = None if sink.queries is None else frozenset(sink.queries)
        self._lock = threading.Lock()
        self._cursor: Cursor | None = None
        self._span: Span | None = None
        self._since = 0
        self._first_seen: int | None = None
        self._halted = False

    @property
    def active(self) -> bool:
        """Whether there is anything left to do for this sink."""
        return self.health.state in ("running", "failing") and not self._halted

    @property
    def settled(self) -> int:
        """The first epoch that is not public yet, as far as this process knows."""
        return -1 if self._span is None else self._span.first

    @property
    def pause(self) -> float | None:
        """For how many seconds there is nothing to do; None: until something happens."""
        if self.health.state == "failing":
            return self.health.pause
        return OPEN_PAUSE if self._span is not None and self._span.n_epochs else None

    def wants(self, query: str) -> bool:
        """Say whether the sink is to get the results of a query."""
        asked = self._wanted is None or query in self._wanted
        return asked and self.health.state != "detached"

    def needs(self, query: str) -> int | None:
        """Return the first epoch of `query` that the sink still needs; None if it needs none."""
        if not self.wants(query):
            return None
        return 0 if self._cursor is None else self._cursor.next_epoch

    def see(self, manifest: Manifest) -> None:
        """Note from which epoch on a sink without a cursor is served: the first not committed.

        What the root holds of earlier ones it gets as well.
        """
        if self._first_seen is None:
            self._first_seen = manifest.epoch + 1

    def attempt(self, manifest: Manifest, *, flush_to: int = -1) -> None:
        """Deliver what waits; an error of the sink is noted, and only `FencedError` raised."""
        try:
            self._deliver(manifest, flush_to)
        except FencedError as error:
            self._fail(error, "fenced")
            raise
        except (Exception, SystemExit) as error:  # what a sink raises is its trouble alone
            self._fail(error, "failing")
        else:
            if self.health.recovered():
                _logger.warning("sink goes on sink=%s", self.sink.name)

    def enforce(self, manifest: Manifest) -> None:
        """Apply the sink's policy if more waits for it than it may."""
        backlog = self.sink.backlog
        if backlog.policy == "keep" or not self.active:
            return
        with self._lock:
            cursor = self._cursor
            if cursor is None:
                return
            held = self._waiting(manifest, cursor.next_epoch)
            if not backlog.exceeded_by(total(held).n_bytes, len(held)):
                return
            if backlog.policy == "detach":
                self._cut_off(cursor, manifest)
            else:
                self._drop(cursor, held)

    def detach(self, manifest: Manifest) -> None:
        """Cut the sink off; its cursor stays, and says how much waited."""
        with self._lock:
            self._cut_off(self._cursor or self._claimed(manifest), manifest)

    def halt(self) -> None:
        """Settle nothing from now on: the engine stops."""
        with self._lock:
            self._halted = True

    def close(self) -> None:
        """Let the sink go."""
        self._span = None
        try:
            self.sink.close()
        except Exception:  # nothing depends on it
            _logger.exception("sink not closed sink=%s", self.sink.name)

    def status(self, manifest: Manifest) -> SinkStatus:
        """Say how the sink is."""
        cursor = self._cursor or Cursor()
        held = self._waiting(manifest, cursor.next_epoch)
        stop = manifest.epoch + 1
        return sink_status(self.sink.name, self.health, cursor, held=held, stop=stop)

    def _waiting(self, manifest: Manifest, first: int) -> Waiting:
        return waiting(manifest, self.sink.queries, first, self.sink.fan_out)

    def _deliver(self, manifest: Manifest, flush_to: int) -> None:
        while self.active and not self._passed(manifest, flush_to):
            self._span = None  # the cursor was moved meanwhile: begin where it stands now

    def _passed(self, manifest: Manifest, flush_to: int) -> bool:
        """Go through the epochs that wait; False if the cursor no longer stands where it did."""
        span = self._span or self._open(manifest)
        stop = manifest.epoch + 1
        held = self._waiting(manifest, span.stop) if span.stop < stop else {}
        for epoch in range(span.stop, stop):
            if not self._standing():
                return False
            self._take(self._span or span, epoch, held.get(epoch, ()))
            self._settle_if_due(-1)
        self._settle_if_due(flush_to)
        return self._standing()

    def _standing(self) -> bool:
        """Say whether the open span may still be settled."""
        cursor, span = self._cursor, self._span
        begun = cursor is not None and span is not None and cursor.next_epoch == span.first
        return begun and self.active

    def _open(self, manifest: Manifest) -> Span:
        with self._lock:
            if self._cursor is None:
                self._cursor = self._claimed(manifest)
            else:
                self._cursor = self._log.current()
            cursor = self._cursor
        if cursor.next_epoch > manifest.epoch + 1:
            raise IdentityError(
                f'sink "{self.sink.name}" is ahead of the root',
                detail=f"Its cursor is at epoch {cursor.next_epoch}, the root at {manifest.epoch}.",
                hint="The root has gone back in time; give the sink a new name and place.",
            )
        self.sink.open(cursor.promised)
        self._span, self._since = Span(cursor.next_epoch, cursor.next_epoch), self._clock.now()
        return self._span

    def _claimed(self, manifest: Manifest) -> Cursor:
        held = self._waiting(manifest, 0)
        self.see(manifest)
        cursor = self._log.claim(min([*held, self._first_seen or 0]))
        if cursor.detached is None:
            return cursor
        epoch, n_rows = cursor.detached
        still = {each: held[each] for each in held if cursor.next_epoch <= each <= epoch}
        n_missing = max(n_rows - total(still).n_rows, 0)
        attached = replace(cursor, detached=None)
        if n_missing or manifest.epoch > epoch:
            attached = attached.with_gap((cursor.next_epoch, manifest.epoch + 1), n_missing)
        return self._log.move(attached)

    def _take(self, span: Span, epoch: int, answers: Sequence[Answer]) -> None:
        n_rows, n_bytes = span.n_rows, span.n_bytes
        if not span.n_epochs:
            self._since = self._clock.now()
        for answer in answers:
            table = read(self._root, answer)
            failpoints.reach("deliver.before")
            self.sink.take(answer.query, epoch, table)
            n_rows, n_bytes = n_rows + table.num_rows, n_bytes + logical_bytes(table)
        self._span = Span(span.first, epoch + 1, n_rows=n_rows, n_bytes=n_bytes)

    def _settle_if_due(self, flush_to: int) -> None:
        span = self._span
        if span is None or not span.n_epochs:
            return
        span = replace(span, age=max(self._clock.now() - self._since, 0))
        if span.first <= flush_to or self.sink.due(span):
            self._settle(span)

    def _settle(self, span: Span) -> None:
        moves = self.sink.prepare(span)
        failpoints.reach("deliver.written")
        with self._lock:
            if self._cursor is None or not self._standing():
                return
            moved = replace(self._cursor, next_epoch=span.stop, promised=moves)
            self._cursor = moved = self._log.move(moved)
        failpoints.reach("deliver.promised")
        self.sink.fulfil(moves)
        failpoints.reach("deliver.renamed")
        self._log.trim(moved)
        failpoints.reach("deliver.after")
        self._span = Span(span.stop, span.stop)
        self.health.settled()

    def _cut_off(self, cursor: Cursor, manifest: Manifest) -> None:
        held = self._waiting(manifest, cursor.next_epoch)
        mark = (manifest.epoch, total(held).n_rows)
        self._cursor = self._log.move(replace(cursor, detached=mark))
        self.health.state = "detached"
        _logger.warning("sink detached sink=%s epoch=%d", self.sink.name, manifest.epoch)

    def _drop(self, cursor: Cursor, held: Waiting) -> None:
        stop, n_rows = oldest_beyond(self.sink.backlog, held)
        self._cursor = self._log.move(cursor.skipping(stop, n_rows))
        _logger.error("results dropped sink=%s before=%d rows=%d", self.sink.name, stop, n_rows)

    def _fail(self, error: BaseException, state: State) -> None:
        before = self.health.state
        self.health.failed(error, state)
        self._span = None
        level = logging.INFO if before == self.health.state else logging.WARNING
        _logger.log(level, "sink %s sink=%s error=%s", state, self.sink.name, self.health.error)
