"""Turns: of what may take long, a few are done at a time, and a few wait; others are refused.

Commands have a number of threads. If each of them answered a question, or waited for its turn,
nothing could be registered meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from millrace.server.quotas import LimitError

AT_ONCE = 4
WAITING = 8
WAIT_SECONDS = 5.0


class Turns:
    """Lets some go on at a time."""

    def __init__(
        self, at_once: int = AT_ONCE, waiting: int = WAITING, seconds: float = WAIT_SECONDS
    ) -> None:
        self._at_once, self._seconds = at_once, seconds
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._free = threading.BoundedSemaphore(at_once)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn, not for long, and have it."""
        if not self._places.acquire(blocking=False):
            raise self._busy()
        try:
            if not self._free.acquire(timeout=self._seconds):
                raise self._busy()
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._places.release()

    def _busy(self) -> LimitError:
        return LimitError(
            "questions at a time", self._at_once, self._at_once,
            hint="The server is busy with those of others; ask again in a moment.",
        )  # fmt: skip
