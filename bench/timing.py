"""How long something takes, by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def median_of(invoke: Callable[[], object]) -> float:
    """Return the median of some invocations after a first one, in seconds."""
    invoke()
    found = []
    for _ in range(9):
        begun = time.perf_counter()
        invoke()
        found.append(time.perf_counter() - begun)
    return median(found)
