"""A sign of life while a command waits: nothing in the first second, then what it waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from millrace.cli.terminal import glyphs_for, make_console, print_seconds

QUIET_SECONDS = 1.0
STEP_SECONDS = 0.1


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Say on standard error what is being waited for, if it takes long and a person looks."""
    console = make_console(stderr=True)
    if not console.is_terminal:
        yield
        return
    done, glyphs, began = threading.Event(), glyphs_for(console), time.monotonic()

    def turn() -> None:
        if done.wait(QUIET_SECONDS):
            return
        step = 0
        while not done.wait(STEP_SECONDS):
            sign = glyphs.spinner[step % len(glyphs.spinner)]
            words = f"{sign} {what} {print_seconds(time.monotonic() - began)}"
            console.file.write(f"\r\x1b[K{words}")
            console.file.flush()
            step += 1
        console.file.write("\r\x1b[K")
        console.file.flush()

    turning = threading.Thread(target=turn, daemon=True)
    turning.start()
    try:
        yield
    finally:
        done.set()
        turning.join()
