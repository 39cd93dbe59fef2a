"""Ctrl-C: before epochs run it ends the command at once, then in good order, then at once again.

An exception that is raised in the middle of a call into Java leaves pages of tracebacks, so none
is raised: the first Ctrl-C of a run is a flag, and otherwise the process ends where it stands.
That is safe, since whatever counts in a root is durable; Spark's JVM ends when its input does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

STATUS = 130


class Interruption:
    """Takes Ctrl-C over while it is entered; `arm` again after Spark, which has a handler too."""

    def __init__(self) -> None:
        self.gentle = False
        self._asked = threading.Event()
        self._before: Any = None

    @property
    def asked(self) -> bool:
        """Whether the user wants a run to stop in good order."""
        return self._asked.is_set()

    def arm(self) -> None:
        """Take Ctrl-C over; only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._take)

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        self.arm()
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before or signal.default_int_handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self.gentle or self.asked:
            leave_at_once()
        self._asked.set()


def leave_at_once() -> None:
    """End the process with a word; a spinner is wiped, and the cursor shown again."""
    with contextlib.suppress(Exception):  # whoever was printing may be interrupted in it
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        if os.isatty(1):
            os.write(1, b"\r\x1b[K\x1b[?25h")
        os.write(2, b"\ninterrupted\n")
    os._exit(STATUS)
