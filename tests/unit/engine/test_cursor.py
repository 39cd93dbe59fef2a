"""Cursors: one owner at a time, nothing forgotten, whatever is interrupted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.connectors.sinks import Move
from millrace.engine.cursor import KEPT, MAX_GAPS, Cursor, DurableCursor, sinks_with_cursors
from millrace.errors import CorruptionError, FencedError, FormatVersionError
from millrace.state.memory_root import MemoryRoot


def alive() -> None:
    pass


def forward(log: DurableCursor, cursor: Cursor, n_moves: int) -> Cursor:
    for _ in range(n_moves):
        cursor = log.move(replace(cursor, next_epoch=cursor.next_epoch + 1))
        log.trim(cursor)
    return cursor


def test_a_new_sink_begins_where_it_is_told_and_a_known_one_where_it_was() -> None:
    root = MemoryRoot()
    log = DurableCursor(root, "files", alive)
    moved = forward(log, log.claim(5), 3)

    assert moved.next_epoch == 8
    assert DurableCursor(root, "files", alive).claim(0).next_epoch == 8
    assert sinks_with_cursors(root) == ("files",)


def test_a_record_reads_back_as_it_was_written() -> None:
    moves = (Move("big/.a", "big/part"), Move("small/.b", "small/part"))
    cursor = Cursor(7, moves, 3, 30, ((1, 2), (4, 6)), (9, 12), number=5, term=2, writer="me")

    assert Cursor.from_json(5, cursor.to_json()) == cursor


@pytest.mark.parametrize("n_moves", [1, KEPT, 3 * KEPT])
def test_who_was_taken_over_is_told_however_long_it_slept(n_moves: int) -> None:
    root = MemoryRoot()
    sleeper, owner = DurableCursor(root, "files", alive), DurableCursor(root, "files", alive)
    asleep = forward(sleeper, sleeper.claim(0), 2)
    newest = forward(owner, owner.claim(0), n_moves)

    with pytest.raises(FencedError, match='sink "files" was taken over'):
        sleeper.move(asleep)
    with pytest.raises(FencedError):
        sleeper.current()
    assert forward(owner, newest, 1).next_epoch == newest.next_epoch + 1


def test_old_records_are_deleted() -> None:
    root = MemoryRoot()
    log = DurableCursor(root, "files", alive)
    forward(log, log.claim(0), 50)

    assert len(root.list("cursors/files/")) == KEPT


def test_what_was_promised_survives_a_takeover_and_a_skip() -> None:
    root = MemoryRoot()
    log = DurableCursor(root, "files", alive)
    move = Move("big/.a", "big/part")
    log.move(replace(log.claim(0), promised=(move,), next_epoch=1))

    claimed = DurableCursor(root, "files", alive).claim(0)

    assert claimed.promised == (move,)
    assert claimed.skipping(4, 2).promised == (move,)


def test_a_damaged_record_and_one_of_another_version_are_refused() -> None:
    with pytest.raises(CorruptionError, match="cursor record 3 is not what was written"):
        Cursor.from_json(3, b"{")
    with pytest.raises(FormatVersionError, match="cursor record 3 has format version 99"):
        Cursor.from_json(3, b'{"version": 99}')


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=40))
def test_gaps_cover_every_skipped_epoch_and_their_number_is_bounded(
    steps: list[tuple[int, int]],
) -> None:
    cursor, skipped = Cursor(), set()
    for delivered, dropped in steps:
        cursor = replace(cursor, next_epoch=cursor.next_epoch + delivered)
        skipped |= set(range(cursor.next_epoch, cursor.next_epoch + dropped))
        cursor = cursor.skipping(cursor.next_epoch + dropped, 2 * dropped)

    covered = {epoch for first, stop in cursor.gaps for epoch in range(first, stop)}
    assert cursor.skipped_epochs == len(skipped)
    assert cursor.skipped_rows == 2 * len(skipped)
    assert skipped <= covered
    assert len(cursor.gaps) <= MAX_GAPS
