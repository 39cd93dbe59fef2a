"""Sources of Spark's that are given as a function of a limit are made anew when it changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import millrace
from millrace import call
from millrace.spark import pacing
from millrace.testing.spark_rows import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def slow(numbers: pa.Array) -> pa.Array:
    """Take 50 microseconds a row."""
    time.sleep(len(numbers) * 50e-6)
    return pa.repeat(pa.scalar(value=True), len(numbers))


def test_a_slow_stream_is_made_anew_with_a_lower_limit_and_loses_nothing(
    spark: SparkSession, sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "LEAST_SECONDS_BETWEEN_RESTARTS", 0.5)
    limits: list[int] = []

    def limited(rows: int) -> DataFrame:
        limits.append(rows)
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
        return reader.option("numPartitions", 1).name("limited").load()

    session, sink = sessions.open(target=1_000_000), millrace.MemorySink()
    session.stream("ticks", limited, time="timestamp")
    session.function("slow", slow, returns="boolean")
    session.query(
        millrace.select("ticks", "value", where=call("slow", millrace.col("value"))), name="all"
    )
    session.sink(sink)
    session.start()
    wait_until(lambda: len(limits) > 1 and limits[-1] < limits[0] / 2, seconds=60)
    before = len(session.statistics())
    wait_until(lambda: len(session.statistics()) > before + 3, seconds=60)
    taken = [each.total_seconds for each in session.statistics()[-2:]]
    session.close()

    values = sink.table("all")["value"].to_pylist()
    assert sorted(values) == list(range(len(values)))
    assert min(taken) < 2.0
