"""Room: what is too large is refused before it is read, in whichever way answers are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import millrace
from millrace.engine.feeds import POLICIES, Policy
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.errors import ReadLimitError
from millrace.reading import adhoc, bounded_pairs, gathered
from millrace.reading import answers as reading_answers
from millrace.reading.adhoc import Limits, ask
from millrace.reading.answers import answers
from millrace.reading.changes import changes
from millrace.reading.room import Room
from millrace.session.held import SessionHeld
from millrace.session.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.testing.bag import bag_of

N_EPOCHS, N_ROWS = 6, 50
TEXT = "SELECT price FROM trades WHERE price >= {}"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr(bounded_pairs, "MEMBERS_AT_ONCE", 16)
    monkeypatch.setattr(gathered, "ROWS_AT_ONCE", 64)
    with Session(MemoryRoot(), threads=False, settings=Settings(shards=2)) as made:
        source = millrace.Feed("price bigint, ts timestamp")
        made.stream("trades", source, time="ts", retain="1 hour", delay="1 second")
        yield made


def fed(session: Session) -> None:
    """Feed rows at instants 0, 1, 2, …, in an order of their own within each epoch."""
    run = session.start()
    assert isinstance(run, LocalRun)
    order = np.random.default_rng(3).permutation(N_ROWS)
    for epoch in range(N_EPOCHS):
        prices = order + epoch * N_ROWS
        stamps = pa.array(prices).cast(pa.timestamp("us"))
        run.feed(trades=pa.table({"price": prices, "ts": stamps}))


def of(session: Session, query: millrace.Query, room: Room | None, **window: Any) -> pa.Table:
    engine = session.engine
    return answers(engine.root, engine.manifest, query.feed, query.id, **window, room=room)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [{}, {"begin": 40, "end": 170}, {"last": 60}, {"last": 7}])
def test_with_enough_room_answers_are_the_same(
    session: Session, policy: Policy, window: dict[str, int]
) -> None:
    query = session.query(TEXT.format(30), name="q", retain="1 hour", policy=policy)
    fed(session)
    free = of(session, query, None, **window)
    tight = of(session, query, Room(free.num_rows), **window)

    assert free.num_rows == {"begin": 130, "last": window.get("last")}.get([*window, ""][0], 270)
    assert tight.equals(free)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [{}, {"begin": 40, "end": 170}, {"last": 131}])
def test_more_than_there_is_room_for_is_refused(
    session: Session, policy: Policy, window: dict[str, int]
) -> None:
    query = session.query(TEXT.format(30), name="q", retain="1 hour", policy=policy)
    fed(session)

    with pytest.raises(ReadLimitError, match="reads too many rows") as refused:
        of(session, query, Room(129), **window)

    assert refused.value.now > 129
    assert "may read 129" in refused.value.detail
    assert refused.value.hint


@pytest.mark.parametrize("policy", POLICIES)
def test_all_queries_of_a_template_have_room_together(session: Session, policy: Policy) -> None:
    template = session.template(
        "t", TEXT.format(":low"), low="bigint", retain="1 hour", policy=policy
    )
    template.insert({"low": [0, 100, 280]})
    fed(session)
    engine = session.engine
    read = engine.root, engine.manifest, template.feed

    free, tight = answers(*read), answers(*read, room=Room(520))

    assert free.num_rows == 300 + 200 + 20
    assert bag_of(tight) == bag_of(free)
    with pytest.raises(ReadLimitError):
        answers(*read, room=Room(519))


def test_what_pieces_tell_is_refused_before_anything_is_read(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = session.query(TEXT.format(0), name="q", retain="1 hour", policy="eager")
    fed(session)

    def unread(*_: object, **__: object) -> None:
        raise AssertionError("a piece was read")

    monkeypatch.setattr(reading_answers, "read_piece", unread)

    with pytest.raises(ReadLimitError, match="too many rows"):
        of(session, query, Room(299))


def test_rows_that_are_told_with_sets_of_queries_are_counted_before_they_are_many() -> None:
    how = Settings(shards=1, spread="never")
    with Session(MemoryRoot(), threads=False, settings=how) as session:
        for name in ("r", "s"):
            session.stream(name, millrace.Feed("k bigint, ts timestamp"), time="ts", delay="0 s")
        text = (
            "SELECT ISTREAM(r.k) FROM r [RANGE 4 SECONDS], s [RANGE 4 SECONDS] "
            "WHERE r.k = s.k AND r.k > :low"
        )
        template = session.template("t", text, low="bigint", keep=1_000)
        run = session.start()
        assert isinstance(run, LocalRun)
        template.insert({"low": [-1] * 20})
        for begin in (0, 8, 30):
            stamps = pa.array([(begin + each) * 1_000_000 for each in range(3)])
            rows = pa.table({"k": [0, 1, 2], "ts": stamps.cast(pa.timestamp("us"))})
            run.feed(r=rows, s=rows)
        engine = session.engine
        n_told = template.results().num_rows

        with pytest.raises(ReadLimitError) as refused:
            answers(engine.root, engine.manifest, template.feed, room=Room(n_told - 1))
        assert answers(engine.root, engine.manifest, template.feed, room=Room(n_told)).num_rows
    assert refused.value.now >= n_told > 50


@pytest.mark.parametrize("policy", POLICIES)
def test_changes_come_in_parts_that_make_the_whole(session: Session, policy: Policy) -> None:
    query = session.query(TEXT.format(20), name="q", retain="1 hour", policy=policy)
    fed(session)
    read = session.engine.root, session.engine.manifest, query.feed, query.id
    whole, last = changes(*read, 0)
    parts, at = [], 0
    while at < last:
        table, at = changes(*read, at, until=at + 2)
        parts.append(table)

    assert len(parts) == 3
    assert pa.concat_tables(parts).equals(whole)


def test_a_question_that_reads_too_much_is_refused_before_it_has_read_it(session: Session) -> None:
    session.query(TEXT.format(0), name="q", retain="1 hour", policy="lazy")
    session.execute("CREATE TABLE names (name text, PRIMARY KEY (name))")
    session.execute(f"INSERT INTO names VALUES ('{'x' * 5_000}')")
    fed(session)
    held = SessionHeld(session)
    small = Limits(memory_bytes=4_000)

    for name in ("trades", "q", "names"):
        with pytest.raises(ReadLimitError, match="the query reads too m") as refused:
            ask(f"SELECT count(*) FROM {name}", held, limits=small)
        assert refused.value.detail
        assert refused.value.hint
    counted = ask("SELECT count(*) AS n FROM trades", held, limits=Limits(memory_bytes=1 << 24))
    assert counted["n"].to_pylist() == [300]


def test_the_clock_of_a_question_runs_while_it_reads(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(session)
    monkeypatch.setattr(adhoc, "run", None)  # it does not come that far

    with pytest.raises(ReadLimitError, match="took too long"):
        ask("SELECT count(*) FROM trades", SessionHeld(session), limits=Limits(seconds=1e-6))


def test_bytes_and_seconds_are_limited_too() -> None:
    table = pa.table({"a": list(range(1_000))})
    small, late = Room(n_bytes=10_000), Room(seconds=0.0)
    time.sleep(0.002)

    small.take(table)
    with pytest.raises(ReadLimitError, match="reads too much"):
        small.take(table)
    with pytest.raises(ReadLimitError, match="took too long"):
        late.take(table)
    assert Room(seconds=5.0).seconds_left == pytest.approx(5.0, abs=1.0)
