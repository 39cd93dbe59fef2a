"""A hundred thousand join queries end to end on Spark, against an identity over their rows.

Two streams share a key; each query joins them by it, within a window, and asks for a range of
either side. Few rows satisfy any query, as alerts are. Everything is durable, answers are rows.

The yardstick I reads the same files by Spark's own source and sends them through an identity
`mapInArrow` in a `foreachBatch` to nowhere.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import millrace
from bench.epoch_runs import ends_of, intervals, until
from bench.report import Figure, progress
from millrace.connectors.files import Files
from millrace.spark.launch import local_spark
from millrace.time import MINUTE

COLUMNS = "k bigint, v double, ts timestamp"
STREAMS = ("r", "s")
N_QUERIES, N_KEYS, DOMAIN = 100_000, 400_000, 1_000_000.0
ROWS, WARM, EPOCHS, ROUNDS, CORES = 400_000, 3, 5, 3, 2
DRIVEN, JOINED = 100.0, 1_000.0
"""How wide the ranges of a query are; about one row of a hundred is in both of some query."""
TEXT = (
    "SELECT ISTREAM(r.k, r.v AS a, s.v AS c, r.ts AS first, s.ts AS second) "
    "FROM r [RANGE 1 MINUTE], s [RANGE 1 MINUTE] "
    "WHERE r.k = s.k AND r.v BETWEEN :a AND :b AND s.v BETWEEN :c AND :d"
)


def end_to_end(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    """Measure ours and I in turn."""
    del folder  # nothing is drawn
    scratch = Path(tempfile.mkdtemp(prefix="bench-joins-"))
    spark = local_spark(cores=CORES)
    ratios, shares = [], []
    try:
        write(scratch)
        for round_ in range(rounds):
            plain = identity(spark, scratch)
            mine, share = ours(spark, scratch)
            ratios.append(plain / mine)
            shares.append(share)
            progress("spark", f"{round_}: I {plain:.2f} s, ours {mine:.2f} s an epoch")
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    note = f"{N_QUERIES:,} queries, {2 * ROWS:,} rows an epoch; {median(shares):.2%} of rows match"
    return [Figure("join queries end to end, of I", median(ratios), "at least", 0.2, "x", note)]


def write(directory: Path) -> None:
    """Write a file for each stream and epoch; an epoch is a minute."""
    random = np.random.default_rng(11)
    for name in STREAMS:
        (directory / name).mkdir()
        for epoch in range(WARM + EPOCHS + 1):
            times = epoch * MINUTE + np.arange(ROWS) * (MINUTE // ROWS)
            table = pa.table(
                {
                    "k": random.integers(0, N_KEYS, ROWS),
                    "v": random.random(ROWS) * DOMAIN,
                    "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                }
            )
            path = directory / name / f"part-{epoch:05d}.parquet"
            pq.write_table(table, path, row_group_size=1 << 17)


def queries() -> pa.Table:
    """Return the constants of all queries."""
    random = np.random.default_rng(12)
    low, least = (random.random(N_QUERIES) * DOMAIN for _ in range(2))
    return pa.table({"a": low, "b": low + DRIVEN, "c": least, "d": least + JOINED})


def identity(spark: SparkSession, directory: Path) -> float:
    """Run I over both streams; return the median seconds of an epoch."""
    ends: list[float] = []

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def epoch(batch: DataFrame, _number: int) -> None:
        batch.mapInArrow(same, batch.schema).write.format("noop").mode("overwrite").save()
        ends.append(time.perf_counter())

    one, other = (
        spark.readStream.name(name)
        .schema(COLUMNS)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(directory / name))
        for name in STREAMS
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = one.union(other).writeStream.foreachBatch(epoch)
        query = writer.option("checkpointLocation", checkpoint).start()
        until(lambda: len(ends) >= WARM + EPOCHS)
        query.stop()
    return median(intervals(ends, WARM))


def ours(spark: SparkSession, directory: Path) -> tuple[float, float]:
    """Run all queries; return the median seconds of an epoch, and the share of rows that match."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-joins-"))
    settings = millrace.Settings(rows=ROWS, shards=CORES)
    session = millrace.Session(scratch / "root", spark=spark, settings=settings)
    for name in STREAMS:
        source = Files(str(directory / name))
        session.stream(name, source, schema=COLUMNS, time="ts", delay="0 seconds")
    types = dict.fromkeys("abcd", "double")
    session.template("near", TEXT, parameters=types).insert(queries())
    sink = Told()
    session.sink(sink)
    ends = ends_of(session)
    run = session.start()
    until(lambda: len(ends) >= WARM + EPOCHS, run.wait)
    session.close()
    shutil.rmtree(scratch)
    return median(intervals(ends, WARM)), sink.share()


class Told(millrace.CallbackSink):
    """Counts which rows are in any answer: the later one of each pair."""

    def __init__(self) -> None:
        super().__init__(self._received, name="told")
        self._rows: dict[int, int] = {}

    def share(self) -> float:
        """Return the share of rows that completed a pair for some query, in a full epoch."""
        return median(list(self._rows.values())[1:] or [0]) / (2 * ROWS)

    def _received(self, _feed: str, epoch: int, table: pa.Table) -> None:
        pairs = table.select(["k", "first", "second"]).group_by(["k", "first", "second"])
        self._rows[epoch] = pairs.aggregate([]).num_rows
