"""The supervisor: starts the engine and the gateways, and starts again what dies.

    supervisor ─┬─ engine     Spark, or a loop; writes
                ├─ gateway 0  HTTP on the socket that the supervisor has bound
                └─ gateway 1  …             (the console is gateway 0's, on a port of its own)

Gateways are there at once and serve what is committed, also while the engine starts, or is down. An
engine that ends because the root is in use, or because its script is wrong, ends the server.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import FrameType

from millrace.errors import InUseError, StoreError
from millrace.server.options import ServerOptions
from millrace.server.process import FATAL_STATUS
from millrace.state.fence import holder_of
from millrace.state.root import open_root

POLL_SECONDS = 0.1
STOP_SECONDS = 60.0
STEADY_SECONDS = 30.0
LONGEST_BACKOFF = 30.0

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Child:
    """A process that is to be there."""

    name: str
    command: list[str]
    handles: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    due: float = field(default=0.0)

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, pass_fds=self.handles,
                                        start_new_session=True)  # fmt: skip
        self.started = time.monotonic()

    @property
    def status(self) -> int | None:
        return None if self.process is None else self.process.poll()


class Supervisor:
    """Runs the processes of one server."""

    def __init__(self, options: ServerOptions, say: Callable[[str], object]) -> None:
        self._options, self._say = options, say
        self._stop = threading.Event()
        self._children: list[_Child] = []

    def run(self) -> int:
        """Serve until a signal comes; return the exit status."""
        options = self._options
        options.check()
        require_free(options)
        listener = bound(options)
        address = address_of(options, listener)
        console = bound_for_console(options)
        if console is not None:
            options = replace(options, console_port=console.getsockname()[1])
        command = [sys.executable, "-m", "millrace.server.process"]
        text = options.to_json()
        self._children = [
            _Child(f"gateway {each}",
                   [*command, "gateway", text, str(listener.fileno()), str(each)],
                   (listener.fileno(),))
            for each in range(options.gateways)
        ] + [_Child("engine", [*command, "engine", text])]  # fmt: skip
        if console is not None:
            self._children[0].command.append(str(console.fileno()))
            self._children[0].handles += (console.fileno(),)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)
        try:
            for child in self._children:
                child.start()
            self._say(f"serving {address}")
            return self._watch()
        finally:
            self._end()
            listener.close()
            if console is not None:
                console.close()

    def _take(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stop.set()

    def _watch(self) -> int:
        while not self._stop.wait(POLL_SECONDS):
            for child in self._children:
                status = child.status
                if status is None and child.process is not None:
                    continue
                if child.name == "engine" and status == FATAL_STATUS:
                    return 1
                self._again(child, status)
        return 0

    def _again(self, child: _Child, status: int | None) -> None:
        now = time.monotonic()
        if child.process is not None:
            steady = now - child.started > STEADY_SECONDS
            child.deaths = 1 if steady else child.deaths + 1
            pause = min(0.2 * 2 ** (child.deaths - 1), LONGEST_BACKOFF)
            child.due, child.process = now + pause, None
            _logger.warning("%s ended, started again: status=%s", child.name, status)
        if now >= child.due:
            child.start()

    def _end(self) -> None:
        """End all: the engine first, so that gateways tell of what it still commits."""
        for child in reversed(self._children):
            if child.process is not None and child.process.poll() is None:
                end_process(child.process, STOP_SECONDS)


def end_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ask a process to end; one that does not in time is killed."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def require_free(options: ServerOptions) -> None:
    """Refuse a root that an engine runs on, before anything is started."""
    holder = holder_of(open_root(options.root))
    if holder is not None:
        raise InUseError(
            f'root "{options.root}" is in use',
            detail=f"It is held by {holder}.",
            hint="Stop that engine, or give this server another root.",
        )


def bound(options: ServerOptions) -> socket.socket:
    """Bind the socket that all gateways listen on."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2_048)
    except OSError as cause:
        raise StoreError(
            f"address {options.host}:{options.port} cannot be served",
            detail=f"The system says: {cause.strerror}.",
            hint="Choose another --port.",
        ) from cause
    return listener


def bound_for_console(options: ServerOptions) -> socket.socket | None:
    """Bind a port for the console alone, where several gateways share the other one."""
    if not options.console or options.gateways == 1:
        return None
    try:
        return bound(replace(options, port=options.port + 1 if options.port else 0))
    except StoreError:
        return bound(replace(options, port=0))


def address_of(options: ServerOptions, listener: socket.socket) -> str:
    """Spell where the server is found."""
    scheme = "http" if options.tls_cert is None else "https"
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"
