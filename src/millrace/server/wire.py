"""Frames between gateways and the engine: JSON and Arrow over a local socket.

    frame     8 bytes: length of the JSON, number of tables
              JSON
              for each table: 8 bytes of length, an Arrow stream

A gateway sends requests `{"id", "do", …}`; the engine answers with the same id, `{"id", "ok": …}`
or `{"id", "error": …}`, in any order, and tells what has happened in frames without one,
`{"event": "committed", "epoch": 7}`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow as pa
import xxhash

from millrace.errors import MillraceError
from millrace.lang.errors import LanguageError

_HEAD = struct.Struct("<II")
_SIZE = struct.Struct("<Q")
LARGEST_JSON = 256 << 20
LARGEST_TABLE = 2 << 30
LONGEST_PATH = 100


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A message: a JSON document and tables."""

    body: dict[str, Any]
    tables: tuple[pa.Table, ...] = field(default=())

    def pack(self) -> list[bytes | pa.Buffer]:
        """Spell it as bytes."""
        text = json.dumps(self.body, separators=(",", ":")).encode()
        parts: list[bytes | pa.Buffer] = [_HEAD.pack(len(text), len(self.tables)), text]
        for table in self.tables:
            data = arrow_stream(table)
            parts += [_SIZE.pack(data.size), data]
        return parts


class WireError(MillraceError):
    """The other end of the socket is gone, or says something that is not a frame."""

    code = "unavailable"


def arrow_stream(table: pa.Table) -> pa.Buffer:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def socket_path(root: Path) -> Path:
    """Name the socket of a root's engine: in the root, or aside if that path is too long."""
    inside = root.absolute() / "engine.sock"
    if len(str(inside).encode()) <= LONGEST_PATH:
        return inside
    digest = xxhash.xxh3_64_hexdigest(str(root.absolute()).encode())
    return Path(gettempdir()) / f"millrace-{digest}.sock"


def send(connection: socket.socket, frame: Frame) -> None:
    """Send a frame."""
    for part in frame.pack():
        connection.sendall(part)


def receive(connection: socket.socket) -> Frame | None:
    """Wait for the next frame; None when the other end has closed."""
    head = _exactly(connection, _HEAD.size)
    if head is None:
        return None
    n_json, n_tables = _checked(head)
    text = _exactly(connection, n_json)
    tables = []
    for _ in range(n_tables):
        size = _exactly(connection, _SIZE.size)
        data = None if size is None else _exactly(connection, _size(size))
        if data is None:
            return None
        tables.append(_table(data))
    return None if text is None else Frame(json.loads(text), tuple(tables))


async def receive_async(reader: asyncio.StreamReader) -> Frame:
    """Wait for the next frame; raise `IncompleteReadError` when the other end has closed."""
    n_json, n_tables = _checked(await reader.readexactly(_HEAD.size))
    body = json.loads(await reader.readexactly(n_json))
    tables = []
    for _ in range(n_tables):
        size = _size(await reader.readexactly(_SIZE.size))
        tables.append(_table(await reader.readexactly(size)))
    return Frame(body, tuple(tables))


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _checked(head: bytes) -> tuple[int, int]:
    n_json, n_tables = _HEAD.unpack(head)
    if n_json > LARGEST_JSON:
        raise WireError(f"a frame of {n_json} bytes is too large")
    return n_json, n_tables


def _size(head: bytes) -> int:
    size: int = _SIZE.unpack(head)[0]
    if size > LARGEST_TABLE:
        raise WireError(f"a table of {size} bytes is too large")
    return size


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


class ToldError(MillraceError):
    """An error that the engine told: the same words, code and place."""

    def __init__(self, spelt: dict[str, Any]) -> None:
        super().__init__(spelt["message"], detail=spelt["detail"], hint=spelt["hint"])
        self.code: str = spelt["code"]
        self.position: dict[str, int] | None = spelt["position"]
        self.show(spelt.get("excerpt", ""))


def error_json(error: MillraceError) -> dict[str, Any]:
    """Spell an error for a client: what, why, what to do, and where in the text."""
    position = getattr(error, "position", None)
    if isinstance(error, LanguageError):
        position = {"line": error.line, "column": error.column}
    return {
        "code": error.code,
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
        "position": position,
        "excerpt": error.excerpt,
    }
