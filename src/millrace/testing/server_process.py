"""A server as a process, and a line to it that can be cut."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

import httpx

START_SECONDS = 60.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ServerProcess:
    """`millrace serve --local` on a root, which can be stopped, killed and started again."""

    def __init__(self, root: Path, *options: str, ca: Path | None = None) -> None:
        self.root, self.options, self.port, self._ca = root, options, free_port(), ca
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'http' if self._ca is None else 'https'}://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it, again on the same root and port; return when it is ready."""
        command = [sys.executable, "-m", "millrace.cli.main", "serve", "--local"]
        command += ["--root", str(self.root), "--port", str(self.port), *self.options]
        log = (self.root.parent / "serve.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )
        self._await()
        return self

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it in order, or with SIGKILL all of its processes at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if how == signal.SIGKILL:
                _kill(_family(self._process.pid))
            else:
                self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            _kill(_family(self._process.pid))
            self._process.wait(10)
        self._process = None

    def log(self) -> str:
        """Return what it has written."""
        return (self.root.parent / "serve.log").read_text(errors="replace")

    def _await(self) -> None:
        ends = time.monotonic() + START_SECONDS
        verify = True if self._ca is None else ssl.create_default_context(cafile=str(self._ca))
        while time.monotonic() < ends:
            assert self._process is not None
            assert self._process.poll() is None, f"the server has ended:\n{self.log()}"
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/v1/ready", timeout=2, verify=verify).status_code == 200:
                    return
            time.sleep(0.1)
        message = f"the server is not ready:\n{self.log()}"
        raise AssertionError(message)


def _family(pid: int) -> list[int]:
    """Return a process and those that it has started, and these, as Linux lists them."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Line:
    """A way to a server that passes bytes on, until it is cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it takes connections."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def cut(self) -> None:
        """Break every connection, in the middle of what it carries."""
        self.cuts += 1
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Take no more connections, and break those that are open."""
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._to), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for one, other in ((near, far), (far, near)):
                self._open.add(one)
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(100):  # small, so that events are cut in two
                other.sendall(piece)
        for each in (one, other):
            self._open.discard(each)
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
