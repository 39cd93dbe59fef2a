"""Expiry: an outlook never hides a run that time has caught up with."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.state.expiry import Outlook, expired, half_expired, overdue
from millrace.state.piece import Piece
from millrace.state.store_state import StoreSpec, StoreState

SCHEMA = pa.schema([("_key", pa.uint64()), ("_time", pa.int64())])


@st.composite
def a_store(draw: st.DrawFn) -> StoreState:
    state = StoreState(StoreSpec(SCHEMA))
    for epoch in range(draw(st.integers(0, 4))):
        pieces = []
        for key in range(draw(st.integers(1, 3))):
            low, high = sorted(draw(st.tuples(st.integers(-20, 20), st.integers(-20, 20))))
            file = draw(st.sampled_from([f"commits/{epoch:012d}", "runs/a"]))
            rows = draw(st.integers(1, 9))
            pieces.append(Piece(file, "r", 0, rows, (key, 0), (key + 1, 0), low, high, 1))
        state = state.with_run(pieces, epoch)
    return state


@given(a_store(), st.integers(0, 80), st.none() | st.integers(-25, 25))
def test_within_its_outlook_a_store_needs_nothing(
    state: StoreState, epoch: int, horizon: int | None
) -> None:
    if Outlook.of(state).covers(epoch, horizon):
        for run in state.runs:
            assert not expired(run, horizon)
            assert not half_expired(run, horizon)
            assert not overdue(run, epoch)


@given(st.lists(st.integers(0, 40), min_size=1), st.integers(0, 41))
def test_a_piece_is_expired_when_its_last_row_is(times: list[int], horizon: int) -> None:
    piece = Piece("runs/a", "r", 0, len(times), (0, 0), (1, 0), min(times), max(times), 1)
    (run,) = StoreState(StoreSpec(SCHEMA)).with_run([piece], 0).runs

    assert expired(run, horizon) == all(time < horizon for time in times)
    assert not expired(run, None)
