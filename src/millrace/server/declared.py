"""Streams and sinks that were declared over HTTP: a server that starts again declares them again.

The registry knows a stream by its columns, not by its source; a program declares its sources each
time it starts. A server has no program, so it keeps the statements:

    server/declared/<kind>-<digest of the name>      CREATE STREAM … or CREATE SINK …

A statement is written before it is done, so that no stream is without its source after a crash;
one that was not done after all is forgotten at the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import xxhash

from millrace.errors import MillraceError
from millrace.lang.declarations import CreateSink, CreateStream, Drop, Statement
from millrace.lang.statements import parse
from millrace.session.script import Script
from millrace.session.session import Session

FOLDER = "server/declared"

_logger = logging.getLogger(__name__)


class Declared:
    """The statements that a root is served with."""

    def __init__(self, session: Session) -> None:
        self._session, self._root = session, session.engine.root

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Give one script at a time the right to declare."""
        with self._session.updating:
            yield

    def expect(self, statement: Statement) -> None:
        """Keep the statement that is about to declare a stream, so that a crash finds it."""
        known = self._session.engine.registry.catalog.streams
        if isinstance(statement, CreateStream) and statement.name not in known:
            self._root.put(_name(statement), str(statement).encode())

    def take(self, statement: Statement) -> None:
        """Keep what a statement that was done declares, or forget what it drops."""
        if isinstance(statement, CreateStream | CreateSink):
            self._root.put(_name(statement), str(statement).encode())
        elif isinstance(statement, Drop) and statement.kind in ("stream", "sink"):
            self._root.delete(f"{FOLDER}/{statement.kind}-{_digest(statement.name)}")

    def restore(self, script: Script) -> None:
        """Declare again what was declared; a script may have done so already."""
        for entry in self._root.list(f"{FOLDER}/"):
            text = self._root.get(entry.name).decode()
            kind = entry.name.removeprefix(f"{FOLDER}/").partition("-")[0]
            [statement] = parse(text)
            known = self._session.engine.registry.catalog.streams
            if isinstance(statement, CreateStream) and statement.name not in known:
                self._root.delete(entry.name)  # it was never done
                continue
            try:
                script.do(statement)
            except MillraceError as error:
                if kind == "stream":
                    raise
                _logger.warning("sink not attached: %s", error.message)


def _name(statement: CreateStream | CreateSink) -> str:
    kind = "stream" if isinstance(statement, CreateStream) else "sink"
    return f"{FOLDER}/{kind}-{_digest(statement.name)}"


def _digest(name: str) -> str:
    return xxhash.xxh3_64_hexdigest(name.encode())
