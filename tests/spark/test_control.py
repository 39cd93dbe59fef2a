"""What happens while a stream is quiet: timers, registrations, and streams that come and go."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import millrace
from millrace import col
from millrace.errors import PlanError
from millrace.testing.spark_rows import COLUMNS, trades, wait_until, write_file, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AwaitRows = Callable[[millrace.Session, int], None]


def numbers(directory: Path, query: str) -> list[int]:
    """Read back what a Parquet sink holds of a query, in order of the numbers."""
    tables = [pa.parquet.read_table(each) for each in sorted((directory / query).glob("*"))]
    return sorted(each for table in tables for each in table["number"].to_pylist())


def test_a_quiet_partition_stops_holding_time_back_when_its_timer_is_due(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    rows = trades(0, 10).append_column("part", pa.array(["a"] * 5 + ["b"] * 5))
    write_file(tmp_path / "in" / "a.parquet", rows)
    session = sessions.open()
    session.stream(
        "trades", millrace.Files(str(tmp_path / "in")), schema=f"{COLUMNS}, part text",
        time="ts", partition="part", order="number", idle="1 second",
    )  # fmt: skip

    session.start()
    await_rows(session, 10)
    held = session.engine.manifest.facts["watermarks"]["trades"]
    wait_until(lambda: session.engine.manifest.facts["watermarks"]["trades"] > held)

    facts = session.engine.manifest.facts
    assert held == facts["clocks"]["trades"]["a"]
    assert facts["watermarks"]["trades"] == facts["clocks"]["trades"]["b"]
    assert facts["counts"]["rows"] == 10


def test_queries_are_registered_paused_resumed_and_dropped_while_the_engine_runs(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    (tmp_path / "in").mkdir()
    session, sink = sessions.open(), millrace.MemorySink()
    files = millrace.Files(str(tmp_path / "in" / "*.parquet"))
    session.stream("trades", files, schema=COLUMNS, time="ts")
    session.query(millrace.select("trades", "number"), name="first")
    session.sink(sink)
    session.start()
    wait_until(lambda: session.engine.manifest.epoch >= 0)

    def after_next_epoch(change: Callable[[], object]) -> None:
        """Change something, and wait for the epoch that the change itself causes."""
        before = session.engine.registry.catalog.sequence
        change()
        wait_until(lambda: f"{before + 1:012d}" in _catalogs(session))

    write_files(tmp_path / "in", "parquet", [0, 10])
    await_rows(session, 10)
    second = session.query(millrace.select("trades", "number"), name="second")
    after_next_epoch(second.pause)
    write_files(tmp_path / "in", "parquet", [10, 20])
    await_rows(session, 20)
    after_next_epoch(second.resume)
    write_files(tmp_path / "in", "parquet", [20, 30])
    await_rows(session, 30)
    after_next_epoch(second.drop)
    write_files(tmp_path / "in", "parquet", [30, 40])
    await_rows(session, 40)
    session.engine.delivery.drain(10)

    assert sorted(sink.table("first")["number"].to_pylist()) == list(range(40))
    assert sorted(sink.table("second")["number"].to_pylist()) == list(range(20, 30))


def _catalogs(session: millrace.Session) -> set[str]:
    listed = session.engine.root.list("epochs/")
    from millrace.engine.decision import Decision

    return {
        Decision.read(session.engine.root, each.name).catalog.rpartition("/")[2]
        for each in listed
        if int(each.name[7:19]) <= session.engine.manifest.epoch
    }


def test_streams_come_and_go_and_a_restart_goes_on_where_each_one_was(
    spark: SparkSession, sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    out = tmp_path / "out"
    inputs = {name: tmp_path / name for name in ("old", "new", "rows")}
    for directory in inputs.values():
        write_files(directory, "parquet", [0, 10])

    def declare(session: millrace.Session, name: str) -> None:
        if name == "rows":
            reader = spark.readStream.format("parquet").name("some_rows")
            reader = reader.schema("number bigint, ts timestamp")
            session.stream(name, reader.load(str(inputs[name])), time="ts")
        else:
            files = millrace.Files(str(inputs[name]))
            session.stream(name, files, schema="number bigint, ts timestamp", time="ts")

    def ask(session: millrace.Session, name: str) -> None:
        session.query(millrace.select(name, "number", where=col("number") >= 0), name=f"of_{name}")

    session = sessions.open()
    session.sink(millrace.ParquetSink(out, roll_epochs=1))
    declare(session, "old")
    ask(session, "old")
    session.start()
    await_rows(session, 10)
    for name in ("rows", "new"):  # added while it runs
        declare(session, name)
        ask(session, name)
    await_rows(session, 30)
    session.standing("of_new").drop()
    session.drop_stream("new")
    for directory in inputs.values():
        write_files(directory, "parquet", [10, 20])
    await_rows(session, 50)
    session.close()

    session = sessions.open()
    session.sink(millrace.ParquetSink(out, roll_epochs=1))
    for name in ("rows", "old"):  # in another order
        declare(session, name)
    session.start()
    for directory in inputs.values():
        write_files(directory, "parquet", [20, 30])
    await_rows(session, 70)
    session.close()

    assert numbers(out, "of_old") == list(range(30))
    assert numbers(out, "of_rows") == list(range(30))


def test_a_source_without_a_name_is_refused_when_it_is_declared(
    spark: SparkSession, sessions: Any
) -> None:
    evolution = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    session = sessions.open()
    spark.conf.set(evolution, "false")
    try:
        unnamed = spark.readStream.format("rate").load()
    finally:
        spark.conf.set(evolution, "true")

    with pytest.raises(PlanError, match="a streaming source has no name") as refused:
        session.stream("ticks", unnamed, time="timestamp")

    assert ".name(" in refused.value.hint
    assert not session.engine.registry.catalog.streams


def test_two_streams_from_sources_of_one_name_are_refused_and_the_run_goes_on(
    spark: SparkSession, sessions: Any
) -> None:
    session, sink = sessions.open(), millrace.MemorySink()
    first = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).name("ticks")
    session.stream("first", first.load(), time="timestamp")
    session.query(millrace.select("first", "value"), name="all")
    session.sink(sink)
    session.start()
    second = spark.readStream.format("rate").name("ticks").load()

    with pytest.raises(PlanError, match='streams "first" and "second" read from sources of one'):
        session.stream("second", second, time="timestamp")

    seen = sink.n_rows()
    assert sink.wait_rows(seen + 20, 60)


def test_a_root_made_anew_at_the_same_place_owes_nothing_to_the_old_one(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 10])
    found = []
    for limit in (5, 8):  # the workers of the first run are still there for the second
        session, sink = sessions.open(spread="always"), millrace.MemorySink()
        session.stream("trades", millrace.Files(str(tmp_path / "in")), schema=COLUMNS, time="ts")
        session.query(millrace.select("trades", "number", where=col("number") < limit), name="some")
        session.sink(sink)
        session.start()
        await_rows(session, 10)
        session.engine.delivery.drain(10)
        found.append(sorted(sink.table("some")["number"].to_pylist()))
        session.close()
        sessions.root.rename(tmp_path / f"gone-{limit}")
        time.sleep(0.1)

    assert found == [list(range(5)), list(range(8))]
