"""Delivery: nobody waits for anybody, what waits is bounded as declared, and all is visible."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from millrace.connectors.sinks import Backlog, CallbackSink, MemorySink, Sink
from millrace.engine.delivery import Delivery
from millrace.engine.sink_status import SinkStatus
from millrace.errors import FencedError, NameTakenError, UnknownNameError
from millrace.schema import TIMESTAMP
from millrace.state.manifest import Delta, StoreSpec, apply
from millrace.state.order import sort_rows
from millrace.state.root import Root
from millrace.state.run import write_runs
from millrace.testing.result_writer import ResultWriter, result_rows
from millrace.time import ManualClock

Start = Callable[..., Delivery]


@pytest.fixture
def writer() -> ResultWriter:
    return ResultWriter()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start deliveries that end with the test."""
    started = []

    def begin(root: Root, *sinks: Sink, threads: bool = False) -> Delivery:
        started.append(Delivery(root, _alive, sinks, ManualClock(), threads=threads))
        return started[-1]

    yield begin
    for delivery in started:
        delivery.stop()


def _alive() -> None:
    pass


def only(delivery: Delivery) -> SinkStatus:
    (status,) = delivery.status()
    return status


class Recorder:
    """A function that notes what it got, and raises while it is told to."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.failing = False

    def __call__(self, _query: str, epoch: int, _table: pa.Table) -> None:
        if self.failing:
            raise ConnectionError("the other side is away")
        self.epochs.append(epoch)


def test_a_table_has_the_own_columns_first_and_does_not_depend_on_shards(start: Start) -> None:
    tables = []
    for n_shards in (1, 3):
        writer, sink = ResultWriter(), MemorySink("big")
        delivery = start(writer.root, sink)
        delivery.committed(writer.commit("big", n_rows=40, n_shards=n_shards))
        delivery.pump()
        tables.append(sink.table("big"))

    assert tables[0].schema.names == ["symbol", "price", "_time", "_late", "_epoch"]
    assert tables[0].schema.field("_time").type == TIMESTAMP
    assert tables[0].equals(tables[1])
    assert tables[0]["_time"].to_pylist() == sorted(tables[0]["_time"].to_pylist())


def test_an_epoch_is_needed_until_the_last_sink_that_wants_it_has_settled_it(
    writer: ResultWriter, start: Start
) -> None:
    slow = Recorder()
    slow.failing = True
    delivery = start(writer.root, MemorySink("big"), CallbackSink(slow, ["big", "small"]))
    delivery.committed(writer.commit("big"))
    delivery.committed(writer.commit("big", "small"))

    assert delivery.consumed("big") == 0
    delivery.pump()
    assert (delivery.consumed("big"), delivery.consumed("small")) == (0, 0)
    slow.failing = False
    delivery.pump()
    assert (delivery.consumed("big"), delivery.consumed("small")) == (2, 2)
    assert delivery.consumed("nobody's") is None


def test_a_failing_sink_is_visible_and_goes_on_where_it_was(
    writer: ResultWriter, start: Start
) -> None:
    recorder = Recorder()
    delivery = start(writer.root, CallbackSink(recorder, "big"))
    delivery.committed(writer.commit("big"))
    delivery.pump()
    recorder.failing = True
    for _ in range(3):
        delivery.committed(writer.commit("big"))
        delivery.pump()

    status = only(delivery)
    assert (status.state, status.next_epoch, status.lag_epochs) == ("failing", 1, 3)
    assert (status.backlog_rows, status.n_failures) == (15, 3)
    assert status.error == "ConnectionError: the other side is away"
    recorder.failing = False
    delivery.pump()
    assert recorder.epochs == [0, 1, 2, 3]
    assert (only(delivery).state, only(delivery).lag_epochs) == ("running", 0)


def test_queries_that_were_finished_before_an_error_are_not_called_again(
    writer: ResultWriter, start: Start
) -> None:
    calls = []

    def once_angry(query: str, epoch: int, table: pa.Table) -> None:
        calls.append(query)
        if calls == ["a", "b"]:
            raise ValueError("once")

    delivery = start(writer.root, CallbackSink(once_angry))
    delivery.committed(writer.commit("a", "b", "c"))
    delivery.pump()
    delivery.pump()

    assert calls == ["a", "b", "b", "c"]


def test_a_stuck_sink_and_a_failing_one_disturb_nobody(writer: ResultWriter, start: Start) -> None:
    release, angry, memory = threading.Event(), Recorder(), MemorySink("big")
    angry.failing = True
    stuck = CallbackSink(lambda *_: release.wait(10), "big", name="stuck")
    failing = CallbackSink(angry, "big", name="failing")
    delivery = start(writer.root, stuck, failing, memory, threads=True)

    for _ in range(5):
        delivery.committed(writer.commit("big"))

    assert memory.wait_rows(25, timeout=5)
    assert not delivery.drain(0.1)
    release.set()
    angry.failing = False
    assert delivery.drain(10)
    assert angry.epochs == [0, 1, 2, 3, 4]
    assert delivery.consumed("big") == 5


def test_a_new_process_goes_on_behind_the_cursor(writer: ResultWriter, start: Start) -> None:
    recorder = Recorder()
    for _ in range(3):
        delivery = start(writer.root, CallbackSink(recorder, "big"))
        delivery.committed(writer.commit("big"))
        delivery.committed(writer.commit())
        assert delivery.drain(1)

    assert recorder.epochs == [0, 2, 4]


def test_quiet_epochs_move_the_cursor_only_now_and_then(writer: ResultWriter, start: Start) -> None:
    delivery = start(writer.root, CallbackSink(Recorder(), "big"))
    delivery.committed(writer.manifest)
    for _ in range(300):
        delivery.committed(writer.commit())
        delivery.pump()

    assert only(delivery).next_epoch == 256
    assert only(delivery).lag_epochs == 0
    assert len(writer.root.list("cursors/")) == 2


@pytest.mark.parametrize("limit", [{"n_epochs": 4}, {"n_bytes": 1000}])
def test_dropped_epochs_are_counted_and_survive_a_restart(
    writer: ResultWriter, start: Start, limit: dict[str, int]
) -> None:
    recorder = Recorder()
    recorder.failing = True
    sink = CallbackSink(recorder, "big", backlog=Backlog("drop", **limit))
    delivery = start(writer.root, sink)
    for _ in range(9):
        delivery.committed(writer.commit("big"))
        delivery.pump()
    recorder.failing = False
    delivery.pump()
    skipped = only(delivery).skipped_epochs

    assert recorder.epochs == list(range(skipped, 9))
    assert 0 < skipped < 9
    assert only(delivery).skipped_rows == 5 * skipped
    assert only(delivery).gaps == ((0, skipped),)
    again = start(writer.root, sink)
    again.committed(writer.commit())
    again.pump()
    assert only(again).skipped_rows == 5 * skipped


def test_half_of_the_limit_is_left_after_a_drop(writer: ResultWriter, start: Start) -> None:
    recorder = Recorder()
    recorder.failing = True
    sink = CallbackSink(recorder, "big", backlog=Backlog("drop", n_epochs=4))
    delivery = start(writer.root, sink)
    waiting = []
    for _ in range(8):
        delivery.committed(writer.commit("big"))
        delivery.pump()
        waiting.append(only(delivery).lag_epochs)

    assert waiting == [1, 2, 3, 4, 2, 3, 4, 2]


def test_a_sink_that_never_returns_cannot_hold_more_than_its_backlog(
    writer: ResultWriter, start: Start
) -> None:
    entered, release = threading.Event(), threading.Event()
    seen = []

    def hang(query: str, epoch: int, table: pa.Table) -> None:
        seen.append(epoch)
        entered.set()
        release.wait(10)

    sink = CallbackSink(hang, "big", backlog=Backlog("drop", n_epochs=3))
    delivery = start(writer.root, sink, threads=True)
    delivery.committed(writer.commit("big"))
    assert entered.wait(5)
    for _ in range(6):
        delivery.committed(writer.commit("big"))

    wait_until(lambda: (delivery.consumed("big") or 0) >= 4)
    release.set()
    assert delivery.drain(5)
    skipped = only(delivery).skipped_epochs
    assert seen == [0, *range(skipped, 7)]


def test_a_detached_sink_frees_the_root_and_is_told_what_it_missed(
    writer: ResultWriter, start: Start
) -> None:
    recorder = Recorder()
    recorder.failing = True
    sink = CallbackSink(recorder, "big", backlog=Backlog("detach", n_epochs=2))
    delivery = start(writer.root, sink)
    for _ in range(3):
        delivery.committed(writer.commit("big"))
        delivery.pump()

    assert only(delivery).state == "detached"
    assert delivery.consumed("big") is None
    delivery.committed(writer.drop_consumed(delivery))
    recorder.failing = False
    delivery.attach(sink)
    delivery.committed(writer.commit("big"))
    delivery.pump()

    assert recorder.epochs == [4]
    assert (only(delivery).gaps, only(delivery).skipped_rows) == (((0, 5),), 15)


def test_a_sink_detached_and_attached_with_nothing_lost_has_no_gap(
    writer: ResultWriter, start: Start
) -> None:
    recorder = Recorder()
    sink = CallbackSink(recorder, "big")
    delivery = start(writer.root, sink)
    delivery.committed(writer.commit("big"))
    delivery.detach("callback")
    delivery.attach(sink)
    delivery.pump()

    assert recorder.epochs == [0]
    assert only(delivery).gaps == ()


def test_an_engine_without_the_sink_leaves_a_gap_that_the_sink_is_told_of(
    writer: ResultWriter, start: Start
) -> None:
    recorder = Recorder()
    first = start(writer.root, CallbackSink(recorder, "big"))
    first.committed(writer.commit("big"))
    first.pump()
    second = start(writer.root)
    second.committed(writer.commit("big"))
    second.committed(writer.drop_consumed(second))
    third = start(writer.root, CallbackSink(recorder, "big"))
    third.committed(writer.commit("big"))
    third.pump()

    assert recorder.epochs == [0, 3]
    assert only(third).gaps == ((1, 4),)


def test_the_second_of_two_engines_takes_over_and_the_first_stops(
    writer: ResultWriter, start: Start
) -> None:
    recorders = Recorder(), Recorder()
    first, second = (start(writer.root, CallbackSink(each, "big")) for each in recorders)
    first.committed(writer.commit("big"))
    first.pump()
    second.committed(writer.manifest)
    second.pump()
    manifest = writer.commit("big")
    first.committed(manifest)
    with pytest.raises(FencedError, match="taken over by another engine"):
        first.pump()
    second.committed(manifest)
    second.pump()

    assert recorders[1].epochs == [1]
    assert only(first).state == "fenced"
    with pytest.raises(FencedError):
        first.committed(manifest)


def test_a_replaced_engine_moves_no_cursor(writer: ResultWriter) -> None:
    def replaced() -> None:
        raise FencedError("a newer engine has the root")

    delivery = Delivery(writer.root, replaced, [CallbackSink(Recorder(), "big")], threads=False)
    delivery.committed(writer.commit("big"))

    with pytest.raises(FencedError):
        delivery.pump()


def test_a_root_that_went_back_in_time_is_refused(writer: ResultWriter, start: Start) -> None:
    old = writer.commit("big")
    delivery = start(writer.root, CallbackSink(Recorder(), "big"))
    for _ in range(3):
        delivery.committed(writer.commit("big"))
    delivery.pump()
    again = start(writer.root, CallbackSink(Recorder(), "big"))
    again.committed(old)
    again.pump()

    assert only(again).state == "failing"
    assert "is ahead of the root" in only(again).error


def test_names_are_checked(writer: ResultWriter, start: Start) -> None:
    delivery = start(writer.root, MemorySink("big"))

    with pytest.raises(NameTakenError, match='a sink named "memory" is attached already'):
        delivery.attach(MemorySink("small"))
    with pytest.raises(UnknownNameError, match='sink "mail" is not attached'):
        delivery.detach("mail")


def test_a_memory_sink_begins_with_what_the_root_holds(writer: ResultWriter, start: Start) -> None:
    writer.commit("big")
    first, second = MemorySink("big"), MemorySink("big")
    for sink in (first, second):
        delivery = start(writer.root, sink)
        delivery.committed(writer.manifest)
        delivery.pump()

    assert first.n_rows() == second.n_rows() == 5


def wait_until(condition: Callable[[], Any]) -> None:
    """Look again and again; fail after five seconds."""
    pause = threading.Event()
    for _ in range(500):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("it did not happen within five seconds")


def test_a_query_declared_anew_with_other_columns_delivers_both(start: Start) -> None:
    writer, tables = ResultWriter(), []
    stores = {
        "results/big.1": sort_rows(result_rows(0)),
        "results/big.2": sort_rows(result_rows(0)).drop_columns("price"),
    }
    pieces = write_runs(writer.root, stores, epoch=0, buckets=(0, 1))
    created = {name: StoreSpec(table.schema, queue=True) for name, table in stores.items()}
    added = {name: ((piece,),) for name, piece in pieces.items()}
    delivery = start(writer.root, CallbackSink(lambda *got: tables.append(got[2]), "big"))

    delivery.committed(apply(writer.manifest, Delta(0, term=0, created=created, added=added)))
    delivery.pump()

    assert ["price" in table.column_names for table in tables] == [True, False]


@pytest.mark.slow  # pauses have to grow
def test_a_drain_tries_a_failing_sink_at_once_and_does_not_wait_for_it(
    writer: ResultWriter, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    recorder.failing = True
    delivery = start(writer.root, CallbackSink(recorder, "big", name="calls"), threads=True)
    with caplog.at_level(logging.WARNING):
        delivery.committed(writer.commit("big"))
        began = time.monotonic()
        while only(delivery).n_failures < 9 and time.monotonic() - began < 60:
            time.sleep(0.01)  # by now the pauses are of many seconds

        began = time.monotonic()
        first = delivery.drain(60.0)
        recorder.failing = False
        second = delivery.drain(60.0)

    assert (first, second) == (False, True)
    assert time.monotonic() - began < 20
    assert recorder.epochs == [0]
    told = [each.getMessage() for each in caplog.records]
    failing = "sink failing sink=calls error=ConnectionError: the other side is away"
    assert told == [failing, "sink goes on sink=calls"]
