"""A meter: how many rows each operator of a plan tells in a slab, and how long that takes.

Operators ask the ones below them for what they read. That time is theirs, so that of an operator is
what is left of its own:

    join      |------------------------------|      3 ms of its own, of 10
    left        |-----|                             2 ms
    right                |--------------|           5 ms

Cost: two looks at the clock for each operator and slab, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

Told = TypeVar("Told", bound=Sized)


@dataclass(slots=True)
class Meter:
    """What the operators of one plan did in one slab, by name.

    That is how many rows each told, its seconds, and how many rows it read again, besides those
    that the operators below it told.
    """

    done: dict[str, tuple[int, float, int]] = field(default_factory=dict)
    _below: float = 0.0
    """How long the operators took that the one at work has asked so far."""
    _again: int = 0

    def measure(self, operator: str, work: Callable[[], Told]) -> Told:
        """Let an operator work."""
        (around, again), (self._below, self._again) = (self._below, self._again), (0.0, 0)
        began = perf_counter()
        told = work()
        took = perf_counter() - began
        self.done[operator] = (len(told), took - self._below, self._again)
        self._below, self._again = around + took, again
        return told

    def again(self, rows: Told) -> Told:
        """Note that the operator at work has read rows again."""
        self._again += len(rows)
        return rows
