"""The union: all streams and the control source as one streaming DataFrame of chunks.

Streams of different columns are packed into chunks before they meet, so the union has one
schema whatever is declared. Each source is named by its stream and its number in the registry:
Spark keeps offsets by name, so streams may come and go, and one that is dropped and declared
again starts anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from millrace.connectors.files import Files
from millrace.engine.backend import Binding
from millrace.operators.select import Function
from millrace.spark import control, file_source
from millrace.spark.chunk_rows import CHUNK_DDL
from millrace.spark.tasks import route_files, route_rows


def register_sources(spark: SparkSession) -> None:
    """Make our Python data sources known to a session."""
    spark.dataSource.register(control.ControlSource)
    spark.dataSource.register(file_source.FileSource)


def build(
    spark: SparkSession,
    root: str,
    bindings: Mapping[str, Binding],
    functions: Mapping[str, Function],
    *,
    control_file: Path,
    pace_file: Path,
) -> DataFrame:
    """Return the union of all bound streams and the control source."""
    branches = [
        spark.readStream.format(control.FORMAT)
        .option("path", str(control_file))
        .name("control")
        .load()
    ]
    for binding in bindings.values():
        branches.append(_branch(spark, root, binding, functions, pace_file))
    return reduce(DataFrame.union, branches)


def _branch(
    spark: SparkSession,
    root: str,
    binding: Binding,
    functions: Mapping[str, Function],
    pace_file: Path,
) -> DataFrame:
    spec, source = binding.spec, binding.source
    if not isinstance(source, Files):
        assert isinstance(source, DataFrame), "the backend has checked its sources"
        return source.mapInArrow(route_rows(root, spec.name, functions), CHUNK_DDL)
    options = {
        "root": root,
        "stream": spec.name,
        "listing": f"{spec.name}.{spec.born}",
        "source": json.dumps(source.to_json()),
        "pace": str(pace_file),
        "tasks": str(spark.sparkContext.defaultParallelism),
    }
    frame = (
        spark.readStream.format(file_source.FORMAT)
        .options(**options)
        .name(f"{spec.name}_{spec.born}")
        .load()
    )
    return frame.mapInArrow(route_files(root, spec.name, source, functions), CHUNK_DDL)
