"""Rows that cannot be used: they are set aside with reason, source and position."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import millrace
from millrace.testing.spark_rows import (
    BEGIN,
    COLUMNS,
    SPARK_COLUMNS,
    trades,
    write_file,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AwaitRows = Callable[[millrace.Session, int], None]


def test_a_row_without_a_time_is_a_dead_letter_and_its_neighbours_are_not(
    spark: SparkSession, sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    table = trades(0, 10)
    times = table["ts"].to_pylist()
    times[4] = None
    timeless = table.set_column(4, "ts", pa.array(times, pa.timestamp("us", tz="UTC")))
    write_file(tmp_path / "in" / "a.parquet", timeless)
    session, sink = sessions.open(), millrace.MemorySink()
    frame = spark.readStream.schema(SPARK_COLUMNS).name("timeless").parquet(str(tmp_path / "in"))
    session.stream("trades", frame, time="ts", order="number")
    session.query(millrace.select("trades", "number"), name="all")
    session.sink(sink)

    session.start()
    await_rows(session, 10)
    assert sink.wait_rows(9)

    (letter,) = session.dead_letters().to_pylist()
    assert sorted(sink.table("all")["number"].to_pylist()) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert letter["stream"] == "trades"
    assert letter["reason"] == 'the time column "ts" is NULL'
    assert letter["source"].startswith("spark partition")
    assert letter["position"] == 4  # the order column says where it stood
    assert b'"number": 4' in letter["raw"]


def test_text_that_is_not_json_is_kept_as_it_came_by_both_ways(
    spark: SparkSession, sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    good = '{"number": 1, "ts": "2024-01-01T00:00:00Z"}'
    corrupt = '{"number": 2, "ts": "2024-01-01T00:0'
    path = tmp_path / "in" / "a.ndjson"
    path.parent.mkdir()
    path.write_text(f"{good}\n{corrupt}\n")
    columns = "number bigint, ts timestamp"
    session = sessions.open()
    frame = spark.readStream.name("texts").text(str(path.parent))
    session.stream("texts", frame, time="ts", json="value", schema=columns)
    session.stream("files", millrace.Files(str(path)), time="ts", schema=columns)

    session.start()
    await_rows(session, 4)

    letters = {each["stream"]: each for each in session.dead_letters().to_pylist()}
    assert {name: each["raw"] for name, each in letters.items()} == {
        "texts": corrupt.encode(),
        "files": corrupt.encode(),
    }
    assert letters["files"]["source"] == str(path)
    assert letters["files"]["position"] == len(good) + 1
    assert letters["texts"]["position"] == 1
    assert all(each["reason"] for each in letters.values())


def test_late_rows_are_flagged_in_answers_and_kept_apart_with_their_place(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    rows = trades(0, 40)  # numbers 16 and 33 are half a minute behind
    write_file(tmp_path / "in" / "a.parquet", rows.slice(0, 20))
    write_file(tmp_path / "in" / "b.parquet", rows.slice(20))
    session, sink = sessions.open(rows=1), millrace.MemorySink()
    files = millrace.Files(str(tmp_path / "in"))
    session.stream("trades", files, schema=COLUMNS, time="ts", delay="5 seconds", retain="1 day")
    session.query(millrace.select("trades", "number"), name="all")
    session.sink(sink)

    session.start()
    await_rows(session, 40)
    assert sink.wait_rows(40)

    answers = {row["number"]: row["_late"] for row in sink.table("all").to_pylist()}
    late = session.late_rows("trades").to_pylist()
    assert [number for number, flag in answers.items() if flag] == [16, 33]
    assert [(row["number"], row["_position"]) for row in late] == [(16, 16), (33, 13)]
    assert late[1]["_source"] == str(tmp_path / "in" / "b.parquet")
    assert sorted(session.history("trades")["number"].to_pylist()) == [
        each for each in range(40) if each not in (16, 33)
    ]
    reached = BEGIN + timedelta(seconds=39 - 5, microseconds=39 % 7)
    mark = session.engine.manifest.facts["watermarks"]["trades"]
    assert mark == round(reached.timestamp() * 1e6)
