"""A loop without Spark: epochs over pushed rows, in a thread of this process.

It does what Spark does for an engine: it chooses how far each stream is read, writes that down
before the epoch runs (`local/<epoch>`), and offers the same again if it was not committed. So a
process that is killed at any moment loses nothing and counts nothing twice.

    choose offsets ─► local/<epoch> ─► Engine.run ─► consumed files are deleted
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping

from millrace.connectors.pushed import Pushed, PushLog, folder_of
from millrace.engine.arrivals import from_pushed
from millrace.engine.backend import Binding, Outage
from millrace.engine.decide import next_due
from millrace.engine.epoch import Engine
from millrace.engine.inprocess import InProcess, Task
from millrace.engine.local import LocalBackend
from millrace.engine.pace import Pace
from millrace.errors import CorruptionError, FencedError, IdentityError
from millrace.operators.select import Function
from millrace.schema import Schema
from millrace.state.names import MissingError, number_of, numbered
from millrace.time import SECOND, WallClock

OFFSETS = "local"
POLL_SECONDS = 0.05
FATAL = (FencedError, IdentityError, CorruptionError)

_logger = logging.getLogger(__name__)


class LoopBackend(LocalBackend):
    """Runs an engine in a thread of this process, over what is pushed."""

    def schema_of(self, source: object) -> Schema | None:
        """Return the columns that a source knows; pushed rows have those that are declared."""
        return None if isinstance(source, Pushed) else super().schema_of(source)

    def start(
        self, engine: Engine, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> LoopRun:
        """Start the thread."""
        return LoopRun(engine, bindings, functions)


class LoopRun:
    """An engine that runs epochs by itself, as rows are pushed and time passes."""

    def __init__(
        self, engine: Engine, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> None:
        self._engine = engine
        self._bindings, self._functions = dict(bindings), dict(functions)
        self._logs: dict[str, PushLog] = {}
        self._pace = Pace(engine.settings.target)
        self._wanted, self._ended = threading.Event(), threading.Event()
        self._wanted.set()
        self._failure: BaseException | None = None
        self._rebinding = threading.Lock()
        engine.wait = self._ended.wait
        self._thread = threading.Thread(target=self._loop, name="millrace-loop", daemon=True)
        self._thread.start()

    @property
    def up(self) -> bool:
        """Whether epochs can follow: they can at once."""
        return True

    @property
    def failure(self) -> BaseException | None:
        """What last went wrong, if it has not been overcome."""
        return self._failure

    @property
    def outages(self) -> Mapping[str, Outage]:
        """The streams whose sources cannot be looked at: none."""
        return {}

    def nudge(self) -> None:
        """Run an epoch soon."""
        self._wanted.set()

    def rebind(self, bindings: Mapping[str, Binding], functions: Mapping[str, Function]) -> None:
        """Go on with other sources or functions, from the next epoch on."""
        with self._rebinding:
            self._bindings, self._functions = dict(bindings), dict(functions)
        self.nudge()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends; raise what ended it, if it failed for good."""
        ended = self._ended.wait(timeout)
        if ended and isinstance(self._failure, FATAL):
            raise self._failure
        return ended

    def stop(self) -> None:
        """Finish the epoch in flight and stop."""
        self._ended.set()
        self._wanted.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _loop(self) -> None:
        tries = 0
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                ran = self._epoch()
            except FATAL as error:
                self._failure = error
                _logger.error("run ended: %s", error)
                self._ended.set()
                return
            except Exception as error:  # as Spark's query is started again, so is this
                self._failure, tries = error, tries + 1
                _logger.warning("epoch failed, tried again: tries=%d %s", tries, error)
                self._ended.wait(min(self._engine.settings.backoff / SECOND * 2**tries, 60.0))
                continue
            self._failure, tries = None, 0
            self._rest(began, ran=ran)

    def _rest(self, began: float, *, ran: bool) -> None:
        """Wait until something is to be done, and for as long as the trigger says."""
        pause = self._engine.settings.trigger / SECOND - (time.monotonic() - began)
        if ran and pause > 0:
            self._ended.wait(pause)
        elif not ran:
            self._wanted.wait(POLL_SECONDS)

    def _epoch(self) -> bool:
        """Run an epoch if there is a reason to; say whether there was."""
        with self._rebinding:
            bindings, functions = self._bindings, self._functions
        epoch = self._engine.manifest.epoch + 1
        done, planned = self._offsets(epoch)
        if planned is None:
            asked, ends = self._wanted.is_set(), self._latest(bindings, done)
            if not (asked or ends != done or self._due()):
                return False
            planned = ends
            self._engine.root.put(numbered(OFFSETS, epoch), json.dumps(planned).encode())
        self._wanted.clear()
        execution = InProcess(
            self._engine.root, list(self._tasks(bindings, done, planned)), functions
        )
        statistics = self._engine.run(execution.identity(epoch), execution)
        if statistics is not None:
            self._pace.follow(statistics)
        self._consume(bindings, epoch, planned)
        return True

    def _offsets(self, epoch: int) -> tuple[dict[str, int], dict[str, int] | None]:
        """Return where the last committed epoch ended, and what was planned for this one."""
        return self._written(epoch - 1) or {}, self._written(epoch)

    def _written(self, epoch: int) -> dict[str, int] | None:
        if epoch < 0:
            return None
        try:
            found: dict[str, int] = json.loads(self._engine.root.get(numbered(OFFSETS, epoch)))
        except MissingError:
            return None
        return found

    def _latest(self, bindings: Mapping[str, Binding], done: Mapping[str, int]) -> dict[str, int]:
        """Choose where the next epoch ends in each stream; those that are gone are forgotten."""
        found = {}
        for folder, (name, log) in self._pushed(bindings).items():
            start = done.get(folder, 0)
            if log.refresh() > start:
                limit = self._engine.settings.rows or self._pace.limit(name)
                found[folder] = log.advance(start, limit)
            elif start:
                found[folder] = start
        return found

    def _pushed(self, bindings: Mapping[str, Binding]) -> dict[str, tuple[str, PushLog]]:
        found = {}
        for name, binding in bindings.items():
            if isinstance(binding.source, Pushed):
                folder = folder_of(name, binding.spec.born)
                log = self._logs.setdefault(folder, PushLog(self._engine.root, folder))
                found[folder] = name, log
        return found

    def _tasks(
        self, bindings: Mapping[str, Binding], done: Mapping[str, int], planned: Mapping[str, int]
    ) -> Iterator[Task]:
        for folder, (name, log) in self._pushed(bindings).items():
            start, stop = done.get(folder, 0), planned.get(folder, 0)
            if stop > start:
                files = log.files(start, stop)
                spec = self._engine.registry.catalog.stream(name)
                yield Task(name, list(from_pushed(self._engine.root, folder, files, spec)))

    def _consume(
        self, bindings: Mapping[str, Binding], epoch: int, planned: Mapping[str, int]
    ) -> None:
        """Delete what is committed: pushed files, and offsets of epochs before the last."""
        for folder, (_, log) in self._pushed(bindings).items():
            if planned.get(folder, 0):
                log.consume(planned[folder])
        if epoch % 64 == 0:
            for entry in self._engine.root.list(f"{OFFSETS}/"):
                if (number_of(entry.name) or 0) < epoch - 1:
                    self._engine.root.delete(entry.name)

    def _due(self) -> bool:
        due = next_due(self._engine.manifest, self._engine.registry.catalog)
        return due is not None and due <= WallClock().now()
