"""The union: all streams and the control source as one streaming DataFrame of chunks.

Streams of different columns are packed into chunks before they meet, so the union has one
schema whatever is declared. Spark keeps offsets by the names of sources, so streams may come
and go. Those of ours are named by their stream and its number in the registry, so that one that
is dropped and declared again starts anew; a user's DataFrame has the name that the user gave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from millrace.connectors.files import Files
from millrace.connectors.pushed import Pushed, folder_of
from millrace.engine.backend import Binding
from millrace.operators.select import Function
from millrace.spark import control, file_source, push_source
from millrace.spark.chunk_rows import CHUNK_DDL
from millrace.spark.pacing import Pacing
from millrace.spark.source_names import require_distinct, source_name
from millrace.spark.tasks import route_files, route_pushed, route_rows


def register_sources(spark: SparkSession) -> None:
    """Make our Python data sources known to a session."""
    spark.dataSource.register(control.ControlSource)
    spark.dataSource.register(file_source.FileSource)
    spark.dataSource.register(push_source.PushSource)


def build(
    spark: SparkSession,
    root: str,
    bindings: Mapping[str, Binding],
    functions: Mapping[str, Function],
    *,
    control_file: Path,
    pacing: Pacing,
    dealing: bool = False,
) -> DataFrame:
    """Return the union of all bound streams and the control source.

    If the driver is `dealing` files to tasks, the branches of files have offsets and no rows.
    """
    sources = {
        name: each.source(pacing.limit(name)) if callable(each.source) else each.source
        for name, each in bindings.items()
    }
    require_distinct({name: each for name, each in sources.items() if isinstance(each, DataFrame)})
    branches = [
        spark.readStream.format(control.FORMAT)
        .option("path", str(control_file))
        .name(control.SOURCE_NAME)
        .load()
    ]
    branches += [
        _branch(
            spark,
            root,
            Binding(bindings[name].spec, source),
            functions,
            pacing.file,
            dealing and isinstance(bindings[name].source, Files),
        )
        for name, source in sources.items()
    ]
    return reduce(DataFrame.union, branches)


def _branch(
    spark: SparkSession,
    root: str,
    binding: Binding,
    functions: Mapping[str, Function],
    pace_file: Path,
    dealing: bool,  # noqa: FBT001  handed on
) -> DataFrame:
    spec, source = binding.spec, binding.source
    if not isinstance(source, Files | Pushed):
        assert isinstance(source, DataFrame), "the backend has checked its sources"
        return source.mapInArrow(route_rows(root, spec.name, functions), CHUNK_DDL)
    name = source_name(spec)
    options = {
        "root": root,
        "stream": spec.name,
        "pace": str(pace_file),
        "tasks": str(spark.sparkContext.defaultParallelism),
    }
    if isinstance(source, Pushed):
        folder = folder_of(spec.name, spec.born)
        reader = spark.readStream.format(push_source.FORMAT).options(**options, folder=folder)
        frame = reader.name(name).load()
        return frame.mapInArrow(route_pushed(root, spec.name, folder, functions), CHUNK_DDL)
    options |= {"listing": name, "source": json.dumps(source.to_json())}
    if dealing:
        options["dealt"] = "yes"
    frame = spark.readStream.format(file_source.FORMAT).options(**options).name(name).load()
    routed = route_files(root, spec.name, source, functions)
    return frame if dealing else frame.mapInArrow(routed, CHUNK_DDL)
