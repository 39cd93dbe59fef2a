"""A server's processes: what was acknowledged survives whichever of them is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from millrace.state.fence import holder_of
from millrace.state.root import open_root
from millrace.testing.serving import STREAM, trade

BIG = "SELECT symbol, price FROM trades WHERE price > 100"


class Program:
    """`millrace serve --local` as a process of its own."""

    def __init__(self, root: Path, *more: str, **environment: str) -> None:
        script = root.parent / "app.sql"
        script.write_text(f"{STREAM}; CREATE QUERY big AS {BIG};")
        self.root = root
        self.process = subprocess.Popen(
            [*COMMAND, str(script), "--root", str(root), "--demo", "--local", "--port", "0", *more],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout is not None
        url = self.process.stdout.readline().split()[-1]
        self.client = httpx.Client(base_url=url, timeout=30.0)

    def until(self, true: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not self._tried(true):
            assert time.monotonic() < deadline, "it took too long"
            time.sleep(0.05)

    def _tried(self, true: Callable[[], object]) -> object:
        try:
            return true()
        except httpx.TransportError:  # a gateway is being started again
            return False

    def ready(self) -> bool:
        return self.client.get("/v1/ready").status_code == 200

    def push(self, *symbols: str, key: str = "") -> None:
        rows = [trade(each, 101.0, int(each)) for each in symbols]
        headers = {"idempotency-key": key} if key else {}

        def pushed() -> bool:
            answer = self.client.post("/v1/streams/trades/rows", json=rows, headers=headers)
            return answer.status_code == 200

        self.until(pushed)

    def symbols(self) -> list[str]:
        rows = self.client.get("/v1/queries/big/results").json()["rows"]
        return [row["symbol"] for row in rows]

    def engine(self) -> int | None:
        holder = holder_of(open_root(self.root))
        return None if holder is None else holder.process.pid

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate()


COMMAND = [sys.executable, "-m", "millrace.cli.main", "serve"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One server for all tests here: to start three takes a while."""
    served = Program(tmp_path_factory.mktemp("processes") / "root")
    served.until(served.ready)
    yield served
    served.end()


def test_processes_that_are_killed_come_back_and_nothing_is_lost(program: Program) -> None:
    program.push("1", "2")
    program.until(lambda: len(program.symbols()) == 2)
    engine = program.engine()
    assert engine is not None
    gateway = _gateway_of(program.process.pid, engine)

    os.kill(engine, signal.SIGKILL)
    program.push("3", key="once")
    assert program.symbols() == ["1", "2"]
    os.kill(gateway, signal.SIGKILL)
    program.push("3", key="once")
    program.push("4")

    program.until(lambda: len(program.symbols()) >= 4)
    assert program.symbols() == ["1", "2", "3", "4"]


def test_the_engine_interrupts_nobody_who_answers(program: Program) -> None:
    program.until(program.ready)
    engine = program.engine()
    assert engine is not None

    threads = [int(each.name) for each in Path(f"/proc/{engine}/task").iterdir()]

    assert os.sched_getscheduler(engine) == os.SCHED_BATCH
    assert sum(os.sched_getscheduler(each) == os.SCHED_BATCH for each in threads) > 2
    gateway = _gateway_of(program.process.pid, engine)
    assert os.sched_getscheduler(gateway) == os.SCHED_OTHER


def test_a_second_server_on_the_root_is_refused(program: Program) -> None:
    second = subprocess.run(
        [*COMMAND, "--root", str(program.root), "--demo", "--local", "--port", "0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert second.returncode == 1
    assert "is in use" in second.stderr
    assert "Stop that engine" in second.stderr


def test_it_ends_in_good_order(program: Program) -> None:
    program.until(program.ready)
    events = program.client.stream(
        "GET", "/v1/queries/big/changes", headers={"accept": "text/event-stream"}
    )

    with events as stream:
        lines = stream.iter_lines()
        next(lines)
        program.process.send_signal(signal.SIGTERM)
        told = [line for line in lines if line]

    assert told[-2] == "event: detached"
    assert '"reason": "stopping"' in told[-1]
    assert program.process.wait(30) == 0
    assert program.engine() is None


@pytest.mark.slow
@pytest.mark.parametrize("place", ["log.after", "commit.before", "commit.after", "epoch.after"])
def test_an_engine_that_dies_in_an_epoch_counts_rows_once(tmp_path: Path, place: str) -> None:
    once = tmp_path / "once"
    served = Program(tmp_path / "root", MILLRACE_FAILPOINTS=f"{place}=kill@3#{once}")
    try:
        for each in range(1, 6):
            served.push(str(each))
            time.sleep(0.1)
        served.until(lambda: len(served.symbols()) >= 5)

        assert once.exists()
        assert served.symbols() == ["1", "2", "3", "4", "5"]
    finally:
        served.end()


def _gateway_of(supervisor: int, engine: int) -> int:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return next(int(each) for each in children if int(each) != engine)
