"""A session: declarations that last, and refusals in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.connectors.files import Files
from millrace.connectors.pushed import Pushed
from millrace.connectors.sinks import MemorySink, ParquetSink
from millrace.engine.local import Feed, LocalRun
from millrace.errors import (
    CorruptionError,
    InUseError,
    MillraceError,
    NameTakenError,
    PlanError,
    SchemaError,
    UnknownNameError,
)
from millrace.plan.nodes import select
from millrace.plan.term import call, col
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.state.posix_root import PosixRoot

COLUMNS = "symbol text, price double, ts timestamp"


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(MemoryRoot(), threads=False) as opened:
        yield opened


def trades(session: Session, **words: Any) -> None:
    session.stream("trades", Feed(COLUMNS), **{"time": "ts", **words})


def rows(*prices: float | None, second: int = 0) -> pa.Table:
    at = datetime(2024, 5, 1, 12, 0, second, tzinfo=UTC)
    return pa.table(
        {"symbol": ["ACME"] * len(prices), "price": list(prices), "ts": [at] * len(prices)},
        schema=pa.schema(
            [("symbol", pa.string()), ("price", pa.float64()), ("ts", pa.timestamp("us", "UTC"))]
        ),
    )


def started(session: Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def test_from_a_declaration_to_an_answer(tmp_path: Path) -> None:
    with Session(PosixRoot(tmp_path / "root", durable=False)) as session:
        trades(session, delay="2 seconds", key="symbol", retain="1 hour")
        session.query(select("trades", "symbol", where=col("price") > 100), name="big")
        session.sink(ParquetSink(tmp_path / "answers", "big"))
        run = started(session)
        statistics = run.feed(trades=rows(50, 150, None, 250))
        assert (statistics.rows, statistics.results) == (4, 2)
        assert session.history("trades").num_rows == 4

    (answers,) = (tmp_path / "answers").glob("big/*.parquet")
    assert pq.read_table(answers).column("symbol").to_pylist() == ["ACME", "ACME"]


def test_the_root_knows_whether_rows_of_a_stream_are_pushed(tmp_path: Path) -> None:
    root, numbers = MemoryRoot(), []
    for source in (Files(str(tmp_path)), Pushed(), Pushed(), Files(str(tmp_path))):
        with Session(root, threads=False) as session:
            session.stream("trades", source, time="ts", schema=COLUMNS)
            numbers.append(session.engine.registry.number)
            assert session.streams["trades"].pushed is isinstance(source, Pushed)
        with Session(root, threads=False) as again:
            assert again.streams["trades"].pushed is isinstance(source, Pushed)

    assert numbers == [0, 1, 1, 2]


def test_what_was_declared_is_there_when_the_program_starts_again() -> None:
    root = MemoryRoot()
    for _ in range(2):
        with Session(root, threads=False) as session:
            trades(session, delay=5)
            session.query(select("trades", where=col("price") > math.nan), name="odd")  # noqa: PLW0177
            assert session.engine.registry.catalog.sequence == 3


def test_a_query_can_be_paused_resumed_and_dropped(session: Session) -> None:
    trades(session)
    query = session.query(select("trades"), name="all")
    sink = MemorySink()
    session.sink(sink)
    run = started(session)
    run.feed(trades=rows(1))
    query.pause()
    run.feed(trades=rows(2))
    query.resume()
    run.feed(trades=rows(3))
    query.drop()
    run.feed(trades=rows(4))
    session.engine.delivery.pump()

    assert sink.table("all").column("price").to_pylist() == [1.0, 3.0]
    assert session.engine.registry.catalog.feeds == {}
    assert session.engine.registry.population.n_rows == 0


def test_late_rows_and_dead_letters_are_tables(session: Session) -> None:
    trades(session)
    run = started(session)
    empty = session.late_rows("trades"), session.dead_letters()
    run.feed(trades=rows(1, second=9))
    run.feed(trades=rows(2, 3, second=4))
    run.feed(trades=rows(4).set_column(2, "ts", pa.array([None], pa.timestamp("us", "UTC"))))

    assert [each.num_rows for each in empty] == [0, 0]
    assert session.late_rows("trades").column("price").to_pylist() == [2.0, 3.0]
    assert session.late_rows("trades").schema == empty[0].schema
    (letter,) = session.dead_letters().to_pylist()
    assert (letter["stream"], letter["source"], letter["position"]) == ("trades", "feed", 0)
    assert letter["reason"] == 'the time column "ts" is NULL'
    assert b'"price": 4.0' in letter["raw"]


def declared(**words: Any) -> Callable[[Session], object]:
    return lambda session: trades(session, **words)


def asked(selection: Any) -> Callable[[Session], object]:
    return lambda session: session.query(selection, name="q")


REFUSED = {
    "unknown column": (
        asked(select("trades", "prise")), SchemaError, 'Did you mean "price"?'),
    "unknown column in a condition": (
        asked(select("trades", where=col("prize") > 1)), SchemaError, 'column "prize"'),
    "unknown stream": (
        asked(select("trade")), UnknownNameError, 'Did you mean "trades"?'),
    "unknown function": (
        asked(select("trades", where=call("dear", col("price")))), UnknownNameError,
        "Register it with Session.function"),
    "a name for two queries": (
        lambda session: [
            session.query(select("trades", each), name="q") for each in ("price", "ts")],
        NameTakenError, 'query "q" exists already'),
    "a reserved column": (
        asked(select("trades", _time=col("price"))), PlanError, 'column name "_time" is reserved'),
    "a column twice": (
        asked(select("trades", "price", "price")), PlanError, "appears twice"),
    "a column without a type": (
        asked(select("trades", nothing=None)), PlanError, "has no type"),
    "a condition that is none": (
        asked(select("trades", where=col("price"))), PlanError, "where a condition is needed"),
    "text beside a number": (
        asked(select("trades", where=col("price") > "1")), PlanError, "compares double with text"),
    "a number beyond bigint": (
        asked(select("trades", where=col("price") > 2**70)), PlanError, "out of the range"),
    "a reserved query name": (
        lambda session: session.query(select("trades"), name="_q"), PlanError, 'query name "_q"'),
    "an empty query name": (
        lambda session: session.query(select("trades"), name=""), PlanError, "is reserved"),
    "a query name too long for a folder": (
        lambda session: session.query(select("trades"), name="é" * 40), PlanError, "is too long"),
    "another delay than in the root": (
        declared(delay=7), PlanError, "Its delay is 0 there and 7 here."),
    "another source of columns": (
        lambda session: session.stream("trades", Feed("ts timestamp"), time="ts"), PlanError,
        "declared otherwise"),
    "an unknown time column": (
        lambda session: session.stream("s", Feed(COLUMNS), time="t"), SchemaError,
        'Did you mean "ts"?'),
    "a time that is no timestamp": (
        lambda session: session.stream("s", Feed(COLUMNS), time="price"), SchemaError,
        "is not a timestamp"),
    "a partition without order": (
        lambda session: session.stream("s", Feed(COLUMNS), time="ts", partition="symbol"),
        PlanError, "names a partition column and no order columns"),
    "an order by a double": (
        lambda session: session.stream("s", Feed(COLUMNS), time="ts", order="price"),
        SchemaError, "is double"),
    "columns that nobody knows": (
        lambda session: session.stream("s", Feed(), time="ts"), PlanError, "are not known"),
    "JSON without columns": (
        lambda session: session.stream("s", Feed(COLUMNS), time="ts", json="symbol"), PlanError,
        "has no declared columns"),
    "a source that needs Spark": (
        lambda session: session.stream("s", object(), time="ts"), PlanError,
        "cannot read from object"),
    "a duration that is none": (
        lambda session: session.stream("s", Feed(COLUMNS), time="ts", delay="soon"), PlanError,
        "is not a duration"),
    "history that is not kept": (
        lambda session: session.history("trades"), PlanError, "keeps no history"),
    "late rows of an unknown stream": (
        lambda session: session.late_rows("trade"), UnknownNameError, 'Did you mean "trades"?'),
    "dropping a stream that is read": (
        lambda session: (session.query(select("trades"), name="q"), session.drop_stream("trades")),
        PlanError, "Drop them first."),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_in_words(session: Session, what: str) -> None:
    act, error, words = REFUSED[what]
    trades(session)

    with pytest.raises(MillraceError) as refused:
        act(session)

    assert isinstance(refused.value, error)
    assert words in str(refused.value)
    assert not refused.value.message.endswith(".")
    assert list(session.engine.registry.catalog.streams) == ["trades"]


def test_a_stream_of_the_root_without_a_source_is_refused_at_the_start() -> None:
    root = MemoryRoot()
    with Session(root, threads=False) as session:
        trades(session)
    with Session(root, threads=False) as session:
        with pytest.raises(PlanError, match='"trades" is declared in the root and has no source'):
            session.start()
        trades(session)
        assert session.start() is not None


def test_a_function_of_the_root_that_is_missing_is_refused_at_the_start() -> None:
    root = MemoryRoot()
    with Session(root, threads=False) as session:
        trades(session)
        session.function("dear", lambda prices: prices, returns="boolean")
        session.query(select("trades", where=call("dear", col("price"))), name="q")
    with Session(root, threads=False) as session:
        trades(session)
        with pytest.raises(UnknownNameError, match='function "dear" does not exist'):
            session.start()


def test_a_root_has_one_session_at_a_time(tmp_path: Path) -> None:
    with Session(tmp_path, threads=False), pytest.raises(InUseError, match="is in use"):
        Session(tmp_path)
    Session(tmp_path, threads=False).close()


def test_a_root_that_cannot_be_opened_is_free_again(tmp_path: Path) -> None:
    with Session(tmp_path, threads=False) as session:
        trades(session)
        started(session).feed(trades=rows(1))
    (commit,) = (tmp_path / "commits").iterdir()
    whole = commit.read_bytes()
    commit.write_bytes(whole[:-1])
    with pytest.raises(CorruptionError, match=commit.name):
        Session(tmp_path)
    commit.write_bytes(whole)

    Session(tmp_path, threads=False).close()


def test_files_are_declared_without_spark_and_ordered_by_nature(session: Session) -> None:
    session.stream("logs", Files("/nowhere"), schema=COLUMNS, time="ts")

    assert session.engine.registry.catalog.stream("logs").exact


def test_json_text_takes_columns_beside_it_from_the_source(session: Session) -> None:
    source = Feed("value text, part int, at bigint")
    session.stream(
        "events", source, schema="price double, ts timestamp", time="ts", json="value",
        partition="part", order="at",
    )  # fmt: skip
    session.query(select("events"), name="all")
    sink = MemorySink()
    session.sink(sink)
    texts = ['{"price": 1.5, "ts": "2024-05-01T12:00:00Z"}', '{"price": 1.5', "[]"]
    columns = {"value": texts, "part": pa.array([1, 1, 2], pa.int32()), "at": [7, 8, 9]}
    started(session).feed(events=pa.table(columns))
    session.engine.delivery.pump()

    (answer,) = sink.table("all").to_pylist()
    assert (answer["price"], answer["part"], answer["at"]) == (1.5, 1, 7)
    letters = session.dead_letters().to_pylist()
    assert [(each["position"], each["raw"]) for each in letters] == [
        (8, b'{"price": 1.5'), (9, b"[]")]  # fmt: skip
