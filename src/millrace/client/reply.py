"""What a server answered: a status, and a body that is read once.

A body may be a gigabyte of Arrow. It is held in the pieces in which it came, and Arrow takes it
from there message by message; a piece that was read is let go. So a table costs its own size and
that of one message, not twice its size.
"""

from __future__ import annotations

import io
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millrace.errors import SourceError


class Received(io.RawIOBase):
    """The bytes of a body as a file that forgets what was read."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self._pieces = deque(pieces)
        self._offset = 0

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        if piece:
            self._pieces.append(piece)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Return so many bytes, or all; fewer only at the end."""
        wanted = -1 if size is None else size
        taken = []
        while self._pieces and wanted:
            piece = self._pieces[0]
            stop = len(piece) if wanted < 0 else min(len(piece), self._offset + wanted)
            taken.append(piece[self._offset : stop])  # a whole piece is not copied by this
            wanted -= 0 if wanted < 0 else stop - self._offset
            self._offset = stop
            if stop == len(piece):
                self._pieces.popleft()
                self._offset = 0
        return taken[0] if len(taken) == 1 else b"".join(taken)


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """The answer to a request; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Received

    @property
    def is_arrow(self) -> bool:
        """Whether the body is an Arrow stream."""
        return "vnd.apache.arrow" in self.headers.get("content-type", "")

    def json(self) -> Any:  # noqa: ANN401  whatever JSON can hold
        """Read the body as JSON."""
        text = self.body.read()
        try:
            return json.loads(text) if text.strip() else None
        except ValueError as cause:
            raise SourceError(
                "the server's answer is not JSON",
                detail=f"It begins with {text[:80]!r}.",
                hint="Is this the address of a millrace server?",
            ) from cause

    def table(self) -> pa.Table:
        """Read the body as a table."""
        try:
            with pa.ipc.open_stream(self.body) as reader:
                return reader.read_all()
        except (pa.ArrowInvalid, OSError) as cause:
            raise SourceError(
                "the server's answer is not an Arrow stream",
                detail=f"Arrow says: {cause}.",
                hint="Was the connection cut? Ask again.",
            ) from cause
