"""Queries that raise, crash or eat memory, and disks that are full: the others go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import millrace
from millrace import call, col, failpoints
from millrace.testing.spark_rows import (
    COLUMNS,
    canonical_bytes,
    trades,
    wait_until,
    write_files,
)

AwaitRows = Callable[[millrace.Session, int], None]
Function = Callable[[pa.Array], pa.Array]


def raising(number: int) -> Function:
    def function(values: pa.Array) -> pa.Array:
        if number in values.to_pylist():
            message = f"number {number} is not welcome"
            raise ValueError(message)
        return values

    return function


def segfaulting() -> Function:
    def function(values: pa.Array) -> pa.Array:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)
        return values

    return function


def killed_for_memory() -> Function:
    def function(_values: pa.Array) -> pa.Array:
        import os

        os._exit(137)

    return function


def out_of_memory() -> Function:
    def function(_values: pa.Array) -> pa.Array:
        return pa.array(bytearray(1 << 50))

    return function


def declare(session: millrace.Session, directory: Path, n_good: int = 3) -> millrace.MemorySink:
    """Declare a stream and some queries that do no harm."""
    sink = millrace.MemorySink()
    files = millrace.Files(str(directory / "*.parquet"))
    session.stream("trades", files, schema=COLUMNS, time="ts")
    for each in range(n_good):
        condition = col("number") >= each
        session.query(millrace.select("trades", "number", where=condition), name=f"good{each}")
    session.sink(sink)
    return sink


def test_a_query_that_raises_is_suspended_and_can_be_resumed(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 10, 20])
    session = sessions.open(rows=1)
    sink = declare(session, tmp_path / "in", n_good=1)
    session.function("odd", raising(15), returns="bigint")
    bad = session.query(millrace.select("trades", value=call("odd", col("number"))), name="bad")

    session.start()
    await_rows(session, 20)
    write_files(tmp_path / "in", "parquet", [20, 30])
    await_rows(session, 30)
    failure = bad.failure
    bad.resume()
    write_files(tmp_path / "in", "parquet", [30, 40])
    await_rows(session, 40)
    session.engine.delivery.drain(10)

    assert failure is not None
    assert (failure["code"], failure["message"]) == ("ValueError", "number 15 is not welcome")
    assert failure["time"] == min(trades(10, 20)["ts"].cast(pa.int64()).to_pylist())
    assert bad.failure is None
    assert sorted(sink.table("bad")["value"].to_pylist()) == [*range(10), *range(30, 40)]
    assert sorted(sink.table("good0")["number"].to_pylist()) == list(range(40))


def test_a_function_that_eats_all_memory_is_guilty_only_if_it_fails_alone(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 10])
    session = sessions.open()
    sink = declare(session, tmp_path / "in", n_good=1)
    session.function("eat", out_of_memory(), returns="bigint")
    bad = session.query(millrace.select("trades", value=call("eat", col("number"))), name="bad")

    session.start()
    await_rows(session, 10)

    assert bad.failure is not None
    assert bad.failure["code"] == "quarantined"
    assert "MemoryError" in bad.failure["message"]
    assert sink.wait_rows(10, query="good0")


@pytest.mark.parametrize(
    ("crash", "spread"), [(segfaulting, "always"), (killed_for_memory, "never")]
)
def test_a_query_that_takes_its_worker_down_is_found_and_the_others_are_none_the_worse(
    crash: Callable[[], Function],
    spread: str,
    sessions: Any,
    tmp_path: Path,
    await_rows: AwaitRows,
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 10, 20])
    answers = []
    for bad in (False, True):
        session = sessions.open(tmp_path / f"root-{bad}", rows=1, spread=spread)
        sink = declare(session, tmp_path / "in")
        if bad:
            session.function("crash", crash(), returns="bigint")
            query = session.query(
                millrace.select("trades", value=call("crash", col("number"))), name="bad"
            )
        session.start()
        await_rows(session, 20)
        session.engine.delivery.drain(10)
        answers.append(
            [canonical_bytes(sink.table(f"good{each}"), without=()) for each in range(3)]
        )
        if bad:
            assert query.failure is not None
            assert query.failure["code"] == "quarantined"
            assert query.failure["epoch"] == 0
            assert sink.n_rows("bad") == 0
        session.close()

    assert answers[0] == answers[1]


def test_a_full_disk_in_the_driver_is_waited_for(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millrace.state.posix_root import PosixRoot

    write_files(tmp_path / "in", "parquet", [0, 10])
    session = sessions.open()
    sink = declare(session, tmp_path / "in", n_good=1)
    original, refused = PosixRoot.put_if_absent, list[str]()

    def full(self: PosixRoot, name: str, data: Any) -> bool:
        if name.startswith(("epochs/", "commits/")) and len(refused) < 5:
            refused.append(name)
            from millrace.errors import StoreFullError

            raise StoreFullError(f'no room for "{name}"')
        return original(self, name, data)

    monkeypatch.setattr(PosixRoot, "put_if_absent", full)
    session.start()
    await_rows(session, 10)

    assert len(refused) == 5
    assert sink.wait_rows(10)
    assert session.engine.manifest.facts["suspended"] == {}


def test_a_stop_does_not_wait_until_a_full_disk_has_room_again(
    sessions: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from millrace.errors import StoreFullError
    from millrace.state.posix_root import PosixRoot

    write_files(tmp_path / "in", "parquet", [0, 10])
    session = sessions.open()
    declare(session, tmp_path / "in", n_good=1)
    original, refused = PosixRoot.put_if_absent, []

    def full(self: PosixRoot, name: str, data: Any) -> bool:
        if name.startswith("commits/"):
            refused.append(name)
            raise StoreFullError(f'no room for "{name}"')
        return original(self, name, data)

    monkeypatch.setattr(PosixRoot, "put_if_absent", full)
    run = session.start()
    wait_until(lambda: len(refused) > 2)
    session.close(drain=0)

    assert run.query.exception() is None
    assert session.engine.manifest.epoch == -1


def test_a_full_disk_in_a_task_is_waited_for_and_blamed_on_no_query(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 10])
    session = sessions.open(spread="always")
    sink = declare(session, tmp_path / "in", n_good=2)
    mark = tmp_path / "full"
    variable = f"step.computed=full@1#{mark}"

    def armed(values: pa.Array) -> pa.Array:
        from millrace import failpoints

        if os.environ.get(failpoints.VARIABLE) != variable:
            os.environ[failpoints.VARIABLE] = variable
            failpoints.armed_by_environment(variable)
        return values

    session.function("armed", armed, returns="bigint")
    session.query(millrace.select("trades", value=call("armed", col("number"))), name="arming")
    session.start()
    await_rows(session, 10)

    assert failpoints.VARIABLE not in os.environ
    assert sink.wait_rows(10, query="arming")
    assert session.engine.manifest.facts["suspended"] == {}
