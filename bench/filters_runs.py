"""Millrace as a contestant: one session with its queries, started and stopped for each round.

The queries are registered once. Between rounds the run is stopped, so that it takes nothing from
the others; when it is started again it goes on with the files that it has not read yet.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import millrace
from bench.epoch_runs import until
from bench.filters_rivals import Input, Span
from bench.filters_workloads import Counts
from millrace.connectors.sinks.sink import Move
from millrace.engine.statistics import EpochStatistics


class CountSink(millrace.CallbackSink):
    """Keeps the counts of the newest epochs, and the total of every epoch."""

    def __init__(self, kept: int = 64) -> None:
        super().__init__(self._received, name="counts", fan_out="counts")
        self.tables: dict[tuple[str, int], pa.Table] = {}
        self.totals: set[int] = set()
        self._kept = kept

    def counts(self, qids: Sequence[int]) -> Counts:
        """Return the counts of these queries in the newest epoch."""
        return counts_of(list(self.tables.values())[-1], qids)

    def _received(self, feed: str, epoch: int, table: pa.Table) -> None:
        self.tables[feed, epoch] = table
        self.totals.add(int(table["n_rows"].to_numpy().sum()))
        if len(self.tables) > self._kept:
            del self.tables[next(iter(self.tables))]


class TimedParquetSink(millrace.ParquetSink):
    """Writes Parquet, one file an epoch, and notes when each is public."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, name="matches", roll_epochs=1)
        self.public: list[float] = []

    def fulfil(self, moves: Sequence[Move]) -> None:
        """Make files public, then look at the clock."""
        super().fulfil(moves)
        if moves:
            self.public.append(time.perf_counter())


class Contestant:
    """A session over one input; `sink` says in which form answers are wanted."""

    def __init__(
        self,
        spark: SparkSession,
        root: Path,
        given: Input,
        sink: millrace.CallbackSink | millrace.ParquetSink,
        *,
        descriptors: bool = True,
        rows: int | None = None,
    ) -> None:
        self.sink, self._root, self._given = sink, root, given
        settings = millrace.Settings(rows=given.rows if rows is None else rows)
        self.session = millrace.Session(root, spark=spark, settings=settings)
        source = millrace.Files(str(given.directory)) if descriptors else given.frame(spark)
        self.session.stream("rows", source, schema=given.columns, time="ts", delay="1 hour")
        self.session.sink(sink)
        self.ends: list[float] = []
        self.ran: list[EpochStatistics] = []
        self._watch()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.session.close()
        shutil.rmtree(self._root, ignore_errors=True)

    def rate(self, span: Span) -> float:
        """Run some epochs; return the rows a second of those that are timed."""
        with self.running():
            self.wait_epochs(span.warm + span.epochs)
            taken = np.diff(self.ends[span.warm - 1 : span.warm + span.epochs])
        return self._given.rows / float(np.median(taken))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run epochs; `ends` and `ran` are those of this run."""
        self.ends, self.ran = [], []
        run = self.session.start()
        self._ended: Callable[[float], bool] = run.wait
        try:
            yield
        finally:
            run.stop()

    def wait_epochs(self, n_epochs: int) -> None:
        """Wait until so many epochs with rows have run since the start."""
        until(lambda: len(self.ends) >= n_epochs, self._ended)

    def wait_for(self, done: Callable[[], bool]) -> None:
        """Wait for something that the running epochs bring about."""
        until(done, self._ended)

    def stage(self, name: str, last: int) -> float:
        """Return the median seconds of a stage in the last epochs."""
        return float(np.median([each.seconds.get(name, 0.0) for each in self.ran[-last:]]))

    def _watch(self) -> None:
        engine, run_epoch = self.session.engine, self.session.engine.run

        def watched(*arguments: object) -> EpochStatistics | None:
            statistics = run_epoch(*arguments)  # type: ignore[arg-type]
            if statistics is not None and statistics.rows:
                self.ends.append(time.perf_counter())
                self.ran.append(statistics)
            return statistics

        engine.run = watched  # type: ignore[method-assign, assignment]


def counts_of(table: pa.Table, qids: Sequence[int]) -> Counts:
    """Bring counts into the order of these queries; those that are not there are 0."""
    order = np.argsort(np.asarray(qids, np.int64))
    known = np.asarray(qids, np.int64)[order]
    found, told = table["_query"].to_numpy(), table["n_rows"].to_numpy()
    places = np.searchsorted(known, found)
    mine = (places < known.size) & (known[np.minimum(places, known.size - 1)] == found)
    counts = np.zeros(known.size, np.int64)
    np.add.at(counts, order[places[mine]], told[mine])
    return counts
