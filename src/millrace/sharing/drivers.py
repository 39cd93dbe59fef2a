"""Drivers: the rows of a batch that probe what is stored of the other side of a join."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.kernels.arrays import Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Drivers:
    """Rows that probe: the segment each finds by its key, its code on its own side, its instant.

    Segments are ascending, so that what concerns a segment is done once for all its drivers. A row
    whose key is NULL or is not stored has no segment and is no driver.
    """

    segments: Ints
    codes: Ints
    times: Ints

    def __post_init__(self) -> None:
        assert self.segments.size == self.codes.size == self.times.size, "one of each for a row"
        assert bool(np.all(self.segments[1:] >= self.segments[:-1])), "segments ascend"

    def __len__(self) -> int:
        return self.segments.size

    def cut(self, first: int, stop: int) -> Drivers:
        """Return the drivers from one place to another."""
        each = slice(first, stop)
        return Drivers(self.segments[each], self.codes[each], self.times[each])

    def take(self, rows: Ints | Bools) -> Drivers:
        """Return some of the drivers, by ascending places or by a mask."""
        return Drivers(self.segments[rows], self.codes[rows], self.times[rows])
