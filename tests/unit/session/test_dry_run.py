"""Dry runs: the number of results is the one that the query has when it stands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millrace
from millrace.engine.local import Feed, LocalRun
from millrace.errors import MillraceError
from millrace.reading.history import history
from millrace.reading.room import Room
from millrace.schema import Schema
from millrace.session import tried_rows
from millrace.session.dry_run import Limits
from millrace.state.memory_root import MemoryRoot

SCHEMA = Schema.of("k text, v int, ts timestamp")
START = datetime(2024, 5, 1, tzinfo=UTC)
TEXTS = [
    "SELECT k, v FROM t WHERE v % 3 = 0",
    "SELECT k, count(*) AS n FROM t [RANGE 10 SECONDS] GROUP BY k",
    "SELECT ISTREAM(t.v, u.v AS w) FROM t [RANGE 5 SECONDS], u [RANGE 5 SECONDS] WHERE t.k = u.k",
    "SELECT t.v, names.name FROM t [NOW] JOIN names ON t.k = names.k",
    "SELECT ISTREAM(v) FROM odd [ROWS 3]",
    "SELECT shout(k) AS loud FROM t WHERE v > 50",
]


def opened() -> millrace.Session:
    session = millrace.Session(MemoryRoot(), threads=False)
    for name in ("t", "u"):
        session.stream(name, Feed(SCHEMA), time="ts", retain="1 hour")
    session.stream("fleeting", Feed(SCHEMA), time="ts")
    session.function("shout", pc.utf8_upper, returns="text")
    session.table("names", {"k": ["a"], "name": ["first"]})
    session.view("odd", "SELECT v FROM t WHERE v % 2 = 1")
    return session


def rows(first: int, stop: int) -> pa.Table:
    numbers = range(first, stop)
    return pa.table(
        {
            "k": ["a" if n % 4 else "b" for n in numbers],
            "v": pa.array(list(numbers), pa.int32()),
            "ts": [START + timedelta(seconds=n) for n in numbers],
        }
    )


@pytest.fixture
def session() -> Iterator[millrace.Session]:
    with opened() as session:
        run = session.start()
        assert isinstance(run, LocalRun)
        run.feed(t=rows(0, 60), u=rows(10, 40))
        run.feed(t=rows(60, 100), u=rows(40, 90))
        yield session


@pytest.mark.parametrize("text", TEXTS)
def test_it_finds_what_the_standing_query_answers(session: millrace.Session, text: str) -> None:
    with opened() as other:
        query = other.query(text, keep=100_000, unbounded=True)
        run = other.start()
        assert isinstance(run, LocalRun)
        run.feed(t=rows(0, 100), u=rows(10, 90))
        expected = query.results()

    found = session.dry_run(text)

    assert found.results == expected.num_rows > 0
    assert not found.at_least
    assert not found.partial
    last = expected.slice(max(expected.num_rows - 10, 0)).drop_columns(["_epoch"])
    assert found.sample.to_pylist() == last.to_pylist()


def test_it_leaves_no_trace(session: millrace.Session) -> None:
    before = session.engine.registry.catalog.sequence

    session.dry_run(TEXTS[1])

    assert session.engine.registry.catalog.sequence == before


def test_less_history_gives_fewer_results(session: millrace.Session) -> None:
    assert session.dry_run("SELECT v FROM t", "9 seconds").results == 10
    assert session.dry_run("SELECT v FROM t", "2 hours").partial


def test_what_was_not_tried_is_said(
    session: millrace.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.session.dry_run.ROWS_AT_ONCE", 10)

    found = session.dry_run("SELECT v FROM t", limits=Limits(rows=35))

    assert (found.results, found.rows, found.n_rows) == (30, 30, 100)
    assert found.at_least
    assert "at least 30" in str(found)


@pytest.mark.parametrize("text", TEXTS)
def test_rows_are_read_some_at_a_time_and_answers_are_the_same(
    session: millrace.Session, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = session.dry_run(text)
    monkeypatch.setattr(tried_rows, "LOAD_ROWS", 8)
    read: list[int] = []

    def noted(*given: Any, room: Room, **more: Any) -> pa.Table:
        found = history(*given, **more, room=room)
        read.append(room.n_rows)
        return found

    monkeypatch.setattr(tried_rows, "history", noted)
    parts = session.dry_run(text)

    assert (parts.results, parts.rows, parts.n_rows) == (whole.results, whole.rows, whole.n_rows)
    assert parts.sample.equals(whole.sample)
    assert len(read) >= 10
    assert max(read) <= 16


def test_rows_of_one_instant_that_are_too_many_are_not_read(
    session: millrace.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tried_rows, "LOAD_ROWS", 8)
    run = session.start()
    assert isinstance(run, LocalRun)
    burst = rows(200, 201)
    run.feed(t=pa.concat_tables([rows(100, 110), *[burst] * 100]))

    found = session.dry_run("SELECT v FROM t")

    assert (found.results, found.rows, found.n_rows) == (110, 110, 210)
    assert found.at_least


def test_only_what_the_query_names_is_copied(
    session: millrace.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.table("others", {"k": ["a"] * 10})
    read: list[str] = []
    real = session.standing_table

    def noted(name: str) -> millrace.Table:
        read.append(name)
        return real(name)

    monkeypatch.setattr(session, "standing_table", noted)

    session.dry_run(TEXTS[0])
    session.dry_run(TEXTS[3])
    with pytest.raises(MillraceError, match="does not exist") as refused:
        session.dry_run("SELECT v FROM other")

    assert read == ["names"]
    assert '"others"' in refused.value.detail + refused.value.hint


def test_it_is_a_statement(session: millrace.Session) -> None:
    [outcome] = session.execute("EXPLAIN DRY RUN OVER 9 seconds SELECT v FROM t WHERE v > 94")

    assert outcome.message.split("\n")[0] == "results  5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT v FROM fleeting", "keeps no history"),
        ("SELECT v FROM nope", "does not exist"),
        ("SELECT nope(v) AS x FROM t", "does not exist"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    session: millrace.Session, text: str, message: str
) -> None:
    with pytest.raises(MillraceError, match=message):
        session.dry_run(text)
