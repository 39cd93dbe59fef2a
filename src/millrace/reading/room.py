"""Room: how many rows and bytes one reading may hold, and until when it may go on.

What is read takes its room piece by piece, and what is known beforehand is asked for before it is
read. So a reading that is too large ends as soon as that is known, not when it is all in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from millrace.errors import ReadLimitError
from millrace.state.run import Range
from millrace.state.store_state import Run

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

LESS = "Ask for less: a shorter window, fewer rows, joins by equal columns."


@dataclass(slots=True)
class Room:
    """What one reading may hold in all; None is no limit. Its clock runs from when it is made."""

    rows: int | None = None
    n_bytes: int | None = None
    seconds: float | None = None
    n_rows: int = 0
    """How many rows are held, or known to be wanted."""
    held_bytes: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def rows_left(self) -> int | None:
        """How many more rows there is room for."""
        return None if self.rows is None else self.rows - self.n_rows

    @property
    def seconds_left(self) -> float | None:
        """For how long it may go on, at least a moment."""
        if self.seconds is None:
            return None
        return max(self.begun + self.seconds - time.monotonic(), 0.001)

    def require_rows(self, n_rows: int) -> None:
        """Refuse rows that there is no room for, before they are read."""
        if self.rows is not None and self.n_rows + n_rows > self.rows:
            self.n_rows += n_rows
            raise ReadLimitError(
                "the query reads too many rows",
                detail=f"It reads {self.n_rows:,} or more, and may read {self.rows:,}.",
                hint="Ask for a window of time, or for the newest.",
                now=self.n_rows,
            )

    def take(self, table: Rows) -> Rows:
        """Hold what was read, and refuse it if that is too much, or has taken too long."""
        self.hold(table.num_rows, 0 if self.n_bytes is None else table.nbytes)
        return table

    def hold(self, n_rows: int, n_bytes: int) -> None:
        """Hold so much; bytes, which take long to count, count only if they are limited."""
        self.require_rows(n_rows)
        self.n_rows += n_rows
        self.held_bytes += n_bytes
        if self.n_bytes is not None and self.held_bytes > self.n_bytes:
            raise ReadLimitError(
                "the query reads too much",
                detail=f"It has read {self.held_bytes >> 20:,} MB, and may take "
                f"{self.n_bytes >> 20:,} MB.",
                hint=LESS,
            )
        self.require_time()

    def require_time(self) -> None:
        """Refuse to go on when the time is over."""
        if self.seconds is not None and time.monotonic() > self.begun + self.seconds:
            raise too_slow(self.seconds)


def too_slow(seconds: float) -> ReadLimitError:
    """Say that something took too long."""
    return ReadLimitError(
        "the query took too long", detail=f"It was ended after {seconds:g} seconds.", hint=LESS
    )


def certain_rows(runs: Iterable[Run], times: Range) -> int:
    """Return how many rows of runs are within some times for certain, as their pieces say."""
    pieces = (piece for run in runs for piece in run.pieces)
    inside = (each for each in pieces if each.min_time >= times[0] and each.max_time < times[1])
    return sum(each.rows for each in inside)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which answers are wanted: those of some times, all or the `last`, and the room for them."""

    times: Range
    last: int | None = None
    room: Room = field(default_factory=Room)
