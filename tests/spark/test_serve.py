"""A server on Spark: rows are pushed, answered, and counted once over a kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from millrace.state.fence import holder_of
from millrace.state.root import open_root
from millrace.testing.serving import STREAM, trade

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
BIG = "SELECT symbol, price FROM trades WHERE price > 100"


class Program:
    """`millrace serve` as a process of its own."""

    def __init__(self, root: Path, *more: str) -> None:
        command = [sys.executable, "-m", "millrace.cli.main", "serve", "--root", str(root)]
        command += ["--demo", "--port", "0", "--cores", "2", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found is not None
        self.client = httpx.Client(base_url=found[0], timeout=60.0)

    def until(self, true: Callable[[], object], seconds: float = 240.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if true():
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, "it took too long"
            time.sleep(0.1)

    def ready(self) -> None:
        self.until(lambda: self.client.get("/v1/ready").status_code == 200)

    def symbols(self) -> list[str]:
        rows = self.client.get("/v1/queries/big/results").json()["rows"]
        return [row["symbol"] for row in rows]

    def end(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "app.sql"
    path.write_text(f"{STREAM}; CREATE QUERY big AS {BIG};")
    return path


def test_pushed_rows_are_answered_and_survive_the_engine(tmp_path: Path, script: Path) -> None:
    served = Program(tmp_path / "root", str(script))
    try:
        served.until(lambda: served.client.get("/v1/health").status_code == 200, 30)
        served.ready()
        for second in range(3):
            pushed = served.client.post(
                "/v1/streams/trades/rows", json=[trade(f"s{second}", 101.0, second)]
            )
            assert pushed.status_code == 200
        served.until(lambda: len(served.symbols()) == 3)

        holder = holder_of(open_root(tmp_path / "root"))
        assert holder is not None
        os.kill(holder.process.pid, signal.SIGKILL)
        assert served.symbols() == ["s0", "s1", "s2"]
        pushed = served.client.post("/v1/streams/trades/rows", json=[trade("s3", 101.0, 3)])
        assert pushed.status_code == 200
        served.until(lambda: len(served.symbols()) == 4)

        assert served.symbols() == ["s0", "s1", "s2", "s3"]
        another = [sys.executable, "-m", "millrace.cli.main", "serve", "--demo", "--port", "0"]
        refused = subprocess.run(
            [*another, "--root", str(tmp_path / "root")],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert refused.returncode == 1
        assert "is in use" in refused.stderr
        assert served.stop() == 0
    finally:
        served.end()
