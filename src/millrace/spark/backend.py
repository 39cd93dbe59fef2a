"""The Spark backend: one StreamingQuery for everything, and the driver around it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from millrace.engine.backend import Binding
from millrace.engine.epoch import Engine
from millrace.engine.pace import FIRST_LIMIT
from millrace.errors import PlanError
from millrace.operators.select import Function
from millrace.schema import Schema
from millrace.spark.connectors import make_source
from millrace.spark.driver import SparkRun
from millrace.spark.launch import check_session
from millrace.spark.rehearsal import rehearse
from millrace.spark.source_names import source_names
from millrace.spark.union import register_sources
from millrace.state.fence import Fence

LAST_WORDS_SECONDS = 10.0


class SparkBackend:
    """Runs an engine on a SparkSession.

    A driver that is killed leaves its JVM behind for some seconds, and that JVM may still write
    to Spark's checkpoint. Whoever takes the root over on the same machine ends it first; the
    holder of the root writes its JVM down for that purpose.
    """

    def __init__(self, spark: SparkSession, fence: Fence) -> None:
        check_session(spark)
        own = jvm_pid(spark)
        end_children(fence, spare=own)
        fence.record_child(own)
        rehearse(spark)
        register_sources(spark)
        self._spark = spark

    def schema_of(self, source: object) -> Schema | None:
        """Return the columns of a streaming DataFrame, or of what a function of a limit makes."""
        if callable(source):
            return self.schema_of(source(FIRST_LIMIT))
        if not isinstance(source, DataFrame) or not source.isStreaming:
            raise PlanError(
                f"a stream cannot be read from {type(source).__name__}",
                hint="Give a streaming DataFrame (spark.readStream...), a function that makes one "
                "for a limit of rows, or millrace.Files.",
            )
        source_names(source)
        return Schema.from_arrow(to_arrow_schema(source.schema, timezone="UTC"))

    def make_source(
        self, kind: str, options: Mapping[str, Any], stream: str, schema: Schema
    ) -> DataFrame:
        """Make a source by its name in SQL."""
        return make_source(self._spark, kind, options, stream, schema)

    def start(
        self, engine: Engine, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> SparkRun:
        """Start the streaming query and its supervision."""
        return SparkRun(self._spark, engine, bindings, functions)


def jvm_pid(spark: SparkSession) -> int:
    """Return the process id of the session's JVM."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "a session has a JVM until it is stopped"
    return int(jvm.java.lang.ProcessHandle.current().pid())


def end_children(fence: Fence, *, spare: int) -> None:
    """End what a killed holder of the root left running on this machine."""
    previous = fence.previous
    if previous is None or not previous.here:
        return
    left = [each for each in previous.children if each.alive and each.pid != spare]
    for child in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + LAST_WORDS_SECONDS
    while any(child.alive for child in left) and time.monotonic() < deadline:
        time.sleep(0.02)
