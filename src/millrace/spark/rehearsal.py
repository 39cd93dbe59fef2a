"""A rehearsal: one tiny job, run aside while a session is being set up.

The first job of a Spark application is slow: the JVM loads and compiles what it needs, a worker
daemon starts and imports, workers are forked. All of that would otherwise stand between the
start of an engine and its first answers. It is done in a thread of its own, once for each
application, while streams are declared and the streaming query is planned; if it fails, the
first epoch will say why.

Its rows stay in Spark: who collects them waits for a thread of the JVM, for ever if Spark is
stopped in between. And a process may end while it waits for Java, but not while it is in Arrow.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

_rehearsed: set[str] = set()


def rehearse(spark: SparkSession) -> None:
    """Start the rehearsal, unless this application has had one."""
    application = str(spark.sparkContext.applicationId)
    if application in _rehearsed:
        return
    _rehearsed.add(application)
    thread = threading.Thread(target=_play, args=(spark,), name="millrace-rehearsal", daemon=True)
    thread.start()


def _play(spark: SparkSession) -> None:
    n_tasks = spark.sparkContext.defaultParallelism
    with contextlib.suppress(Exception):
        rows = spark.range(0, n_tasks, 1, n_tasks).mapInArrow(_same, "id long")
        rows.write.format("noop").mode("overwrite").save()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
