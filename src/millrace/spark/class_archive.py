"""An archive of the classes that Spark loads, so that its JVM starts in half the time.

A JVM that starts Spark loads and checks some 20,000 classes, and does so each time. Java can
write what it has loaded into a file when it ends and map that file the next time (class data
sharing). The file (about 170 MB) depends on the Java and the Spark that made it and is kept in
the user's cache directory, one for each such pair. It is made by `make_archive`, which starts a
Spark of its own, uses it as an engine does, and puts the file in its place by a rename; until
then, and wherever it cannot be made, Spark starts as slowly as ever.

Measured on two cores: start 18 s without and 8 s with it; from there to the first epoch of a
streaming query 23 s and 12 s.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from millrace.caches import cache_directory
from millrace.spark.java import JavaHome, ensure_java
from millrace.spark.spark_home import spark_home

PATIENCE_SECONDS = 300

_REHEARSAL = """
import sys, tempfile, threading, time
import pyarrow as pa
import pyarrow.parquet as pq
import millrace
from millrace.spark.launch import local_spark

spark = local_spark(cores=2, app="rehearsal", java_options=sys.argv[1])
with tempfile.TemporaryDirectory() as scratch:
    settings = millrace.Settings(spread="always")
    session = millrace.Session(f"{scratch}/root", spark=spark, settings=settings)
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC"))})
    pq.write_table(rows, f"{scratch}/some.parquet")
    session.stream(
        "files", millrace.Files(f"{scratch}/*.parquet"), schema="ts timestamp", time="ts"
    )
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10)
    session.stream("ticks", reader.name("ticks").load(), time="timestamp", retain="1 hour")
    session.query(millrace.select("files"), name="some")
    session.query(millrace.select("ticks", where=millrace.col("value") >= 0), name="all")
    sink = millrace.MemorySink()
    session.sink(sink)
    session.start()
    sink.wait_rows(50, 120)
    session.close()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()  # it writes the archive when it ends
"""


def archive_path(java: JavaHome) -> Path:
    """Return where the archive for a Java and the installed Spark is, or would be."""
    release = java.path / "release"
    told = release.read_bytes() if release.exists() else str(java.version).encode()
    place = f"{java.path.resolve()} {spark_home()} {pyspark.__version__}"
    digest = hashlib.sha256(told + place.encode()).hexdigest()[:16]
    return cache_directory(os.environ) / f"classes-{digest}.jsa"


def archive_options(java: JavaHome) -> str:
    """Return the options with which a JVM uses the archive; none if there is no archive."""
    path = archive_path(java)
    return f"-XX:SharedArchiveFile={path} -Xshare:auto -Xlog:disable" if path.exists() else ""


def make_archive() -> Path | None:
    """Make the archive if there is none; None if this Java cannot."""
    path = archive_path(ensure_java())
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="rehearsal-") as directory:
        fresh = Path(directory) / "classes.jsa"
        options = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable"
        command = [sys.executable, "-c", _REHEARSAL, options]
        subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, capture_output=True)
        if not fresh.exists():
            return None
        fresh.replace(path)
    return path
