"""The backend without Spark: epochs run when rows are fed, in the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millrace.engine.arrivals import from_rows
from millrace.engine.backend import Binding
from millrace.engine.epoch import Engine
from millrace.engine.given_rows import Rows, table_of
from millrace.engine.inprocess import InProcess, Task
from millrace.engine.outage import Outage
from millrace.engine.statistics import EpochStatistics
from millrace.engine.sysstream import NAME as SYSSTREAM
from millrace.errors import PlanError
from millrace.operators.select import Function
from millrace.schema import Schema


class Feed:
    """A source that rows are fed into by hand; only for sessions without Spark."""

    def __init__(self, schema: str | Schema | None = None) -> None:
        self.schema = Schema.of(schema) if isinstance(schema, str) else schema


class LocalBackend:
    """Runs an engine in this process."""

    def schema_of(self, source: object) -> Schema | None:
        """Return the columns that a feed was made with."""
        if not isinstance(source, Feed):
            raise PlanError(
                f"a session without Spark cannot read from {type(source).__name__}",
                hint="Feed rows into a millrace.Feed, or give the session a SparkSession.",
            )
        return source.schema

    def make_source(
        self, kind: str, options: Mapping[str, Any], stream: str, schema: Schema
    ) -> Feed:
        """Make a source that is fed by hand in the place of any other."""
        del kind, options, stream
        return Feed(schema)

    def start(
        self, engine: Engine, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> LocalRun:
        """Return a run that waits to be fed."""
        return LocalRun(engine, bindings, functions)


class LocalRun:
    """An engine that runs an epoch whenever it is fed."""

    def __init__(
        self, engine: Engine, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> None:
        self._engine = engine
        self._one_at_a_time = threading.RLock()
        self.rebind(bindings, functions)
        self._stopped = False

    def feed(self, **streams: Rows) -> EpochStatistics:
        """Run one epoch over these rows, given as for `Template.insert`; a stream is a task."""
        tasks = []
        for name, rows in streams.items():
            spec = self._engine.registry.catalog.stream(name)
            tasks.append(Task(name, [from_rows(spec, _one_batch(rows, name), origin="feed")]))
        with self._one_at_a_time:
            tasks += self._told()
            execution = InProcess(self._engine.root, tasks, self._functions)
            epoch = self._engine.manifest.epoch + 1
            statistics = self._engine.run(execution.identity(epoch), execution)
        assert statistics is not None, "an epoch beyond the last one is new"
        return statistics

    def _told(self) -> list[Task]:
        """Return what the engine tells of itself, as a task of the next epoch."""
        rows = None if self._engine.sysstream is None else self._engine.sysstream.take()
        if rows is None:
            return []
        spec = self._engine.registry.catalog.stream(SYSSTREAM)
        return [Task(SYSSTREAM, [from_rows(spec, rows, origin="engine")])]

    @property
    def up(self) -> bool:
        """Whether it can be fed."""
        return True

    @property
    def failure(self) -> BaseException | None:
        """What went wrong outside of an epoch: nothing does."""
        return None

    @property
    def outages(self) -> Mapping[str, Outage]:
        """The streams whose sources cannot be looked at: none."""
        return {}

    def nudge(self) -> None:
        """Run an epoch without rows."""
        self.feed()

    def rebind(self, bindings: Mapping[str, Binding], functions: Mapping[str, Function]) -> None:
        """Go on with other functions; the next feed uses them."""
        self._bindings, self._functions = bindings, functions

    def take_settings(self) -> None:
        """Go on with the settings as they are now; the next feed does."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002  nothing runs by itself
        """Return whether it was stopped."""
        return self._stopped

    def stop(self) -> None:
        """Stop; the next feed would need a new run."""
        self._stopped = True


def _one_batch(given: Rows, stream: str) -> pa.RecordBatch:
    if isinstance(given, pa.RecordBatch):
        return given
    rows = table_of(given, f'rows for stream "{stream}"')
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)
