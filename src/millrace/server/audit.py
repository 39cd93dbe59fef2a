"""The audit log: who registered, changed and dropped what, and when.

    audit/000000000000    lines of JSON, appended and synced before the call is answered; a new file
                          when one is full

Only the engine process writes it, and nothing of it is ever deleted or rewritten.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from millrace.server.principals import Principal

AUDIT = "audit"
FULL_BYTES = 64 << 20
MOST_NAMED = 20
LONGEST_TEXT = 2_000


class Audit:
    """Appends lines; those that come together share one sync."""

    def __init__(self, root: Path) -> None:
        self._folder = root / AUDIT
        self._folder.mkdir(parents=True, exist_ok=True)
        self._queue, self._writing = threading.Lock(), threading.Lock()
        self._waiting: list[bytes] = []
        self._done = self._asked = 0
        self._descriptor: int | None = None
        self._size = 0

    def write(self, who: Principal, what: str, **facts: object) -> None:
        """Write down what somebody did; it is durable on return."""
        line = {
            "at": datetime.now(UTC).isoformat(timespec="microseconds"),
            "tenant": who.tenant,
            "token": who.token,
            "do": what,
            **{key: _short(value) for key, value in facts.items()},
        }
        with self._queue:
            self._waiting.append(json.dumps(line).encode() + b"\n")
            self._asked += 1
            mine = self._asked
        with self._writing:
            if self._done >= mine:
                return
            with self._queue:
                lines, self._waiting, done = self._waiting, [], self._asked
            self._append(b"".join(lines))
            self._done = done

    def _append(self, data: bytes) -> None:
        """Append lines to the newest file, or to a new one if that is full."""
        if self._descriptor is None or self._size >= FULL_BYTES:
            self._open()
        assert self._descriptor is not None, "a file is open"
        self._size += os.write(self._descriptor, data)
        os.fsync(self._descriptor)

    def _open(self) -> None:
        self.close()
        numbers = sorted(int(each.name) for each in self._folder.glob("0*"))
        number = numbers[-1] if numbers else 0
        path = self._folder / f"{number:012d}"
        if path.exists() and path.stat().st_size >= FULL_BYTES:
            path = self._folder / f"{number + 1:012d}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._descriptor = os.open(path, flags, 0o600)
        self._size = path.stat().st_size

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def entries(root: Path, *, tenant: str | None, last: int) -> list[dict[str, Any]]:
    """Return the newest lines, oldest first; of one tenant, or with None of all."""
    found: list[dict[str, Any]] = []
    for path in sorted((root / AUDIT).glob("0*"), reverse=True):
        lines = path.read_bytes().splitlines()
        for line in reversed(lines):
            entry = json.loads(line)
            if tenant is None or entry["tenant"] == tenant:
                found.append(entry)
            if len(found) >= last:
                return found[::-1]
    return found[::-1]


def _short(value: object) -> object:
    """Cut long lists and texts: how many there were is told beside them."""
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if isinstance(value, Sequence):
        return list(value[:MOST_NAMED])
    return value
