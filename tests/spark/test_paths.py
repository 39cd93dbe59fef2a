"""The same rows by every way into the engine, in every arrangement, give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import millrace
from millrace import col
from millrace.plan.nodes import Selection
from millrace.testing.spark_rows import (
    COLUMNS,
    SPARK_COLUMNS,
    canonical_bytes,
    trades,
    write_files,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CUTS = [0, 60, 61, 150, 240]
STREAM: dict[str, Any] = {"time": "ts", "delay": "10 seconds", "order": "number", "key": "symbol"}
QUERIES: dict[str, Selection | str] = {
    "totals": "SELECT symbol, count(*) AS n, sum(price) AS total, max(price) AS most "
    "FROM trades [RANGE 30 SECONDS] GROUP BY symbol",
    "pairs": "SELECT ISTREAM(a.number, b.number AS other) FROM trades [RANGE 20 SECONDS] a, "
    "trades [RANGE 20 SECONDS] b WHERE a.symbol = b.symbol AND a.price < b.price",
    "last": "SELECT number FROM trades [ROWS 3]",
    "shares": "SELECT symbol, sum(price) / (SELECT sum(price) FROM trades [RANGE 9 SECONDS]) AS s "
    "FROM trades [RANGE 9 SECONDS] GROUP BY symbol HAVING count(*) > 1",
    "crowds": "SELECT n, count(*) AS symbols FROM (SELECT symbol, count(*) AS n "
    "FROM trades [RANGE 30 SECONDS] GROUP BY symbol) GROUP BY n",
    "dear": millrace.select("trades", "number", "symbol", where=col("price") > 15),
    "all": millrace.select("trades", "symbol", "number", cheap=col("price") <= 15),
}


def answers(session: millrace.Session, sink: millrace.MemorySink) -> dict[str, bytes]:
    """Return everything that may be compared, without what says how rows came in."""
    tables = {name: sink.table(name) for name in QUERIES}
    tables["history"] = session.history("trades")
    late = session.late_rows("trades").drop_columns(["_time", "_source", "_position"])
    facts = session.engine.manifest.facts
    marks = pa.table({"mark": [facts["watermarks"]["trades"]], **_single(facts["counts"])})
    return {
        name: canonical_bytes(each)
        for name, each in {**tables, "late": late, "facts": marks}.items()
    }


def _single(counts: dict[str, int]) -> dict[str, list[int]]:
    return {name: [value] for name, value in counts.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The answers of the engine without Spark."""
    with millrace.Session(tmp_path_factory.mktemp("plain") / "root") as session:
        sink = millrace.MemorySink()
        session.stream("trades", millrace.Feed(COLUMNS), retain="1 hour", **STREAM)
        for name, query in QUERIES.items():
            session.query(query, name=name)
        session.sink(sink)
        run = session.start()
        for first, stop in pairwise(CUTS):
            run.feed(trades=trades(first, stop))  # type: ignore[attr-defined]
        session.engine.delivery.drain(10)
        found = answers(session, sink)
        assert session.late_rows("trades").num_rows == 240 // 17
        return found


def spark_files(spark: SparkSession, directory: Path) -> DataFrame:
    write_files(directory, "parquet", CUTS)
    reader = spark.readStream.format("parquet").schema(SPARK_COLUMNS).name("parquet_files")
    return reader.option("maxFilesPerTrigger", 1).load(str(directory))


def text_files(spark: SparkSession, directory: Path) -> DataFrame:
    write_files(directory, "ndjson", CUTS)
    reader = spark.readStream.format("text").option("maxFilesPerTrigger", 1).name("text_files")
    return reader.load(str(directory))


def python_source(spark: SparkSession, directory: Path) -> DataFrame:
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    rows = [tuple(row.values()) for row in trades(CUTS[0], CUTS[-1]).to_pylist()]

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
            stop = next((cut for cut in CUTS if cut > start["at"]), CUTS[-1])
            return iter(rows[start["at"] : stop]), {"at": stop}

        def readBetweenOffsets(self, start: Any, end: Any) -> Iterator[Any]:
            return iter(rows[start["at"] : end["at"]])

    class Trades(DataSource):
        @classmethod
        def name(cls) -> str:
            return "trades_in_memory"

        def schema(self) -> str:
            return SPARK_COLUMNS

        def simpleStreamReader(self, schema: object) -> Reader:
            return Reader()

    spark.dataSource.register(Trades)
    return spark.readStream.format("trades_in_memory").name("memory").load()


def descriptors(ending: str) -> Callable[[SparkSession, Path], millrace.Files]:
    def made(_spark: SparkSession, directory: Path) -> millrace.Files:
        write_files(directory, ending, CUTS)
        return millrace.Files(str(directory / f"*.{ending}"))

    return made


WAYS: dict[str, tuple[Callable[..., object], dict[str, Any], dict[str, Any]]] = {
    "rows of Spark's file source": (spark_files, {}, {"shards": 2, "spread": "always"}),
    "rows of a Python source": (python_source, {}, {"shards": 4, "spread": "never"}),
    "JSON text in a column": (
        text_files,
        {"json": "value", "schema": COLUMNS},
        {"shards": 1, "spread": "always"},
    ),
    "Parquet by descriptors": (
        descriptors("parquet"),
        {"schema": COLUMNS},
        {"shards": 4, "spread": "always", "rows": 1},
    ),
    "NDJSON by descriptors": (
        descriptors("ndjson"),
        {"schema": COLUMNS},
        {"shards": 2, "spread": "never"},
    ),
    "CSV by descriptors": (
        descriptors("csv"),
        {"schema": COLUMNS},
        {"shards": 1, "spread": "auto", "rows": 1, "merging": False, "dealing": False},
    ),
}


@pytest.fixture
def adaptive(way: str, spark: SparkSession) -> Iterator[None]:
    """Plan one of the ways adaptively, as a session that a user brings may do."""
    chosen = way == "Parquet by descriptors"
    spark.conf.set("spark.sql.adaptive.enabled", str(chosen).lower())
    yield
    spark.conf.set("spark.sql.adaptive.enabled", "false")


@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_answers_of_the_engine_without_spark(
    way: str,
    spark: SparkSession,
    sessions: Any,
    tmp_path: Path,
    expected: dict[str, bytes],
    await_rows: Callable[[millrace.Session, int], None],
) -> None:
    source, words, settings = WAYS[way]
    session = sessions.open(**settings)
    sink = millrace.MemorySink()
    session.stream("trades", source(spark, tmp_path / "in"), retain="1 hour", **STREAM, **words)
    for name, query in QUERIES.items():
        session.query(query, name=name)
    session.sink(sink)

    session.start()
    await_rows(session, CUTS[-1])
    session.engine.delivery.drain(10)

    found = answers(session, sink)
    assert [name for name in expected if found[name] != expected[name]] == []


def test_rows_that_spark_makes_arrive_once_each(spark: SparkSession, sessions: Any) -> None:
    session = sessions.open(shards=2)
    sink = millrace.MemorySink()
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50)
    frame = reader.option("startTimestamp", 1_700_000_000_000).name("rate").load()
    session.stream("ticks", frame, time="timestamp")
    session.query(millrace.select("ticks", "value", where=col("value") >= 0), name="every")
    session.sink(sink)

    session.start()
    assert sink.wait_rows(100, 90)
    session.close()

    found = sorted(sink.table("every")["value"].to_pylist())
    assert found == list(range(len(found)))
