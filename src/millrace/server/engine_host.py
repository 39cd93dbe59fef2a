"""The engine process: a session, the socket that gateways write through, and what ends both.

    gateway ── {"do": "register", …} ──► thread ──► Commands ──► registry, synced ──► answer
            ◄── {"event": "committed", "epoch": n} ── whoever is connected, after each commit

A gateway that is not read from, or that ends, is forgotten; nobody waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from millrace.errors import MillraceError
from millrace.server.commands import Commands
from millrace.server.principals import Principal
from millrace.server.wire import Frame, error_json, receive, send, socket_path
from millrace.state.manifest import Manifest

THREADS = 32
MOST_WAITING = 10_000
TICK_SECONDS = 1.0

_logger = logging.getLogger(__name__)


class EngineHost:
    """Serves one session to gateways until it is stopped."""

    def __init__(self, commands: Commands, root: Path) -> None:
        self._commands, self._path = commands, socket_path(root)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="millrace-command")
        self._links: set[_Link] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(64)
        commands.session.engine.told = self._committed
        for body in (self._accept, self._tick):
            threading.Thread(target=body, name=f"millrace{body.__name__}", daemon=True).start()

    def stop(self) -> None:
        """Tell everybody, finish the commands that run, and take no more of them."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.tell({"event": "stopping"})
        self._pool.shutdown(wait=True, cancel_futures=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self._now():
            link.close()
        self._path.unlink(missing_ok=True)

    def tell(self, event: dict[str, Any]) -> None:
        """Tell all gateways what has happened."""
        for link in self._now():
            link.put(Frame(event))

    def _committed(self, manifest: Manifest) -> None:
        engine = self._commands.session.engine
        self._commands.quietening.take(engine.statistics[-1])
        number = engine.registry.number
        self.tell({"event": "committed", "epoch": manifest.epoch, "number": number})

    def _now(self) -> list[_Link]:
        with self._lock:
            return list(self._links)

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            link = _Link(connection, self._take, self._forget)
            engine = self._commands.session.engine
            with self._lock:  # nobody is told anything before this
                link.put(Frame({"event": "hello", "epoch": engine.manifest.epoch,
                                "number": engine.registry.number}))  # fmt: skip
                self._links.add(link)
            link.start()

    def _forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _take(self, link: _Link, frame: Frame) -> None:
        with contextlib.suppress(RuntimeError):  # the pool has been shut down
            self._pool.submit(self._answer, link, frame)

    def _answer(self, link: _Link, frame: Frame) -> None:
        asked = frame.body["id"]
        try:
            who = Principal(**frame.body["who"])
            done = self._commands.run(frame.body["do"], who, frame)
            number = self._commands.session.engine.registry.number
            link.put(Frame({"id": asked, "ok": done.body, "number": number}, done.tables))
            self.tell({"event": "registered", "number": number})
        except MillraceError as error:
            link.put(Frame({"id": asked, "error": error_json(error)}))
        except Exception as error:
            _logger.exception("command failed: do=%s", frame.body.get("do"))
            told = MillraceError("the server has a fault", detail=f"{type(error).__name__}.",
                                 hint="Its log says more.")  # fmt: skip
            link.put(Frame({"id": asked, "error": error_json(told)}))

    def _tick(self) -> None:
        """Drop queries whose time is over, quieten tenants, and tell how it goes."""
        while not self._stopped.wait(TICK_SECONDS):
            try:
                if self._commands.expire() + self._commands.quieten():
                    number = self._commands.session.engine.registry.number
                    self.tell({"event": "registered", "number": number})
                self.tell({"event": "work", **self._commands.work()})
            except MillraceError as error:
                _logger.warning("queries not looked after, later: %s", error)
            except Exception:  # or nothing would end, and nobody be quietened, from now on
                _logger.exception("queries not looked after, later")


class _Link:
    """One gateway: a thread reads what it wants, another writes what it is told."""

    def __init__(
        self,
        connection: socket.socket,
        take: Callable[[_Link, Frame], None],
        forget: Callable[[_Link], None],
    ) -> None:
        self._connection, self._take, self._forget = connection, take, forget
        self._waiting: queue.Queue[Frame | None] = queue.Queue(MOST_WAITING)

    def start(self) -> None:
        for body in (self._read, self._write):
            threading.Thread(target=body, name=f"millrace-link{body.__name__}", daemon=True).start()

    def put(self, frame: Frame) -> None:
        """Let a frame be sent; a gateway that reads none of ten thousand is cut off."""
        try:
            self._waiting.put_nowait(frame)
        except queue.Full:
            self._end()

    def close(self) -> None:
        """Send what waits, and end."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)

    def _read(self) -> None:
        try:
            while (frame := receive(self._connection)) is not None:
                self._take(self, frame)
        except (OSError, ValueError, MillraceError) as error:
            _logger.debug("gateway gone: %s", error)
        self._end()

    def _write(self) -> None:
        try:
            while (frame := self._waiting.get()) is not None:
                send(self._connection, frame)
        except OSError as error:
            _logger.debug("gateway gone: %s", error)
        except Exception:  # or it would wait for what is never sent
            _logger.exception("gateway cut off")
        self._end()

    def _end(self) -> None:
        self._forget(self)
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()
