"""Sources by their names in SQL, as streaming DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.types as kinds
from pyspark.sql import DataFrame, SparkSession

from millrace.errors import PlanError
from millrace.schema import Schema

_SPARK_OPTIONS = {"rows_per_second": "rowsPerSecond", "host": "host", "port": "port"}


def make_source(
    spark: SparkSession, kind: str, options: Mapping[str, Any], stream: str, schema: Schema
) -> DataFrame:
    """Return the streaming DataFrame of a source that was checked; the stream gives its name."""
    plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in stream)
    reader = spark.readStream.format(kind).name(f"{kind}_{plain}")
    for name, value in options.items():
        reader = reader.option(_SPARK_OPTIONS[name], str(value))
    rows = reader.load()
    return _renamed(rows, schema) if kind == "rate" else rows


def _renamed(rows: DataFrame, schema: Schema) -> DataFrame:
    """Give the columns of a rate source the names that the stream declares for their types."""
    times = [each.name for each in schema if kinds.is_timestamp(each.type)]
    numbers = [each.name for each in schema if kinds.is_integer(each.type)]
    if len(times) != 1 or len(numbers) != 1 or len(schema.names) != 2:
        raise PlanError(
            "a rate source has a number and a time",
            detail=f"The stream declares {', '.join(schema.names)}.",
            hint="Declare the stream as (value bigint, ts timestamp).",
        )
    return rows.withColumnsRenamed({"timestamp": times[0], "value": numbers[0]})
