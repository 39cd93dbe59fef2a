"""What a subscriber has missed comes whole, in parts that fit; or it is told of the gap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import millrace
from millrace.engine.feeds import POLICIES, Policy
from millrace.engine.local import LocalRun
from millrace.errors import LostAnswersError
from millrace.reading.changes import changes
from millrace.reading.reader import Reader
from millrace.server import missed
from millrace.server.cursors import Cursor
from millrace.server.events import Event
from millrace.server.fan_out import FanOut
from millrace.server.missed import Missed
from millrace.session.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.state.names import MissingError

N_EPOCHS, N_ROWS = 30, 5

Fed = Callable[[int], None]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(missed, "FIRST_EPOCHS", 4)
    monkeypatch.setattr(missed, "PART_ROWS", 20)
    with Session(MemoryRoot(), threads=False) as made:
        source = millrace.Feed("n bigint, ts timestamp")
        made.stream("trades", source, time="ts", retain="1 hour", delay="0 seconds")
        yield made


@pytest.fixture
def feed(session: Session) -> Fed:
    run = session.start()
    assert isinstance(run, LocalRun)

    def fed(epoch: int) -> None:
        numbers = [epoch * N_ROWS + each for each in range(N_ROWS)]
        run.feed(trades=pa.table({"n": numbers, "ts": pa.array(numbers).cast(pa.timestamp("us"))}))

    return fed


def reading(session: Session) -> Reader:
    reader = Reader(session.engine.root)
    reader.follow()
    return reader


def numbers(events: list[Event]) -> list[int]:
    return [row["n"] for event in events for row in event.rows]


@pytest.mark.parametrize("policy", POLICIES)
def test_all_that_was_missed_is_told_in_parts(session: Session, feed: Fed, policy: Policy) -> None:
    query = session.query("SELECT n FROM trades", name="q", retain="1 hour", policy=policy)
    for epoch in range(N_EPOCHS):
        feed(epoch)
    reader = reading(session)
    start = Cursor(1, 2, query.feed.number, N_ROWS)
    last = reader.manifest.epoch
    told = Missed(reader, query.feed, query.id, start, last)
    read = []
    monkey = told._changes

    def counted() -> tuple[pa.Table, int]:
        table, until = monkey()
        read.append(table.num_rows)
        return table, until

    told._changes = counted  # type: ignore[method-assign]
    events = list(told)

    assert numbers(events) == list(range(N_ROWS + 2, N_EPOCHS * N_ROWS))
    assert len(read) > 5
    assert max(read) <= 40
    assert events[-1].cursor == Cursor(last, 0, query.feed.number)
    half = events[: len(events) // 2]
    rest = list(Missed(reader, query.feed, query.id, half[-1].cursor, last))
    assert numbers(half) + numbers(rest) == numbers(events)


def test_what_is_committed_meanwhile_is_not_told_twice(session: Session, feed: Fed) -> None:
    query = session.query("SELECT n FROM trades", name="q", keep=1_000)
    for epoch in range(N_EPOCHS):
        feed(epoch)
    reader = reading(session)
    told = Missed(reader, query.feed, query.id, Cursor(-1), reader.manifest.epoch)
    first = next(told)
    feed(N_EPOCHS)
    reader.follow()

    assert numbers([first, *told]) == list(range(N_EPOCHS * N_ROWS))


def test_answers_that_are_gone_when_they_are_wanted_end_it(session: Session, feed: Fed) -> None:
    query = session.query("SELECT n FROM trades", name="q", keep=N_EPOCHS * N_ROWS)

    async def followed() -> tuple[list[Event], str]:
        fan_out = FanOut(reading(session))
        following = await fan_out.subscribe(query.feed, query.id, Cursor(-1, 0, query.feed.number))
        taken = [await following.next(0.1)]
        for epoch in range(N_EPOCHS, 3 * N_EPOCHS):
            feed(epoch)
        fan_out._reader.follow()
        await fan_out.publish()
        while (event := await following.next(0.1)) is not None:
            taken.append(event)
        return [each for each in taken if each is not None], following.ended

    for epoch in range(N_EPOCHS):
        feed(epoch)
    events, why = asyncio.run(followed())

    assert why == "gone"
    assert numbers(events) == list(range(len(numbers(events))))
    assert 0 < len(numbers(events)) < N_EPOCHS * N_ROWS


def test_a_file_that_has_just_gone_is_looked_for_in_what_is_newer(
    session: Session, feed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = session.query("SELECT n FROM trades", name="q", keep=1_000)
    feed(0)
    reader = reading(session)
    tried: list[int] = []

    def gone(*given: Any, **more: Any) -> tuple[pa.Table, int]:
        if not tried:
            tried.append(1)
            feed(1)
            reader.follow()
            raise MissingError("runs/a")
        return changes(*given, **more)

    monkeypatch.setattr(missed, "changes", gone)
    told = Missed(reader, query.feed, query.id, Cursor(-1), reader.manifest.epoch)

    assert numbers(list(told)) == list(range(N_ROWS))


def test_no_part_is_read_beyond_retention(session: Session, feed: Fed) -> None:
    query = session.query("SELECT n FROM trades", name="q", keep=N_ROWS)
    for epoch in range(N_EPOCHS):
        feed(epoch)
    reader = reading(session)

    with pytest.raises(LostAnswersError):
        next(Missed(reader, query.feed, query.id, Cursor(-1), reader.manifest.epoch))
