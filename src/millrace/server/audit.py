"""The audit log: who registered, changed and dropped what, and when.

    audit/000000000000    lines of JSON, appended and synced before the call is answered; a new file
                          when one is full

Only the engine process writes it, and nothing of it is ever deleted or rewritten. A line that a
crash has torn is ended and passed over. Lines that could not be written wait for the next that can,
and whoever brought them is told.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from millrace.errors import StoreError
from millrace.server.principals import Principal

AUDIT = "audit"
FULL_BYTES = 64 << 20
MOST_NAMED = 20
LONGEST_TEXT = 2_000
_LATER = "What was done stands, and is written down with the next entry."


class Audit:
    """Appends lines; those that come together share one sync."""

    def __init__(self, root: Path) -> None:
        self._folder = root / AUDIT
        self._folder.mkdir(parents=True, exist_ok=True)
        self._queue, self._writing = threading.Lock(), threading.Lock()
        self._waiting: list[bytes] = []
        self._done = self._asked = 0
        self._descriptor: int | None = None
        self._size, self._torn = 0, False

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
            try:
                self._append(b"".join(lines))
            except OSError as cause:
                with self._queue:
                    self._waiting = lines + self._waiting
                raise StoreError(
                    "the audit log cannot be written", detail=f"{cause}.", hint=_LATER
                ) from cause
            self._done = done

    def _append(self, data: bytes) -> None:
        """Append lines to the newest file, or to a new one if that is full; all or none."""
        if self._descriptor is None or self._size >= FULL_BYTES:
            self._open()
        assert self._descriptor is not None, "a file is open"
        whole = b"\n" + data if self._torn else data
        try:
            _write_all(self._descriptor, whole)
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)  # they will be written once more
            self.close()
            raise
        self._size, self._torn = self._size + len(whole), False

    def _open(self) -> None:
        self.close()
        numbers = sorted(int(each.name) for each in self._folder.glob("0*"))
        number = numbers[-1] if numbers else 0
        path = self._folder / f"{number:012d}"
        if path.exists() and path.stat().st_size >= FULL_BYTES:
            path = self._folder / f"{number + 1:012d}"
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        self._descriptor = os.open(path, flags, 0o600)
        self._size = path.stat().st_size
        last = os.pread(self._descriptor, 1, self._size - 1) if self._size else b"\n"
        self._torn = last != b"\n"

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
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # torn by a crash, or being written
            if tenant is None or entry["tenant"] == tenant:
                found.append(entry)
            if len(found) >= last:
                return found[::-1]
    return found[::-1]


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of some bytes, however many the system takes at once."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _short(value: object) -> object:
    """Cut long lists and texts: how many there were is told beside them."""
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if isinstance(value, Sequence):
        return list(value[:MOST_NAMED])
    return value
