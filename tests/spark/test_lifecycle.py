"""Starting, stopping and taking over: nobody waits, nothing is lost, two never run at once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millrace
from millrace import call, col
from millrace.errors import InUseError
from millrace.spark.backend import SparkBackend, jvm_pid
from millrace.state.fence import Fence
from millrace.state.root import open_root
from millrace.testing.spark_rows import COLUMNS, wait_until, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AwaitRows = Callable[[millrace.Session, int], None]


def test_a_stop_in_full_flow_is_no_error_and_the_next_start_goes_on_at_once(
    spark: SparkSession, sessions: Any, caplog: pytest.LogCaptureFixture
) -> None:
    values: list[int] = []
    for _ in range(3):
        session, sink = sessions.open(), millrace.MemorySink(durable=True)
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10)
        session.stream("ticks", reader.name("flow").load(), time="timestamp")
        session.query(millrace.select("ticks", "value"), name="all")
        session.sink(sink)
        run = session.start()
        assert sink.wait_rows(50, 60)
        session.close()

        assert run.query.exception() is None
        assert run.failure is None
        values += sink.table("all")["value"].to_pylist()

    assert sorted(values) == list(range(len(values)))
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]


def test_close_makes_public_what_a_sink_still_holds(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 10])
    session = sessions.open()
    session.stream("trades", millrace.Files(str(tmp_path / "in")), schema=COLUMNS, time="ts")
    session.query(millrace.select("trades", "number"), name="all")
    session.sink(millrace.ParquetSink(tmp_path / "out", roll_every="1 day"))
    session.start()
    await_rows(session, 10)
    assert not list((tmp_path / "out").rglob("*.parquet"))

    session.close()

    (file,) = (tmp_path / "out").rglob("*.parquet")
    assert pq.read_table(file).num_rows == 10


def test_a_second_engine_on_one_root_is_refused(spark: SparkSession, sessions: Any) -> None:
    sessions.open()

    with pytest.raises(InUseError, match="is in use") as refused:
        millrace.Session(sessions.root, spark=spark)

    assert "millrace engine, process" in refused.value.detail


def test_who_takes_a_root_over_ends_the_jvm_that_a_killed_driver_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = open_root(tmp_path / "root")
    left = subprocess.Popen(["sleep", "600"])
    killed = Fence.acquire(root, who="millrace engine")
    killed.record_child(left.pid)
    killed.record_child(jvm_pid(spark))  # a session that is used again is spared
    killed._lock.release()  # as the kernel does for a process that was killed

    fence = Fence.acquire(root, who="millrace engine")
    SparkBackend(spark, fence)

    assert left.wait(10) == -9
    assert spark.range(3).count() == 3
    fence.release()


def test_epochs_of_a_backlog_are_cut_so_that_they_stay_under_their_target(
    sessions: Any, tmp_path: Path
) -> None:
    write_files(tmp_path / "in", "parquet", list(range(0, 120_001, 1_000)))
    session = sessions.open(target=1_500_000, spread="never")
    session.stream("trades", millrace.Files(str(tmp_path / "in")), schema=COLUMNS, time="ts")

    def slow(values: pa.Array) -> pa.Array:
        time.sleep(len(values) * 50e-6)
        return values

    session.function("slow", slow, returns="bigint")
    session.query(millrace.select("trades", value=call("slow", col("number"))), name="all")
    session.start()
    wait_until(lambda: session.engine.manifest.facts.get("counts", {}).get("rows", 0) == 120_000)

    first, *others = [each for each in session.statistics() if each.rows]
    assert first.rows == 100_000
    assert first.total_seconds > 1.5
    assert others
    assert max(each.total_seconds for each in others) < 1.5


def test_a_worker_finds_every_kernel_compiled_and_its_daemon_alone(spark: SparkSession) -> None:
    def look(batches: Any) -> Any:
        import os
        from pathlib import Path

        from millrace.kernels import hashing, running

        kernels = (hashing.hash_ints, hashing.hash_bytes, running.running_max_before)
        for _ in batches:
            threads = Path(f"/proc/{os.getppid()}/task")
            yield pa.record_batch(
                {
                    "compiled": [min(len(each.signatures) for each in kernels)],
                    "threads": [len(list(threads.iterdir()))],
                }
            )

    (row,) = spark.range(1).mapInArrow(look, "compiled bigint, threads bigint").collect()

    assert row.compiled >= 1
    assert row.threads == 1


def test_a_directory_that_is_away_while_its_files_are_read_costs_no_row(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    data, away = tmp_path / "data", tmp_path / "away"
    data.mkdir()
    for x in range(8):
        (data / f"{x}.ndjson").write_text(f'{{"x": {x}, "ts": "2024-05-01T12:00:0{x}Z"}}')
    session = sessions.open(rows=1)
    session.stream("t", millrace.Files(str(data)), schema="x int, ts timestamp", time="ts")
    run = session.start()
    wait_until(lambda: session.engine.manifest.facts.get("counts", {}).get("rows", 0) >= 1)

    data.rename(away)
    wait_until(lambda: bool(session.engine.trouble))
    trouble = session.engine.trouble
    away.rename(data)

    await_rows(session, 8)
    assert "cannot be listed now" in trouble
    assert session.dead_letters().num_rows == 0
    assert (session.engine.trouble, run.failure) == ("", None)
