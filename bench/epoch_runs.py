"""The contestants of the epoch benchmark, each run for some epochs in one Spark session.

The yardstick I sends the same source through an identity `mapInArrow` in a `foreachBatch` to
Spark's noop sink. Both sides are timed alike: from the end of one epoch to the end of the
next, while the source always has more.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import millrace
from millrace.connectors.files import Files

COLUMNS = "number bigint, symbol bigint, price double, size bigint, venue bigint, ts timestamp"
PATIENCE_SECONDS = 900


def write_files(directory: Path, *, rows: int, files: int, seed: int = 1) -> None:
    """Write Parquet files of equal numbers of rows; the first is written, the others linked."""
    directory.mkdir(parents=True)
    random = np.random.default_rng(seed)
    numbers = np.arange(rows)
    table = pa.table(
        {
            "number": numbers,
            "symbol": random.integers(0, 10_000, rows),
            "price": random.random(rows) * 100,
            "size": random.integers(1, 1_000, rows),
            "venue": random.integers(0, 10, rows),
            "ts": pa.array(numbers, pa.timestamp("us", tz="UTC")),
        }
    )
    first = directory / "part-00000.parquet"
    pq.write_table(table, first, row_group_size=min(max(rows // 4, 1), 1 << 18))
    for number in range(1, files):
        (directory / f"part-{number:05d}.parquet").hardlink_to(first)


def file_stream(spark: SparkSession, directory: Path) -> DataFrame:
    """Read one file an epoch by Spark's own source."""
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.name("trades").parquet(str(directory))


def intervals(ends: list[float], warm: int) -> list[float]:
    """Return the seconds between the ends of consecutive epochs after the warm-up."""
    return list(np.diff(ends[warm - 1 :]))


def identity(spark: SparkSession, directory: Path, *, epochs: int, warm: int) -> float:
    """Run the yardstick; return the median seconds of an epoch."""
    frame = file_stream(spark, directory)
    ends: list[float] = []

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def epoch(batch: DataFrame, _number: int) -> None:
        mapped = batch.mapInArrow(same, batch.schema)
        mapped.write.format("noop").mode("overwrite").save()
        ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.foreachBatch(epoch).option("checkpointLocation", checkpoint)
        query = writer.start()
        until(lambda: len(ends) >= warm + epochs)
        query.stop()
    return median(intervals(ends, warm))


def ours(
    spark: SparkSession,
    directory: Path,
    *,
    epochs: int,
    warm: int,
    threshold: float,
    rows: int,
    descriptors: bool = False,
) -> float:
    """Run one filter with a Parquet sink, everything durable; return the same median."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-"))
    settings = millrace.Settings(rows=rows)
    session = millrace.Session(scratch / "root", spark=spark, settings=settings)
    source = Files(str(directory)) if descriptors else file_stream(spark, directory)
    session.stream("trades", source, schema=COLUMNS, time="ts", delay="1 hour")
    dear = millrace.select("trades", "number", "price", where=millrace.col("price") > threshold)
    session.query(dear, name="dear")
    session.sink(millrace.ParquetSink(scratch / "answers"))
    ends = ends_of(session)
    run = session.start()
    until(lambda: len(ends) >= warm + epochs, run.wait)
    session.close()
    shutil.rmtree(scratch)
    return median(intervals(ends, warm))


def ends_of(session: millrace.Session) -> list[float]:
    """Return a list that gets the end of each epoch with rows."""
    ends: list[float] = []
    engine, run_epoch = session.engine, session.engine.run

    def timed(*arguments: object) -> object:
        statistics = run_epoch(*arguments)  # type: ignore[arg-type]
        if statistics is not None and statistics.rows:
            ends.append(time.perf_counter())
        return statistics

    engine.run = timed  # type: ignore[method-assign, assignment]
    return ends


def until(done: Callable[[], bool], ended: Callable[[float], bool] | None = None) -> None:
    """Wait until something is done; raise if it takes too long, or if the run has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > deadline or (ended is not None and ended(0.0)):
            message = "the benchmark's run did not come to its end"
            raise RuntimeError(message)
        time.sleep(0.02)
