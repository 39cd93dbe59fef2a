"""What the server benchmark and the soak share: a server, its root, and load from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from millrace.connectors.pushed import Pushed
from millrace.engine.local_loop import LoopBackend
from millrace.session import Session

COLUMNS = "symbol text, price double, ts timestamp"
STREAM = (
    f"CREATE STREAM trades ({COLUMNS}) TIMESTAMP BY ts DELAY 1 second RETAIN 1 hour FROM push();"
)
"""What is sent at the same time over several connections is not late."""

ERRORS = (" ERROR ", " CRITICAL ", "Traceback")


@dataclass(frozen=True, slots=True)
class Server:
    """A server as a process of its own."""

    process: subprocess.Popen[str]
    url: str
    root: Path
    stderr: Path
    client: httpx.Client

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    def get(self, path: str) -> Any:  # noqa: ANN401  what comes from JSON
        """Return what a path gives, as JSON."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401
        """Post JSON; return what comes back."""
        answer = self.client.post(path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def until(self, true: Callable[[], object], seconds: float = 300.0) -> float:
        """Wait until something is so; return how long that took."""
        began = time.perf_counter()
        while not true():
            assert time.perf_counter() - began < seconds, "it took too long"
            assert self.process.poll() is None, "the server has ended"
            time.sleep(0.05)
        return time.perf_counter() - began

    def pids(self) -> dict[str, int]:
        """Return the processes of the server by what they are."""
        found = {}
        for each in _children(self.process.pid):
            words = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
            found[words[3].decode()] = each
        return found

    def errors(self) -> list[str]:
        """Return the errors that its processes have logged, and all that they wrote to stderr."""
        logged = [
            line
            for log in sorted((self.root / "logs").glob("*.log"))
            for line in log.read_text().splitlines()
            if any(word in line for word in ERRORS)
        ]
        return logged + self.stderr.read_text().splitlines()

    def rss(self) -> dict[str, float]:
        """Return how much memory each process has that is its own, in MB."""
        return {name: _own_memory(pid) for name, pid in self.pids().items()}


@contextmanager
def served(root: Path, *more: str, script: str = "") -> Iterator[Server]:
    """Run `millrace serve --local --demo` on a root."""
    command = [sys.executable, "-m", "millrace.cli.main", "serve", "--root", str(root), "--demo"]
    command += ["--local", "--port", "0", *more]
    if script:
        path = root.parent / f"{root.name}.sql"
        path.write_text(script)
        command.append(str(path))
    stderr = root.parent / f"{root.name}.stderr"
    with stderr.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=url, timeout=600) as client:
            server = Server(process, url, root, stderr, client)
            server.until(lambda: _ready(server))
            yield server
    finally:
        process.terminate()
        process.wait(120)
        process.stdout.close()


def _ready(server: Server) -> bool:
    try:
        return server.client.get("/v1/ready").status_code == 200
    except httpx.TransportError:
        return False


def load(server: Server, do: str, **asked: object) -> dict[str, Any]:
    """Let the generator do something; return what it measured."""
    return finished(started(server, do, **asked))


def started(server: Server, do: str, **asked: object) -> subprocess.Popen[str]:
    """Start the generator."""
    text = json.dumps({"do": do, "port": server.port, **asked})
    command = [sys.executable, "-m", "bench.server_load", text]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)


def finished(generator: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the generator; return what it measured."""
    told, _ = generator.communicate(timeout=3_600)
    found: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
    return found


@contextmanager
def prepared(root: Path) -> Iterator[Session]:
    """Open a root in this process, to fill it before it is served."""
    with Session(root, spark=LoopBackend(), threads=False) as session:
        session.stream("trades", Pushed(), time="ts", delay="1 second", schema=COLUMNS,
                       retain="1 hour")  # fmt: skip
        yield session


def parameters(count: int) -> pa.Table:
    """Return parameters of so many queries, one symbol each."""
    return pa.table({"sym": [f"s{each}" for each in range(count)], "low": [0.0] * count})


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _own_memory(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    own = [line for line in lines if line.startswith(("Private_Dirty", "Private_Clean"))]
    return sum(int(line.split()[1]) for line in own if "Dirty" in line) / 1_024
