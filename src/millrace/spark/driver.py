"""The driver: one StreamingQuery, started, supervised, nudged, restarted and stopped.

    Spark ── foreachBatch(df, n) ──► Engine.run(identity of n, SparkExecution(df))
      ▲                                   │
      └── control file ◄── timers, registrations
          pace file    ◄── measured cost of epochs

The engine handles everything that concerns one epoch, its retries included. What escapes from
it ends the StreamingQuery; the supervisor then starts it again with backoff, except after
failures that a restart cannot cure (another engine has the root, the checkpoint is foreign, a
file is damaged, the JVM is gone): those end the run, and `wait` raises them.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millrace.engine.backend import Binding
from millrace.engine.decide import next_due
from millrace.engine.epoch import Engine
from millrace.engine.outage import Outage
from millrace.errors import (
    CorruptionError,
    FencedError,
    FormatVersionError,
    IdentityError,
    MachineError,
    MillraceError,
)
from millrace.operators.select import Function
from millrace.spark import union
from millrace.spark.checkpoint import Checkpoint
from millrace.spark.control import ControlFile
from millrace.spark.dealing import Dealer
from millrace.spark.execution import SparkExecution
from millrace.spark.outages import Outages
from millrace.spark.pacing import Pacing
from millrace.state.run_file import forget
from millrace.time import SECOND, WallClock

FATAL = (FencedError, IdentityError, CorruptionError, FormatVersionError, MachineError)
JVM_GONE = (Py4JError, ConnectionError)
LONGEST_BACKOFF = 60.0
STEADY_SECONDS = 60.0
POLL_SECONDS = 0.1
INTERRUPTION_SECONDS = 10.0

_logger = logging.getLogger(__name__)
_INTERRUPTED = "java.lang.InterruptedException: sleep interrupted"


def _worth_logging(record: logging.LogRecord) -> bool:
    """Tell errors from the interruption that ends an epoch in peace."""
    return record.exc_info is None or _INTERRUPTED not in str(record.exc_info[1])


logging.getLogger("py4j.clientserver").addFilter(_worth_logging)


def brief(cause: BaseException) -> str:
    """Say in one line what went wrong; Spark's messages are whole stacks of Java."""
    if isinstance(cause, MillraceError):
        return f"{cause.message}: {cause.detail}" if cause.detail else cause.message
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    ours = [line.partition("Error: ")[2] for line in lines if line.startswith("millrace.")]
    return (ours or lines or [type(cause).__name__])[-1 if ours else 0][:300]


class _StoppingError(MillraceError):
    """Ends an epoch that is offered, or waits for its next try, when the run is to stop."""


