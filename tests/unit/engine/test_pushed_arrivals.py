"""Pushed batches are routed together where one sender sent them, in their order."""

from __future__ import annotations

from itertools import groupby

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.connectors.formats.decoded import reject_table
from millrace.connectors.pushed import Batch, PushLog
from millrace.engine import arrivals
from millrace.engine.arrivals import from_pushed
from millrace.engine.route import Arrived
from millrace.engine.streams import StreamSpec
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot

Told = tuple[str, list[int], list[int], list[str]]
"""A sender, numbers of rows, their places, and why others were rejected."""

FOLDER = "pushed/s_1"
SPEC = StreamSpec("s", Schema.of("n bigint, ts timestamp"), "ts")
SENT = st.lists(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.booleans()), min_size=1, max_size=3
    ),
    max_size=6,
)


def batch(sender: str, first: int, n_rows: int, *, rejected: bool) -> Batch:
    """Return rows that are numbered; one more may have been rejected at their end."""
    columns = {"n": [*range(first, first + n_rows)], "ts": [0] * n_rows}
    types = {"n": pa.int64(), "ts": pa.timestamp("us", "UTC")}
    arrays = {name: pa.array(columns[name], types[name]) for name in columns}
    rejects = reject_table([(n_rows, f"bad after {first}", b"x")] if rejected else [])
    return Batch(pa.record_batch(arrays), sender, "", rejects)


def told(arrived: Arrived) -> Told:
    """Return what routing is told of some rows."""
    assert arrived.rejects is not None
    places = arrived.places.to_pylist()
    numbers = arrived.rows.column("n").to_pylist()
    return arrived.origin, numbers, places, arrived.rejects["reason"].to_pylist()


@given(SENT, st.integers(1, 6))
def test_rows_arrive_in_their_order_and_with_their_sender(
    sent: list[list[tuple[str, int, bool]]], most: int
) -> None:
    """The definition: batch by batch, those of one sender that follow one another joined."""
    root, number, one_by_one = MemoryRoot(), 0, list[Told]()
    log = PushLog(root, FOLDER)
    for file in sent:
        given = []
        for sender, n_rows, rejected in file:
            given.append(batch(sender, number, n_rows, rejected=rejected))
            numbers = [*range(number, number + n_rows)]
            reasons = [f"bad after {number}"] if rejected else []
            one_by_one.append((sender, numbers, [*range(n_rows)], reasons))
            number += n_rows
        log.append(given)
    files = log.files(0, log.refresh())

    whole = [told(each) for each in from_pushed(root, FOLDER, files, SPEC)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrivals, "ROWS_AT_ONCE", most)
        parts = [told(each) for each in from_pushed(root, FOLDER, files, SPEC)]

    joined = by_sender(one_by_one)
    assert whole == joined
    assert by_sender(parts) == joined
    assert all(len(each[1]) + len(each[3]) < most + 4 for each in parts)


def by_sender(parts: list[Told]) -> list[Told]:
    """Join what follows one another of one sender."""
    found = []
    for sender, group in groupby(parts, key=lambda each: each[0]):
        numbers, places, reasons = list[int](), list[int](), list[str]()
        for _, some, where, why in group:
            numbers += some
            places += where
            reasons += why
        found.append((sender, numbers, places, reasons))
    return found
