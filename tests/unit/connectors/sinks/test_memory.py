"""The memory sink: what it shows, and how much it keeps."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from millrace.connectors.sinks import MemorySink, Span
from millrace.errors import PlanError, UnknownNameError


def settle(sink: MemorySink, epoch: int, values: list[int]) -> None:
    sink.take("big", epoch, pa.table({"price": values}))
    sink.fulfil(sink.prepare(Span(epoch, epoch + 1, n_rows=len(values))))


def test_rows_are_shown_when_their_epoch_is_complete() -> None:
    sink = MemorySink("big")
    sink.take("big", 0, pa.table({"price": [1]}))
    assert sink.n_rows() == 0
    sink.open(())
    settle(sink, 0, [1, 2])

    assert sink.table("big")["price"].to_pylist() == [1, 2]


def test_only_the_last_rows_are_kept_and_all_are_counted() -> None:
    sink = MemorySink("big", last=3)
    for epoch in range(10):
        settle(sink, epoch, [2 * epoch, 2 * epoch + 1])

    assert sink.table("big")["price"].to_pylist() == [17, 18, 19]
    assert (sink.n_rows("big"), sink.n_rows("other")) == (20, 0)


def test_waiting_ends_when_the_rows_are_there() -> None:
    sink = MemorySink("big")
    thread = threading.Timer(0.05, settle, (sink, 0, [1, 2]))
    thread.start()

    assert sink.wait_rows(2, timeout=5, query="big")
    assert not sink.wait_rows(3, timeout=0.01)
    thread.join()


def test_errors_are_said_in_words() -> None:
    with pytest.raises(UnknownNameError, match='query "big" delivers nothing'):
        MemorySink("big").table("big")
    with pytest.raises(PlanError, match="the last 0 rows"):
        MemorySink("big", last=0)
