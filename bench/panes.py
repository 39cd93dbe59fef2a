"""10,000 aggregates of one stream, 100 windows by 100 filter constants, against Spark's own.

python -m bench.joins --only aggregates

Each query aggregates, by group, what is above its constant in its window, every 100 seconds: it
counts and adds up, or tells the least, the greatest and the median value. Spark runs some of them,
k = 1, 2, 4 and 8, as window aggregations in one streaming query, with state in RocksDB; a line
through these is read off at 10,000. All of them are one template of ours, and all answers are
delivered to a sink. What Spark tells of its queries is compared with what ours tell; so are the
answers of some hundred more at one instant, which Spark computes from the same files.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

import millrace
from bench.cql_runs import ROCKSDB, STATE
from bench.epoch_runs import ends_of, intervals, until
from bench.joins_timing import fitted
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
WARM, EPOCHS = 11, 5
"""The widest window is full after the first."""
THEIR_WARM, THEIR_EPOCHS = 4, 4
MEASURED = (1, 2, 4, 8)
N_COMPARED = 300

Row = tuple[float, ...]
"""The instant, the group, and the aggregates of it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What queries tell of each group: how we write it, and how Spark does, by name."""

    case: str
    told: dict[str, str]
    aggregates: Callable[[], dict[str, Column]]

    @property
    def text(self) -> str:
        """The template of all queries."""
        told = ", ".join(f"{each} AS {name}" for name, each in self.told.items())
        return (
            f"SELECT RSTREAM(k, {told}) EVERY {EVERY} SECONDS "
            "FROM a [RANGE :w SECONDS] WHERE v > :x GROUP BY k"
        )


KINDS = (
    Kind(
        "10,000 aggregate queries, count, sum and average",
        {"n": "count(*)", "s": "sum(v)", "m": "avg(v)"},
        lambda: {"n": f.count("*"), "s": f.sum("v"), "m": f.avg("v")},
    ),
    Kind(
        "10,000 aggregate queries, least, greatest and median",
        {"lo": "min(v)", "hi": "max(v)", "mid": "percentile_cont(v, 0.5)"},
        lambda: {"lo": f.min("v"), "hi": f.max("v"), "mid": f.percentile("v", 0.5)},
    ),
)


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
    spark: SparkSession, directory: Path, kind: Kind, asked: list[Asked]
) -> tuple[float, dict[int, set[Row]]]:
    """Run window aggregations of Spark; return the seconds of an epoch, and what each tells."""
    spark.conf.set(f"{STATE}.providerClass", ROCKSDB)
    spark.conf.set(f"{STATE}.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
    parts = [
        _aggregated(_source(spark, directory, f"a{at}"), kind, each).withColumn("q", f.lit(at))
        for at, each in enumerate(asked)
    ]
    whole = parts[0]
    for each in parts[1:]:
        whole = whole.unionByName(each)
    ends: list[float] = []
    told: dict[int, set[Row]] = {at: set() for at in range(len(asked))}

    def epoch(batch: DataFrame, _number: int) -> None:
        for row in batch.collect():
            told[row.q].add((row.at, row.k, *(row[name] for name in kind.told)))
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


def _aggregated(frame: DataFrame, kind: Kind, asked: Asked) -> DataFrame:
    """Aggregate by windows that end at multiples of `EVERY`."""
    offset = -asked.window % EVERY
    window = f.window("ts", f"{asked.window} seconds", f"{EVERY} seconds", f"{offset} seconds")
    groups = frame.where(frame.v > asked.above).groupBy(window.alias("w"), "k")
    found = groups.agg(*(each.alias(name) for name, each in kind.aggregates().items()))
    return found.select(f.unix_micros("w.end").alias("at"), "k", *kind.told)


def spark_answers(
    spark: SparkSession, directory: Path, kind: Kind, asked: list[Asked], at: int
) -> dict[int, set[Row]]:
    """Return what Spark computes of the files, for queries at one instant, in us."""
    queries = spark.createDataFrame(
        [(number, at - each.window * SECOND, each.above) for number, each in enumerate(asked)],
        "q int, since bigint, above double",
    )
    rows = spark.read.schema(COLUMNS).parquet(str(directory))
    timed = rows.select("k", "v", f.unix_micros("ts").alias("us"))
    least = at - WINDOWS[-1] * SECOND
    timed = timed.where((timed.us <= at) & (timed.us > least))
    joined = timed.join(
        f.broadcast(queries), (timed.us > queries.since) & (timed.v > queries.above)
    )
    groups = joined.groupBy("q", "k")
    found = groups.agg(*(each.alias(name) for name, each in kind.aggregates().items()))
    told: dict[int, set[Row]] = {number: set() for number in range(len(asked))}
    for row in found.collect():
        told[row.q].add((at, row.k, *(row[name] for name in kind.told)))
    return told


def our_run(
    spark: SparkSession, directory: Path, kind: Kind, asked: list[Asked]
) -> tuple[float, dict[int, set[Row]], int]:
    """Run all queries as a template.

    Returns the seconds of an epoch, what those that are compared tell, and how many rows all do.
    """
    scratch = Path(tempfile.mkdtemp(prefix="bench-panes-"))
    settings = millrace.Settings(rows=ROWS, shards=CORES)
    session = millrace.Session(scratch / "root", spark=spark, settings=settings)
    session.stream("a", Files(str(directory)), schema=COLUMNS, time="ts", delay="0 seconds")
    template = session.template("q", kind.text, parameters={"w": "bigint", "x": "double"})
    rows = {"w": [each.window for each in asked], "x": [each.above for each in asked]}
    compared = pa.array(template.insert(rows).to_pylist()[:N_COMPARED])
    told: dict[int, set[Row]] = {at: set() for at in range(N_COMPARED)}
    places, n_rows = {qid: at for at, qid in enumerate(compared.to_pylist())}, [0]

    def receive(_query: str, _epoch: int, table: pa.Table) -> None:
        n_rows[0] += table.num_rows
        mine = table.filter(pc.is_in(table.column("_query"), compared))
        at = mine.column("_time").cast(pa.int64()).to_pylist()
        values = [mine.column(each).to_pylist() for each in ("k", *kind.told)]
        for qid, *row in zip(mine.column("_query").to_pylist(), at, *values, strict=True):
            told[places[qid]].add(tuple(row))

    session.sink(CallbackSink(receive, "q", name="answers"))
    ends = ends_of(session)
    run = session.start()
    until(lambda: len(ends) >= WARM + EPOCHS, run.wait)
    session.close()
    shutil.rmtree(scratch)
    return fmean(intervals(ends[: WARM + EPOCHS], WARM)), told, n_rows[0]


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
        write(scratch / "a")
        return [_measured(spark, scratch / "a", kind) for kind in KINDS]
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def _measured(spark: SparkSession, directory: Path, kind: Kind) -> Figure:
    asked = all_queries()
    seconds, theirs = list[float](), dict[int, set[Row]]()
    for count in MEASURED:
        took, theirs = spark_runs(spark, directory, kind, asked[:count])
        progress("spark", f"{count} queries: {took:.2f} s an epoch")
        seconds.append(took)
    expected, fit = fitted(MEASURED, seconds, len(asked), "query")
    took, ours, n_rows = our_run(spark, directory, kind, asked)
    n_equal = require_equal(theirs, ours)
    at = int(max(row[0] for row in chain.from_iterable(ours.values())))
    n_equal += require_equal(spark_answers(spark, directory, kind, asked[:N_COMPARED], at), ours)
    progress("ours", f"{len(asked):,} queries: {took:.2f} s an epoch, {n_rows:,} answers in all")
    note = (
        f"{took:.2f} s an epoch, delivered, against Spark's, {fit}; {n_equal:,} answers of Spark, "
        f"of {N_COMPARED} queries, equal ours"
    )
    return Figure(kind.case, expected / took, "at least", 100, "x", note)
