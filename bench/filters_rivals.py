"""What the filters are measured against, each run for some epochs in one Spark session.

I  identity: the same source through an identity `mapInArrow`, to Spark's noop sink or to Parquet
N  a NumPy loop over the queries inside the same `mapInArrow`
J  the stream joined with the queries as a table, in plain Spark SQL
Q  one StreamingQuery for each query
A  a loop over text rules with one Arrow kernel for each pattern, inside the same `mapInArrow`

All but Q are timed alike: from the end of one epoch to the end of the next, while the source
always has more. An epoch is two files of half its rows each, so that both cores have one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from bench.epoch_runs import until
from bench.filters_rules import Rule, arrow_mask, draw_rules
from bench.filters_workloads import FIELDS, Array, Cacq, Counts, cacq

FILES_AN_EPOCH = 2
CHUNK_ROWS = 16_384
"""Rows that N takes at a time: five columns and the masks stay in the cache."""

Batches = Iterator[pa.RecordBatch]
Mapper = Callable[[Batches], Batches]
TALLY = "query bigint, n bigint"
_OPERATORS = (np.less, np.greater, np.less_equal, np.greater_equal)


@dataclass(frozen=True, slots=True)
class Input:
    """A directory of files that all hold the same rows: half of those of an epoch."""

    directory: Path
    columns: str
    rows: int

    def frame(self, spark: SparkSession) -> DataFrame:
        """Read an epoch's files at a time by Spark's own source."""
        reader = spark.readStream.schema(self.columns)
        reader = reader.option("maxFilesPerTrigger", FILES_AN_EPOCH)
        return reader.name("rows").parquet(str(self.directory))


@dataclass(frozen=True, slots=True)
class Span:
    """How many epochs a run has, before and while it is timed."""

    warm: int = 5
    epochs: int = 8


def identity(spark: SparkSession, given: Input, span: Span) -> float:
    """Run I to nowhere; return its rows a second."""

    def epoch(batch: DataFrame, _number: int) -> None:
        mapped = batch.mapInArrow(_same, batch.schema)
        mapped.write.format("noop").mode("overwrite").save()

    return _timed(spark, given, span, epoch)


def identity_to_parquet(spark: SparkSession, given: Input, span: Span, *, copies: int) -> float:
    """Run I to Parquet with each row several times over; return its rows (in) a second."""

    def repeated(batches: Batches) -> Batches:
        for batch in batches:
            places = np.repeat(np.arange(batch.num_rows), copies)
            yield batch.take(pa.array(places))

    def epoch(batch: DataFrame, number: int) -> None:
        mapped = batch.mapInArrow(repeated, batch.schema)
        mapped.write.parquet(f"{target}/epoch-{number}")

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as target:
        return _timed(spark, given, span, epoch)


def numpy_loop(
    spark: SparkSession, given: Input, span: Span, *, n_queries: int
) -> tuple[float, Counts]:
    """Run N; return its rows a second, and how many rows of an epoch each query has."""

    def mapper(batches: Batches) -> Batches:
        yield _tally(count_by_numpy(batches, cacq(n_queries)))

    return _counted(spark, given, span, mapper, n_queries)


def arrow_loop(
    spark: SparkSession, given: Input, span: Span, *, n_rules: int
) -> tuple[float, Counts]:
    """Run A; return its rows a second, and how many rows of an epoch each rule has."""

    def mapper(batches: Batches) -> Batches:
        yield _tally(count_by_arrow(batches, draw_rules(n_rules)))

    return _counted(spark, given, span, mapper, n_rules)


def join(spark: SparkSession, given: Input, span: Span, *, n_queries: int) -> float:
    """Run J, counts for each query; return its rows a second."""
    low, high = cacq(n_queries).bounds()
    table: dict[str, Array] = {"query": np.arange(n_queries)}
    for at, name in enumerate(FIELDS):
        table |= {f"low_{name}": low[:, at], f"high_{name}": high[:, at]}
    rules = F.broadcast(spark.createDataFrame(pa.table(table)))
    matching = " AND ".join(f"{name} BETWEEN low_{name} AND high_{name}" for name in FIELDS)

    def epoch(batch: DataFrame, _number: int) -> None:
        counts = batch.join(rules, F.expr(matching)).groupBy("query").count()
        counts.write.format("noop").mode("overwrite").save()

    with _few_partitions(spark):
        return _timed(spark, given, span, epoch)


def separate_queries(
    spark: SparkSession, given: Input, *, epochs: int, most: int, seconds: float
) -> tuple[float, int]:
    """Run Q: start as many as there is time for; return rows a second, and how many started.

    Timed are further epochs, from the arrival of their files until the last query is through
    with them; that the queries start, and their first epochs, are not.
    """
    reader = spark.readStream.schema(given.columns).option("maxFilesPerTrigger", FILES_AN_EPOCH)
    began, running = time.perf_counter(), []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoints:
        for number, condition in enumerate(cacq(most).conditions()):
            if time.perf_counter() - began > seconds:
                break
            frame = reader.name("rows").parquet(str(given.directory)).where(condition)
            place = f"{checkpoints}/{number}"
            writer = frame.writeStream.format("noop").option("checkpointLocation", place)
            running.append(writer.start())
        for each in running:
            each.processAllAvailable()
        arrived = time.perf_counter()
        _link_more(given.directory, FILES_AN_EPOCH * epochs)
        for each in running:
            each.processAllAvailable()
        taken = time.perf_counter() - arrived
        for each in running:
            each.stop()
    return epochs * given.rows / taken, len(running)


def _link_more(directory: Path, files: int) -> None:
    """Let as many files arrive, with the rows of those that are there."""
    first = directory / "part-00000.parquet"
    for number in range(files):
        (directory / f"more-{number:05d}.parquet").hardlink_to(first)


def count_by_numpy(batches: Batches, queries: Cacq) -> Counts:
    """Ask every query of every chunk of rows."""
    asked = [
        [
            (field, _OPERATORS[which], np.int32(constant))
            for field, (which, constant) in enumerate(zip(chosen, constants, strict=True))
            if which >= 0
        ]
        for chosen, constants in zip(
            queries.comparisons.tolist(), queries.constants.tolist(), strict=True
        )
    ]
    counts = np.zeros(len(asked), np.int64)
    for batch in batches:
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            chunk = batch.slice(start, CHUNK_ROWS)
            columns = [chunk.column(name).to_numpy() for name in FIELDS]
            for query, clauses in enumerate(asked):
                counts[query] += _matching(columns, clauses, chunk.num_rows)
    return counts


def count_by_arrow(batches: Batches, rules: list[Rule]) -> Counts:
    """Ask every rule of every batch."""
    counts = np.zeros(len(rules), np.int64)
    for batch in batches:
        for number, rule in enumerate(rules):
            counts[number] += arrow_mask(rule, batch).true_count
    return counts


def _matching(
    columns: list[Array], clauses: Sequence[tuple[int, np.ufunc, np.int32]], n_rows: int
) -> int:
    if not clauses:
        return n_rows
    field, compare, constant = clauses[0]
    mask = compare(columns[field], constant)
    for field, compare, constant in clauses[1:]:
        mask &= compare(columns[field], constant)
    return int(np.count_nonzero(mask))


def _same(batches: Batches) -> Batches:
    yield from batches


def _tally(counts: Counts) -> pa.RecordBatch:
    return pa.record_batch({"query": np.arange(counts.size), "n": counts})


def _counted(
    spark: SparkSession, given: Input, span: Span, mapper: Mapper, n_queries: int
) -> tuple[float, Counts]:
    """Run a mapper that counts; the driver adds up what its two tasks say."""
    last: list[Counts] = []

    def epoch(batch: DataFrame, _number: int) -> None:
        told = batch.mapInArrow(mapper, TALLY).toArrow()
        counts = np.zeros(n_queries, np.int64)
        np.add.at(counts, told["query"].to_numpy(), told["n"].to_numpy())
        last[:] = [counts]

    rate = _timed(spark, given, span, epoch)
    return rate, last[0]


def _timed(
    spark: SparkSession, given: Input, span: Span, epoch: Callable[[DataFrame, int], None]
) -> float:
    """Call a function for each epoch; return the rows a second of those that are timed."""
    ends = [time.perf_counter()]

    def timed(batch: DataFrame, number: int) -> None:
        if len(ends) <= span.warm + span.epochs:
            epoch(batch, number)
            ends.append(time.perf_counter())

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = given.frame(spark).writeStream.foreachBatch(timed)
        query = writer.option("checkpointLocation", checkpoint).start()

        def failed(_seconds: float) -> bool:
            return query.exception() is not None

        until(lambda: len(ends) > span.warm + span.epochs, failed)
        query.stop()
    return given.rows / float(np.median(np.diff(ends[span.warm :])))


@contextmanager
def _few_partitions(spark: SparkSession) -> Iterator[None]:
    """Let a shuffle have as many partitions as there are cores; Spark's default is 200."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, str(FILES_AN_EPOCH))
    try:
        yield
    finally:
        spark.conf.set(name, before or "200")
