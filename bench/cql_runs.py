"""The contestants of the CQL benchmark: Spark's own stateful operators, and queries of ours.

Both read the same Parquet files, one a stream and epoch, with times that go on from file to file.
Spark keeps its state in RocksDB with changelog checkpointing; both run on the same cores and keep
everything durable. An epoch takes what a number of them take in all, divided by it: some are dearer
than others, where windows close or runs are merged.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import millrace
from bench.epoch_runs import ends_of, intervals, until
from millrace.connectors.files import Files

COLUMNS = "k bigint, v double, ts timestamp"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE = "spark.sql.streaming.stateStore"

Keys = Callable[[int, int], np.ndarray]
"""From the number of an epoch and of its rows to the keys of the rows."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What an epoch took, and how many bytes of state there were at the end."""

    seconds: float
    state: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams of files: how many rows an epoch has of each, and how much time they span, in us."""

    streams: Mapping[str, Keys]
    rows: int
    span: int
    epochs: int
    warm: int

    def write(self, directory: Path, *, first: int = 0, span: int | None = None) -> None:
        """Write a file for each stream and epoch; values are random, times ascend evenly.

        They begin after so many epochs of some span.
        """
        random = np.random.default_rng(7)
        step, begin = self.span // self.rows, first * (span or self.span)
        for name, keys in self.streams.items():
            (directory / name).mkdir(parents=True)
            for epoch in range(self.warm + self.epochs + 1):
                times = begin + epoch * self.span + np.arange(self.rows) * step
                table = pa.table(
                    {
                        "k": keys(epoch, self.rows),
                        "v": random.random(self.rows) * 100,
                        "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                    }
                )
                pq.write_table(
                    table, directory / name / f"part-{epoch:05d}.parquet", row_group_size=1 << 18
                )


def _has_snapshots(state: Path) -> bool:
    """Say whether all stores of Spark that log changes have written a snapshot too."""
    logged = {each.parent for each in state.rglob("*.changelog")}
    return bool(logged) and all(any(store.glob("*.zip")) for store in logged)


def spark_epochs(
    spark: SparkSession,
    directory: Path,
    work: Workload,
    build: Callable[[Mapping[str, DataFrame]], DataFrame],
    mode: str,
    *,
    settled: bool = False,
) -> Measured:
    """Run a query of Spark's own operators.

    If its state is to be `settled`, it is measured when each store has written its first snapshot,
    as it does each minute; until then there are only logs of what has changed.
    """
    spark.conf.set(f"{STATE}.providerClass", ROCKSDB)
    spark.conf.set(f"{STATE}.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    frames = {
        name: spark.readStream.name(name)
        .schema(COLUMNS)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(directory / name))
        .withWatermark("ts", "0 seconds")
        for name in work.streams
    }
    ends: list[float] = []

    def epoch(batch: DataFrame, _number: int) -> None:
        batch.write.format("noop").mode("overwrite").save()
        ends.append(time.perf_counter())

    checkpoint = Path(tempfile.mkdtemp(prefix="bench-cql-"))
    writer = build(frames).writeStream.foreachBatch(epoch).outputMode(mode)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    until(lambda: len(ends) >= work.warm + work.epochs)
    if settled:
        until(lambda: _has_snapshots(checkpoint / "state"))
    query.stop()
    state = sum(each.stat().st_size for each in (checkpoint / "state").rglob("*") if each.is_file())
    shutil.rmtree(checkpoint, ignore_errors=True)
    return Measured(fmean(intervals(ends[: work.warm + work.epochs], work.warm)), state)


def growing(
    spark: SparkSession, directory: Path, small: Workload, large: Workload, text: str
) -> tuple[float, float, int]:
    """Run a query over small epochs, then large ones, then small ones again.

    Returns the seconds of a small epoch before and after, and how many rows are remembered then.
    """
    scratch = Path(tempfile.mkdtemp(prefix="bench-cql-"))
    source = scratch / "a"
    source.mkdir()
    session = millrace.Session(scratch / "root", spark=spark)
    frame = spark.readStream.name("a").schema(COLUMNS).option("maxFilesPerTrigger", 1)
    session.stream("a", frame.parquet(str(source)), schema=COLUMNS, time="ts", delay="0 seconds")
    session.query(text, name="q", keep=0)
    ends = ends_of(session)
    run = session.start()
    n_small = small.warm + small.epochs
    for each in sorted((directory / "a").iterdir())[:n_small]:
        shutil.copy(each, source / each.name)
    until(lambda: len(ends) >= n_small, run.wait)
    empty = median(intervals(ends, small.warm))
    large.write(scratch / "large", first=n_small + 1, span=small.span)
    for each in sorted((scratch / "large" / "a").iterdir()):
        each.rename(source / f"q{each.name}")
    n_large = large.warm + large.epochs + 1
    until(lambda: len(ends) >= n_small + n_large, run.wait)
    begin = (n_small + 1) * small.span + n_large * large.span
    small.write(scratch / "again", first=1, span=begin)
    for each in sorted((scratch / "again" / "a").iterdir())[:n_small]:
        each.rename(source / f"r{each.name}")
    until(lambda: len(ends) >= 2 * n_small + n_large, run.wait)
    full = median(intervals(ends[n_small + n_large :], small.warm))
    rows = sum(
        store.rows
        for name, store in session.engine.manifest.stores.items()
        if name.startswith(("state/", "elements/"))
    )
    session.close()
    shutil.rmtree(scratch)
    return empty, full, rows


def our_epochs(
    spark: SparkSession,
    directory: Path,
    work: Workload,
    text: str,
    parameters: pa.Table | None = None,
) -> Measured:
    """Run a standing query of ours, or one for each row of parameters."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-cql-"))
    settings = millrace.Settings(rows=work.rows, shards=2)
    session = millrace.Session(scratch / "root", spark=spark, settings=settings)
    for name in work.streams:
        source = Files(str(directory / name))
        session.stream(name, source, schema=COLUMNS, time="ts", delay="0 seconds")
    if parameters is None:
        session.query(text, name="q", keep=0)
    else:
        types = dict.fromkeys(parameters.column_names, "bigint")
        session.template("q", text, parameters=types).insert(parameters)
    ends = ends_of(session)
    run = session.start()
    until(lambda: len(ends) >= work.warm + work.epochs, run.wait)
    state = sum(
        piece.bytes
        for name, store in session.engine.manifest.stores.items()
        if name.startswith(("state/", "elements/"))
        for each in store.runs
        for piece in each.pieces
    )
    session.close()
    shutil.rmtree(scratch)
    return Measured(fmean(intervals(ends[: work.warm + work.epochs], work.warm)), state)
