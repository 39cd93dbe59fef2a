"""Delivery: hands committed results to the sinks, each in a thread and at a pace of its own.

    engine ── committed(manifest) ──► newest manifest ──► lane of sink 1 ──► sink 1, cursor 1
       ▲                                             ├──► lane of sink 2 ──► sink 2, cursor 2
       └───────── consumed(query) ◄── cursors        └──► enforcer: backlogs with a limit

`committed` leaves the manifest where the threads find it and returns. A sink that is slow, stuck
or failing holds up nobody; what it has not settled stays in the root, because the engine asks
`consumed` before it drops results. A limit on that is enforced by a thread of its own, so that
it also holds for a sink that never returns.

With `threads=False` nothing happens until `pump` is called; a test's failpoints raise there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from millrace.connectors.sinks.sink import FanOut, Sink
from millrace.engine.cursor import DurableCursor, VolatileCursor, mark_absent, sinks_with_cursors
from millrace.engine.lane import Lane
from millrace.engine.sink_status import SinkStatus
from millrace.errors import FencedError, NameTakenError, StoreError, UnknownNameError
from millrace.plan.nearest import nearest
from millrace.state.manifest import Manifest
from millrace.state.root import Root
from millrace.time import Clock, WallClock

STOP_SECONDS = 5.0
DRAIN_TRIES = 3

_logger = logging.getLogger(__name__)


class Delivery:
    """All sinks of one engine.

    Parameters
    ----------
    fence_check
        Raises `FencedError` when this engine has been replaced; called before a cursor moves.
    sinks
        Those to attach at once; `attach` adds others.
    term
        The engine's term, for the records.
    threads
        Whether each sink gets a thread; without, `pump` does the work.
    """

    def __init__(
        self,
        root: Root,
        fence_check: Callable[[], None],
        sinks: Iterable[Sink] = (),
        clock: Clock | None = None,
        *,
        term: int = 0,
        threads: bool = True,
    ) -> None:
        self._root, self._check, self._term = root, fence_check, term
        self._clock = clock or WallClock()
        self._lanes: dict[str, Lane] = {}
        self._threads: list[threading.Thread] | None = [] if threads else None
        self._manifest: Manifest | None = None
        self._flush_to = -1
        self._version = 0
        self._drains = 0
        self._stopped = False
        self._changed = threading.Condition()
        for sink in sinks:
            self.attach(sink)
        self._start(self._enforce_always, "enforcer")

    def attach(self, sink: Sink) -> None:
        """Begin to deliver to `sink`, where its cursor stands.

        What a sink missed while it was detached is in its status and its cursor.
        """
        with self._changed:
            present = self._lanes.get(sink.name)
            if present is not None and present.active:
                raise NameTakenError(
                    f'a sink named "{sink.name}" is attached already',
                    hint="Give the sink another name; its cursor is kept under it.",
                )
            lane = Lane(sink, self._log(sink), self._root, self._clock)
            if self._manifest is not None:
                lane.see(self._manifest)
            self._lanes = {**self._lanes, sink.name: lane}
        self._start(lambda: self._run(lane), sink.name)

    def next_epoch(self, sink: Sink, manifest: Manifest) -> int:
        """Return the first epoch that is still to be delivered to a durable sink.

        A cursor that cannot be read is the trouble of that sink alone, later, in its own thread.
        """
        try:
            newest = DurableCursor(self._root, sink.name, self._check).newest()
        except StoreError:
            newest = None
        return manifest.epoch + 1 if newest is None else newest.next_epoch

    def detach(self, name: str) -> None:
        """Cut a sink off; its results are no longer kept, its cursor stays."""
        with self._changed:
            lane = self._lanes.get(name)
            if lane is None:
                known = ", ".join(self._lanes) or "none"
                raise UnknownNameError(
                    f'sink "{name}" is not attached',
                    detail=f"The sinks are: {known}.",
                    hint=nearest(name, list(self._lanes)),
                )
        lane.detach(self._manifest or Manifest())
        with self._changed:
            self._lanes = {each: kept for each, kept in self._lanes.items() if each != name}
        self._wake()
        if self._threads is None:
            lane.close()

    def committed(self, manifest: Manifest) -> None:
        """Take note of a commit; raise `FencedError` if a cursor shows a newer engine.

        An engine also calls this once when it has recovered, before its first epoch, with the
        manifest that it found or the empty one.
        """
        if any(lane.health.state == "fenced" for lane in self._lanes.values()):
            raise FencedError(
                "a sink's cursor was taken over by another engine",
                hint="Stop one of the two engines that use this root.",
            )
        if self._manifest is None:
            self._mark_absent(manifest)
        with self._changed:
            self._manifest = manifest
            for lane in self._lanes.values():
                lane.see(manifest)
        self._wake()

    @property
    def epoch(self) -> int:
        """The last epoch whose answers it was told to deliver; it hears of one after its commit."""
        return -1 if self._manifest is None else self._manifest.epoch

    def consumed(self, query: str, fan_out: FanOut = "rows") -> int | None:
        """Return the least epoch of `query` that a sink still needs; None if nobody wants it."""
        lanes = [each for each in self._lanes.values() if each.sink.fan_out == fan_out]
        needed = (lane.needs(query) for lane in lanes)
        return min((epoch for epoch in needed if epoch is not None), default=None)

    def wanted(self, queries: Iterable[str]) -> dict[str, list[FanOut]]:
        """Say in which forms sinks want the results of each query."""
        lanes = list(self._lanes.values())
        return {
            query: sorted({each.sink.fan_out for each in lanes if each.wants(query)})
            for query in queries
        }

    def delivered_to(self, sink: str, queries: Iterable[str]) -> list[str]:
        """Return those of some queries whose results a sink gets."""
        lane = self._lanes.get(sink)
        return [] if lane is None else [each for each in queries if lane.wants(each)]

    def status(self) -> tuple[SinkStatus, ...]:
        """Say how each sink is."""
        manifest = self._manifest or Manifest()
        return tuple(lane.status(manifest) for lane in self._lanes.values())

    def drain(self, timeout: float) -> bool:
        """Make everything up to the last commit public, open spans too.

        Returns False if some sink has not managed within `timeout` seconds; detached sinks do
        not count. A sink that fails is tried at once and some times more, but not waited for:
        what it has not taken stays in the root.
        """
        with self._changed:
            self._flush_to = target = self.epoch
            self._drains += 1
            for lane in self._lanes.values():
                lane.health.hurry()
        self._wake()
        if self._threads is None:
            self.pump()
            return self._drained(target)
        with self._changed:
            self._changed.wait_for(lambda: self._drained(target, given_up=True), timeout)
            return self._drained(target)

    def pump(self) -> None:
        """Deliver everything that waits, in the calling thread."""
        if self._manifest is None:
            return
        for lane in self._lanes.values():
            lane.enforce(self._manifest)
            if lane.active:
                lane.attempt(self._manifest, flush_to=self._flush_to)

    def stop(self) -> None:
        """End the threads; open spans are forgotten and delivered again by the next engine.

        A thread that is stuck in its sink is left behind; it can no longer settle anything.
        """
        with self._changed:
            self._stopped = True
        for lane in self._lanes.values():
            lane.halt()
        self._wake()
        for thread in self._threads or ():
            thread.join(STOP_SECONDS)
        if self._threads is None:
            for lane in self._lanes.values():
                lane.close()

    def _run(self, lane: Lane) -> None:
        """Serve one lane until it ends: the body of its thread."""
        version = -1
        while (version := self._await(lane, version)) >= 0:
            if self._manifest is None:
                continue
            try:
                lane.attempt(self._manifest, flush_to=self._flush_to)
            except FencedError:
                break
            with self._changed:
                self._changed.notify_all()
        lane.close()
        self._wake()

    def _await(self, lane: Lane, version: int) -> int:
        """Wait until there may be something to do; return the version seen, or -1 at the end."""
        with self._changed:
            failing = lane.health.state == "failing"  # then a commit is no reason to try at once
            drains = self._drains
            self._changed.wait_for(
                lambda: (
                    self._ended(lane)
                    or self._drains != drains
                    or (not failing and self._version != version)
                ),
                lane.pause,
            )
            return -1 if self._ended(lane) else self._version

    def _enforce_always(self) -> None:
        enforced: Manifest | None = None
        while not self._stopped:
            with self._changed:
                self._changed.wait_for(self._stopped_or_newer_than(enforced))
                enforced = self._manifest
            for lane in self._lanes.values():
                self._enforce(lane)

    def _stopped_or_newer_than(self, enforced: Manifest | None) -> Callable[[], bool]:
        return lambda: self._stopped or self._manifest is not enforced

    def _enforce(self, lane: Lane) -> None:
        if self._manifest is None or self._stopped:
            return
        try:
            lane.enforce(self._manifest)
        except FencedError as error:
            lane.health.failed(error, "fenced")
        except Exception:  # the next commit tries again; the sink's own thread shows the error
            _logger.exception("backlog not enforced sink=%s", lane.sink.name)
        if not lane.active:
            self._wake()

    def _ended(self, lane: Lane) -> bool:
        return self._stopped or not lane.active

    def _drained(self, target: int, *, given_up: bool = False) -> bool:
        active = [lane for lane in self._lanes.values() if lane.active]
        if given_up:
            active = [lane for lane in active if lane.health.n_recent < DRAIN_TRIES]
        return all(lane.settled > target for lane in active)

    def _wake(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def _start(self, body: Callable[[], None], name: str) -> None:
        if self._threads is not None:
            thread = threading.Thread(target=body, name=f"millrace-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _log(self, sink: Sink) -> DurableCursor | VolatileCursor:
        if not sink.durable:
            return VolatileCursor()
        return DurableCursor(self._root, sink.name, self._check, term=self._term)

    def _mark_absent(self, manifest: Manifest) -> None:
        """Note, for sinks that this engine does not have, that results are kept no longer."""
        for name in sinks_with_cursors(self._root):
            if name not in self._lanes:
                log = DurableCursor(self._root, name, self._check, term=self._term)
                mark_absent(log, manifest.epoch)
