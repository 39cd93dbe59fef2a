"""The settings of a local session, and the refusal of one that would change answers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from millrace.errors import MachineError
from millrace.spark.daemon import PRELOADED
from millrace.spark.launch import ADVISED, AT_LEAST, REQUIRED, check_session, local_spark

pytestmark = pytest.mark.spark

TIME_ZONE = "spark.sql.session.timeZone"
RETAINED = "spark.sql.streaming.minBatchesToRetain"


def test_a_local_session_has_every_setting(spark: SparkSession) -> None:
    for name, value in (REQUIRED | ADVISED).items():
        assert spark.conf.get(name) == value


def test_options_of_the_environment_reach_the_machine(spark: SparkSession) -> None:
    further = os.environ["MILLRACE_JAVA_OPTIONS"]

    assert str(spark.conf.get("spark.driver.extraJavaOptions")).endswith(f" {further}")
    assert spark.conf.get("spark.executor.extraJavaOptions") == further


def test_a_local_session_listens_to_this_machine_alone(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_the_environment_is_as_it_was(spark: SparkSession) -> None:
    assert "PYSPARK_PYTHON" not in os.environ
    assert "SPARK_HOME" not in os.environ


def test_a_second_local_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(MachineError, match="already running"):
        local_spark(cores=1)


def test_a_wrong_setting_is_named_with_what_is_required(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set(TIME_ZONE, "Asia/Tokyo")
    other.conf.set(RETAINED, "2")

    with pytest.raises(MachineError, match="lacks settings") as caught:
        check_session(other)

    assert f"{TIME_ZONE} is Asia/Tokyo, required is UTC" in caught.value.detail
    assert f"{RETAINED} is 2, required is at least 16" in caught.value.detail


def test_more_than_the_least_will_do(spark: SparkSession) -> None:
    other = spark.newSession()
    for name in AT_LEAST:
        other.conf.set(name, "1000")

    check_session(other)


def test_a_worker_is_forked_from_our_daemon_with_everything_loaded(spark: SparkSession) -> None:
    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = [name for name in PRELOADED if name in sys.modules]
        daemon = Path(f"/proc/{os.getppid()}")
        for _ in batches:
            yield pa.record_batch(
                {
                    "command": [(daemon / "cmdline").read_text()],
                    "threads": [len(list((daemon / "task").iterdir()))],
                    "loaded": [",".join(loaded)],
                }
            )

    schema = "command string, threads long, loaded string"
    row = spark.range(1).repartition(1).mapInArrow(report, schema).collect()[0]

    assert "millrace.spark.daemon" in row.command
    assert row.threads == 1
    assert {"numpy", "pyarrow", "numba", "pyspark.worker"} <= set(row.loaded.split(","))


def test_a_task_whose_worker_dies_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    marker = str(tmp_path / "died")

    def die_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not Path(marker).exists():
            Path(marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    assert spark.range(10).repartition(1).mapInArrow(die_once, "id long").count() == 10
    assert Path(marker).exists()


def test_epochs_leave_one_file_each_in_the_logs(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.name("ticks").format("rate-micro-batch").option("rowsPerBatch", 5)
    seen = threading.Event()

    def second(_frame: object, epoch: int) -> None:
        if epoch >= 2:
            seen.set()

    query = (
        stream.load()
        .writeStream.option("checkpointLocation", str(tmp_path))
        .foreachBatch(second)
        .start()
    )
    try:
        assert seen.wait(60)
    finally:
        query.stop()

    offsets = {path.name for path in (tmp_path / "offsets").iterdir() if path.name.isdigit()}
    assert {"0", "1", "2"} <= offsets
    assert (tmp_path / "offsets" / "0").read_text().startswith("v2")
