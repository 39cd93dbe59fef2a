"""What a program hands over by mistake is refused in words, and what holds rows is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from millrace.connectors.sinks.memory import MemorySink
from millrace.engine.local import Feed, LocalRun
from millrace.errors import MillraceError
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot

pd: Any = pytest.importorskip("pandas")

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(MemoryRoot(), threads=False) as session:
        session.stream("trades", Feed("symbol text, price double, ts timestamp"), time="ts")
        yield session


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "a number as a query": (
        lambda session: session.query(5, name="x"), "a query cannot be the number 5"),
    "nothing as a query": (
        lambda session: session.query(None, name="x"), "a query cannot be None"),
    "many as one query": (
        lambda session: session.query(["SELECT 1"], name="x"), "Session.queries(texts, into=...)"),
    "a number among queries": (
        lambda session: session.queries([5], into="x"), "a query cannot be the number 5"),
    "a number as a template": (
        lambda session: session.template("x", 5, low="double"), "cannot be the number 5"),
    "a name as an id": (
        lambda session: session.drop_queries(["nope"]), "'nope' is not the id of a query"),
    "a text as ids": (
        lambda session: session.drop_queries("nope"), "ids of queries cannot be a str"),
    "a number as a sink": (
        lambda session: session.sink(5), "a sink cannot be the number 5"),
    "the class of a sink": (
        lambda session: session.sink(MemorySink), "a sink cannot be the class MemorySink"),
    "a number as rows": (
        lambda session: session.start().feed(trades=5),
        'rows for stream "trades" cannot be read from int'),
    "texts as rows": (
        lambda session: session.start().feed(trades=["ACME"]), "from a list of str"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_mistake_is_refused_in_words_and_changes_nothing(session: Session, what: str) -> None:
    act, words = REFUSED[what]
    before = session.engine.registry.catalog.sequence

    with pytest.raises(MillraceError) as refused:
        act(session)

    assert words in str(refused.value)
    assert refused.value.hint
    assert session.engine.registry.catalog.sequence == before


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("", "the root has no path"),
        (None, "a root cannot be None"),
        (5, "a root cannot be the number 5"),
    ],
)
def test_what_is_no_root_is_refused_and_told_what_one_is(root: Any, words: str) -> None:
    with pytest.raises(MillraceError) as refused:
        Session(root)

    assert words in str(refused.value)
    assert "everything durable" in refused.value.detail
    assert refused.value.hint


def test_frames_streams_of_arrow_columns_and_dictionaries_are_rows(session: Session) -> None:
    columns = {"sym": ["A", "B"], "low": [1, 2.5]}
    frame = pd.DataFrame(columns, index=["first", "second"])
    table = pa.table(columns)
    given = [frame, table, table.to_batches()[0], table.to_reader(), columns, table.to_pylist()]
    alert = session.template(
        "alert",
        "SELECT symbol FROM trades WHERE symbol = :sym AND price > :low",
        sym="text",
        low="double",
    )

    assert [len(alert.insert(each)) for each in given] == [2] * len(given)
    assert alert.rows().drop_columns(["_query"]).to_pylist() == table.to_pylist() * len(given)


def test_rows_of_any_form_can_be_fed(session: Session) -> None:
    query = session.query("SELECT symbol FROM trades WHERE price > 1", name="all")
    run = session.start()
    assert isinstance(run, LocalRun)
    row = {"symbol": "A", "price": 2.0, "ts": NOON}

    run.feed(trades={name: [value] for name, value in row.items()})
    run.feed(trades=[row])
    run.feed(trades=pd.DataFrame([row]))

    assert query.results().num_rows == 3


@pytest.mark.parametrize("fan_out", ["rows", "counts", "sets"])
def test_a_query_that_matched_nothing_has_an_empty_table_of_its_columns(
    session: Session, fan_out: Any
) -> None:
    session.query("SELECT symbol FROM trades WHERE price > 1", name="one")
    session.query("SELECT symbol FROM trades WHERE price > 100", name="none")
    sink = MemorySink(fan_out=fan_out)
    session.sink(sink)
    run = session.start()
    assert isinstance(run, LocalRun)

    run.feed(trades=[{"symbol": "A", "price": 2.0, "ts": NOON}])
    session.engine.delivery.pump()

    assert sink.table("one").num_rows == 1
    assert sink.table("none").num_rows == 0
    assert sink.table("none").schema == sink.table("one").schema
    with pytest.raises(MillraceError, match='query "nono" delivers nothing'):
        sink.table("nono")


def test_a_parameter_that_is_not_used_is_refused(session: Session) -> None:
    text = "SELECT symbol FROM trades WHERE price > :low"

    with pytest.raises(MillraceError) as refused:
        session.template("alert", text, low="double", high="double")

    assert refused.value.message == 'parameter "high" of template "alert" is not used'
    assert "Write :high" in refused.value.hint
    assert len(session.template("alert", text, low="double")) == 0
