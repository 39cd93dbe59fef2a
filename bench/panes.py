"""10,000 aggregates of one stream, 100 windows by 100 filter constants, against Spark's own.

python -m bench.joins --only aggregates

Each query counts and adds up, by group, what is above its constant in its window, every 100
seconds. Spark runs some of them, k = 1, 2, 4 and 8, as window aggregations in one streaming query,
with state in RocksDB; a line through these is read off at 10,000. All of them are one template of
ours, and all answers are delivered to a sink. What Spark tells of its queries is compared with what
ours tell.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import millrace
from bench.cql_runs import ROCKSDB, STATE
from bench.epoch_runs import ends_of, intervals, until
from bench.report import Figure, progress
from millrace.connectors.files import Files
from millrace.connectors.sinks.callback import CallbackSink
from millrace.spark.launch import local_spark
from millrace.time import SECOND

COLUMNS = "k bigint, v double, ts timestamp"
CORES = 2
ROWS = 100_000
GROUPS = 10
EVERY = 100
"""How many seconds lie between two answers, and in an epoch."""
WINDOWS, CONSTANTS = range(100, 1_100, 10), range(100)
WARM, EPOCHS = 11, 6
"""The widest window is full after the first."""
THEIR_WARM, THEIR_EPOCHS = 4, 4
MEASURED = (1, 2, 4, 8)
TEXT = (
    f"SELECT RSTREAM(k, count(*) AS n, sum(v) AS s, avg(v) AS m) EVERY {EVERY} SECONDS "
    "FROM a [RANGE :w SECONDS] WHERE v > :x GROUP BY k"
)

Row = tuple[int, int, int, float, float]
"""The instant, the group, and the aggregates of it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: the size of its window in seconds, and what values are above."""

    window: int
    above: float


def all_queries() -> list[Asked]:
    """Return every window with every constant, in an order that mixes them."""
    found = [Asked(window, float(above)) for window in WINDOWS for above in CONSTANTS]
    order = np.random.default_rng(5).permutation(len(found))
    return [found[each] for each in order]


def write(directory: Path) -> None:
    """Write a file for each epoch; sums of values are exact, and no time is where a window ends."""
    random, step = np.random.default_rng(7), EVERY * SECOND // ROWS
    directory.mkdir(parents=True)
    for epoch in range(WARM + EPOCHS + 1):
        times = epoch * EVERY * SECOND + np.arange(ROWS) * step + step // 2
        table = pa.table(
            {
                "k": random.integers(0, GROUPS, ROWS),
                "v": random.integers(0, 200, ROWS) / 2,
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            }
        )
        pq.write_table(table, directory / f"part-{epoch:05d}.parquet", row_group_size=1 << 18)


def spark_runs(
    spark: SparkSession, directory: Path, asked: list[Asked]
) -> tuple[float, dict[int, set[Row]]]:
    """Run window aggregations of Spark; return the seconds of an epoch, and what each tells."""
    spark.conf.set(f"{STATE}.providerClass", ROCKSDB)
    spark.conf.set(f"{STATE}.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
    parts = [
        _aggregated(_source(spark, directory, f"a{at}"), each).withColumn("q", f.lit(at))
        for at, each in enumerate(asked)
    ]
    whole = parts[0]
    for each in parts[1:]:
        whole = whole.unionByName(each)
    ends: list[float] = []
    told: dict[int, set[Row]] = {at: set() for at in range(len(asked))}

    def epoch(batch: DataFrame, _number: int) -> None:
        for row in batch.collect():
            told[row.q].add((row.at, row.k, row.n, row.s, row.m))
        ends.append(time.perf_counter())

    checkpoint = tempfile.mkdtemp(prefix="bench-panes-")
    writer = whole.writeStream.foreachBatch(epoch).outputMode("append")
    query = writer.option("checkpointLocation", checkpoint).start()
    until(lambda: len(ends) >= THEIR_WARM + THEIR_EPOCHS)
    query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return fmean(intervals(ends[: THEIR_WARM + THEIR_EPOCHS], THEIR_WARM)), told


def _source(spark: SparkSession, directory: Path, name: str) -> DataFrame:
    source = spark.readStream.name(name).schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return source.parquet(str(directory)).withWatermark("ts", "0 seconds")


def _aggregated(frame: DataFrame, asked: Asked) -> DataFrame:
    """Aggregate by windows that end at multiples of `EVERY`."""
    offset = -asked.window % EVERY
    window = f.window("ts", f"{asked.window} seconds", f"{EVERY} seconds", f"{offset} seconds")
    groups = frame.where(frame.v > asked.above).groupBy(window.alias("w"), "k")
    found = groups.agg(f.count("*").alias("n"), f.sum("v").alias("s"), f.avg("v").alias("m"))
    return found.select(f.unix_micros("w.end").alias("at"), "k", "n", "s", "m")


def our_run(
    spark: SparkSession, directory: Path, asked: list[Asked], n_compared: int
) -> tuple[float, dict[int, set[Row]], int]:
    """Run all queries as a template.

    Returns the seconds of an epoch, what the first queries tell, and how many rows all do.
    """
    scratch = Path(tempfile.mkdtemp(prefix="bench-panes-"))
    settings = millrace.Settings(rows=ROWS, shards=CORES)
    session = millrace.Session(scratch / "root", spark=spark, settings=settings)
    session.stream("a", Files(str(directory)), schema=COLUMNS, time="ts", delay="0 seconds")
    template = session.template("q", TEXT, parameters={"w": "bigint", "x": "double"})
    rows = {"w": [each.window for each in asked], "x": [each.above for each in asked]}
    compared = pa.array(template.insert(rows).to_pylist()[:n_compared])
    told: dict[int, set[Row]] = {at: set() for at in range(n_compared)}
    places, n_rows = {qid: at for at, qid in enumerate(compared.to_pylist())}, [0]

    def receive(_query: str, _epoch: int, table: pa.Table) -> None:
        n_rows[0] += table.num_rows
        mine = table.filter(pc.is_in(table.column("_query"), compared))
        at = mine.column("_time").cast(pa.int64()).to_pylist()
        values = [mine.column(each).to_pylist() for each in ("k", "n", "s", "m")]
        for qid, *row in zip(mine.column("_query").to_pylist(), at, *values, strict=True):
            told[places[qid]].add(tuple(row))

    session.sink(CallbackSink(receive, "q", name="answers"))
    ends = ends_of(session)
    run = session.start()
    until(lambda: len(ends) >= WARM + EPOCHS, run.wait)
    session.close()
    shutil.rmtree(scratch)
    return fmean(intervals(ends[: WARM + EPOCHS], WARM)), told, n_rows[0]


def fitted(counts: tuple[int, ...], seconds: list[float]) -> Callable[[int], float]:
    """Return the line through what was measured."""
    slope, begin = np.polyfit(counts, seconds, 1)
    progress("fit", f"{begin:.3f} s + {slope:.3f} s x queries")
    return lambda n_queries: float(begin + slope * n_queries)


def require_equal(theirs: dict[int, set[Row]], ours: dict[int, set[Row]]) -> int:
    """Compare what both tell at the instants of which Spark tells something; count the rows."""
    for at, rows in theirs.items():
        times = {row[0] for row in rows}
        same = {row for row in ours[at] if row[0] in times}
        if rows != same:
            raise AssertionError(f"query {at} differs: {sorted(rows ^ same)[:4]}")
    return sum(map(len, theirs.values()))


def aggregates(_folder: Path) -> list[Figure]:
    """10,000 aggregates through Spark, against one window aggregation of Spark for each."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-panes-"))
    spark = local_spark(cores=CORES)
    try:
        return _measured(spark, scratch / "a")
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _measured(spark: SparkSession, directory: Path) -> list[Figure]:
    asked = all_queries()
    write(directory)
    seconds, theirs = list[float](), dict[int, set[Row]]()
    for count in MEASURED:
        took, theirs = spark_runs(spark, directory, asked[:count])
        progress("spark", f"{count} queries: {took:.2f} s an epoch")
        seconds.append(took)
    line = fitted(MEASURED, seconds)
    took, ours, n_rows = our_run(spark, directory, asked, MEASURED[-1])
    n_equal = require_equal(theirs, ours)
    expected = line(len(asked))
    progress("ours", f"{len(asked):,} queries: {took:.2f} s an epoch, {n_rows:,} answers in all")
    note = (
        f"{took:.2f} s an epoch against {expected:,.0f} s, extrapolated from "
        f"{', '.join(f'{each:.2f}' for each in seconds)} s of {MEASURED} queries; "
        f"{n_equal:,} answers of Spark equal ours"
    )
    return [Figure("10,000 aggregate queries", expected / took, "at least", 100, "x", note)]
