"""A loop without Spark: epochs over pushed rows and files, in a thread of this process.

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
from typing import Any

from millrace.engine.backend import Binding
from millrace.engine.decide import next_due
from millrace.engine.epoch import Engine
from millrace.engine.inprocess import InProcess, Task
from millrace.engine.local_sources import LocalSource, local_source, no_source
from millrace.engine.outage import Outage
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


class LoopBackend:
    """Runs an engine in a thread of this process."""

    def schema_of(self, source: object) -> Schema | None:
        """Return nothing: sources that are read here have the columns that are declared."""
        raise no_source(type(source).__name__)

    def make_source(
        self, kind: str, options: Mapping[str, Any], stream: str, schema: Schema
    ) -> object:
        """Refuse sources that only Spark reads."""
        del options, stream, schema
        raise no_source(kind)

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
        self._sources: dict[str, LocalSource] = {}
        self._pace = Pace(engine.settings)
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

    def take_settings(self) -> None:
        """Go on with the settings as they are now; the next epoch does."""
        self._pace.aim(self._engine.settings)

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
                _logger.exception("run ended")
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
        epoch, sources = self._engine.manifest.epoch + 1, self._bound(bindings)
        done, planned = self._offsets(epoch)
        if planned is None:
            asked, planned = self._wanted.is_set(), self._latest(sources, done)
            if not (asked or planned != done or self._due()):
                return False
            self._engine.root.put(numbered(OFFSETS, epoch), json.dumps(planned).encode())
        self._wanted.clear()
        tasks = list(self._tasks(sources, done, planned))
        execution = InProcess(self._engine.root, tasks, functions)
        statistics = self._engine.run(execution.identity(epoch), execution)
        if statistics is not None:
            self._pace.follow(statistics)
        self._consume(sources, epoch, planned)
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

    def _latest(
        self, sources: Mapping[str, LocalSource], done: Mapping[str, int]
    ) -> dict[str, int]:
        """Choose where the next epoch ends in each stream; those that are gone are forgotten."""
        found = {}
        for key, source in sources.items():
            start = done.get(key, 0)
            limit = self._engine.settings.rows or self._pace.limit(key.rpartition(".")[0])
            end = source.advance(start, limit) if source.latest() > start else start
            if end:
                found[key] = end
        return found

    def _bound(self, bindings: Mapping[str, Binding]) -> dict[str, LocalSource]:
        """Return the sources of the streams, by name and birth."""
        found = {}
        for name, binding in bindings.items():
            key = f"{name}.{binding.spec.born}"
            if key not in self._sources:
                self._sources[key] = local_source(self._engine.root, binding)
            found[key] = self._sources[key]
        return found

    def _tasks(
        self, sources: Mapping[str, LocalSource], done: Mapping[str, int], ends: Mapping[str, int]
    ) -> Iterator[Task]:
        for key, source in sources.items():
            start, stop = done.get(key, 0), ends.get(key, 0)
            if stop > start:
                yield Task(key.rpartition(".")[0], list(source.arrived(start, stop)))

    def _consume(
        self, sources: Mapping[str, LocalSource], epoch: int, ends: Mapping[str, int]
    ) -> None:
        """Let go of what is committed, and of the offsets of epochs before the last."""
        for key, source in sources.items():
            if ends.get(key, 0):
                source.consume(ends[key])
        if epoch % 64 == 0:
            for entry in self._engine.root.list(f"{OFFSETS}/"):
                if (number_of(entry.name) or 0) < epoch - 1:
                    self._engine.root.delete(entry.name)

    def _due(self) -> bool:
        due = next_due(self._engine.manifest, self._engine.registry.catalog)
        return due is not None and due <= WallClock().now()