class SparkRun:
    """An engine that runs on Spark."""

    def __init__(
        self,
        spark: SparkSession,
        engine: Engine,
        bindings: Mapping[str, Binding],
        functions: Mapping[str, Function],
    ) -> None:
        self._spark, self._engine = spark, engine
        self._bindings, self._functions = dict(bindings), dict(functions)
        forget(engine.root)  # another root may have stood here before
        self._checkpoint = Checkpoint(engine.root)
        self._checkpoint.make_fit(engine)
        self._epoch_lock = threading.Lock()
        self._query_lock = threading.RLock()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._up = threading.Event()
        self._failure: BaseException | None = None
        self._dealer: Dealer | None = None
        engine.wait = self._wait
        self._directory = tempfile.TemporaryDirectory(prefix="millrace-")
        scratch = Path(self._directory.name)
        self._control = ControlFile(scratch / "control.json")
        self._pacing = Pacing(lambda: engine.settings, scratch / "pace.json")
        self._outages = Outages(scratch)
        try:
            self.nudge()
            self._query = self._start_query()
        except BaseException:
            self._directory.cleanup()
            raise
        self._threads = [
            threading.Thread(target=body, name=f"millrace-{name}", daemon=True)
            for name, body in (("supervisor", self._supervise), ("timers", self._keep_time))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def query(self) -> StreamingQuery:
        """Spark's streaming query as it is now; a restart makes a new one."""
        return self._query

    @property
    def up(self) -> bool:
        """Whether Spark has called an epoch: everything that a start takes is done."""
        return self._up.is_set()

    @property
    def failure(self) -> BaseException | None:
        """What last went wrong outside of an epoch, if it has not been overcome."""
        return self._failure

    @property
    def outages(self) -> Mapping[str, Outage]:
        """The streams whose sources cannot be looked at now."""
        return self._outages.now

    def nudge(self) -> None:
        """Let Spark call an epoch, though no row may have arrived.

        What is to take effect is durable already, so that it cannot fail: if the file cannot be
        written, the next row or timer brings the epoch.
        """
        if self._ended.is_set():
            return
        sequence = self._engine.registry.catalog.sequence
        try:
            self._control.move(registry=sequence, tick=WallClock().now())
        except OSError as error:
            _logger.warning("epoch not asked for, it will come later: %s", error)

    def rebind(self, bindings: Mapping[str, Binding], functions: Mapping[str, Function]) -> None:
        """Finish the epoch in flight and go on with other sources or functions."""
        with self._query_lock:
            if self._ended.is_set():
                return
            self._union(bindings, functions)  # sources that do not go together are refused here
            self._bindings, self._functions = dict(bindings), dict(functions)
            try:
                self._stop_query()
            finally:
                self._stopping.clear()
            self.nudge()
            self._query = self._start_query()

    def take_settings(self) -> None:
        """Go on with the settings as they are now; another trigger takes another query."""
        if self._trigger != self._engine.settings.trigger:
            self.rebind(self._bindings, self._functions)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run ends; raise what ended it, if it failed for good."""
        ended = self._ended.wait(timeout)
        if ended and isinstance(self._failure, FATAL):
            raise self._failure
        return ended

    def stop(self) -> None:
        """Finish the epoch in flight and stop the query; results that wait stay in the root."""
        with self._query_lock:
            self._stop_query()
            self._ended.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._directory.cleanup()

    def _epoch(self, batch: DataFrame, number: int) -> None:
        """Run one epoch; Spark calls this in a thread of its own."""
        self._up.set()
        with self._epoch_lock, contextlib.suppress(_StoppingError):
            if not self._stopping.is_set():
                self._run_epoch(batch, number)
                return
        self._await_interruption()

    def _run_epoch(self, batch: DataFrame, number: int) -> None:
        try:
            identity = self._checkpoint.identity(number)
            quiet = self._checkpoint.quiet(identity)
            if not quiet and self._dealer is not None:
                batch = self._dealer.chunks(batch, self._checkpoint, identity)
            execution = SparkExecution(batch, self._engine.root, self._functions, quiet)
            statistics = self._engine.run(identity, execution)
        except _StoppingError:
            raise
        except BaseException as error:
            self._failure = error
            raise
        self._failure = None
        if statistics is not None:
            self._pacing.follow(statistics)

    def _await_interruption(self) -> None:
        """Leave an epoch undone because the query is stopped.

        To return would tell Spark that the epoch is done, and to raise that it failed. So the
        thread of the query, in which calls from here are served, sleeps until Spark interrupts
        it in order to stop; that error Spark knows as its own.
        """
        jvm = self._spark.sparkContext._jvm
        assert jvm is not None, "an epoch is called by a JVM"
        jvm.java.lang.Thread.sleep(int(1_000 * INTERRUPTION_SECONDS))
        raise _StoppingError("the run is stopping")

    def _wait(self, seconds: float) -> None:
        """Wait between two tries of an epoch; to be told to stop ends the epoch."""
        if self._stopping.wait(seconds):
            raise _StoppingError("the run is stopping")

    def _union(
        self, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> DataFrame:
        return union.build(
            self._spark,
            self._engine.root.uri,
            bindings,
            functions,
            control_file=self._control.path,
            pacing=self._pacing,
            dealing=self._engine.settings.dealing,
        )

    def _start_query(self) -> StreamingQuery:
        self._outages.forget()
        self._pacing.bind(self._bindings)
        chunks = self._union(self._bindings, self._functions)
        self._dealer = None
        if self._engine.settings.dealing:
            self._dealer = Dealer(self._engine.root, self._bindings, self._functions)
        writer = chunks.writeStream.foreachBatch(self._epoch)
        writer = writer.option("checkpointLocation", str(self._checkpoint.path))
        self._trigger = self._engine.settings.trigger
        pause = f"{self._trigger // 1000} milliseconds"
        return writer.trigger(processingTime=pause).start()

    def _stop_query(self) -> None:
        self._stopping.set()
        with self._epoch_lock:
            pass  # the epoch in flight has ended; the next one is refused
        with contextlib.suppress(*JVM_GONE):
            self._query.stop()

    def _supervise(self) -> None:
        """Start the query again whenever it ends by itself."""
        restarts, started, told = 0, time.monotonic(), ""
        while not self._ended.wait(POLL_SECONDS):
            cause = self._cause_of_end()
            self._outages.look()
            if cause is None:
                self._follow_pace()
                continue
            if isinstance(cause, FATAL):
                _logger.error("run ended: %s", cause)
                self._ended.set()
                return
            restarts = 0 if time.monotonic() - started > STEADY_SECONDS else restarts + 1
            backoff = self._engine.settings.backoff / SECOND
            pause = min(backoff * 2 ** min(restarts, 8), LONGEST_BACKOFF)
            words = brief(cause)
            level = logging.INFO if restarts and words == told else logging.WARNING
            _logger.log(level, "query ended, starting again: wait=%.1fs cause=%s", pause, words)
            _logger.debug("why the query ended", exc_info=cause)
            told = words
            if self._ended.wait(pause):
                return
            self._start_again()
            started = time.monotonic()

    def _follow_pace(self) -> None:
        """Make sources anew whose limit has changed much."""
        if self._pacing.outgrown():
            try:
                self.rebind(self._bindings, self._functions)
            except Exception as error:  # the query has ended, or goes on with the old limit
                self._failure = error
                _logger.warning("sources were not made anew: cause=%s", error)

    def _cause_of_end(self) -> BaseException | None:
        """Return why the query has ended by itself, None if it runs."""
        with self._query_lock:
            try:
                if self._ended.is_set() or self._query.isActive:
                    return None
                if self._failure is None:
                    self._failure = self._query.exception() or RuntimeError("it was stopped")
            except JVM_GONE as error:
                self._failure = MachineError(
                    "the JVM that Spark runs in has ended",
                    detail=f"{error}.",
                    hint="Start the program again; it goes on after the last committed epoch.",
                )
            return self._failure

    def _start_again(self) -> None:
        with self._query_lock:
            # Meanwhile the run may have ended, or been given other sources and started.
            if self._ended.is_set() or self._query.isActive:
                return
            self._failure = None
            self._stopping.clear()
            try:
                self._query = self._start_query()
            except Exception as error:
                self._failure = error

    def _keep_time(self) -> None:
        """Call an epoch when a timer is due."""
        while not self._ended.is_set():
            due = next_due(self._engine.manifest, self._engine.registry.catalog)
            now = WallClock().now()
            if due is not None and due <= now:
                with contextlib.suppress(OSError):  # a full disk: tried again right away
                    self.nudge()
                self._ended.wait(POLL_SECONDS)
                continue
            pause = POLL_SECONDS if due is None else (due - now) / SECOND
            self._ended.wait(min(max(pause, 0.001), POLL_SECONDS))
