"""Band joins spread over shards: an element rests in one cell, a driver visits all it may reach.

The line of values is cut into cells of one width. An element rests where its cell is, and the hash
of the cell says in which shard. A driver of value b looks for stored values in [b + low, b + high],
where low is the least and high the greatest end of all bands of the moment; it visits the shards of
all cells that this touches, each shard once.

    cells        |     0     |     1     |     2     |     3     |
    stored           x    x        x   x       x         x   x
    driver b                      b
    it visits                 [------------------]              shards of the cells 1 and 2

For drivers of the other stream the range is turned: a stored b takes part in the bands of a driver
d if d - b is in them, so b is in [d - high, d - low].

Invariant: of two elements the one that came first rests in one cell, and the other visits its shard
once; so every pair meets exactly once, whatever the width and the number of shards. Bands may
change from epoch to epoch: elements rest where they are, and drivers visit by the bands of their
own epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from millrace.kernels.arrays import Bools, Floats, Ints, Numbers

MOST_CELLS = 256
"""A driver that may reach more cells than this visits all shards."""

_FARTHEST = 2**62


@dataclass(frozen=True, slots=True)
class Cells:
    """How a line of numbers is cut."""

    width: float

    def __post_init__(self) -> None:
        assert self.width > 0, "cells have a width"

    def home(self, values: Numbers) -> Ints:
        """Return the cell of each value; NaN is where infinity is.

        >>> Cells(10).home(np.array([-1, 0, 9, 10])).tolist()
        [-1, 0, 0, 1]
        """
        if values.dtype.kind == "i" and float(self.width).is_integer():
            return np.floor_divide(values, np.int64(self.width)).astype(np.int64)
        cells = np.floor(values / self.width)
        return np.clip(np.where(np.isnan(cells), np.inf, cells), -_FARTHEST, _FARTHEST).astype(
            np.int64
        )

    def visits(
        self, values: Numbers, low: float, high: float, place: Callable[[Ints], Ints], n_places: int
    ) -> tuple[Ints, Ints]:
        """Return (driver, shard) for every shard that a driver has to visit, each once.

        `place` says in which of `n_places` shards a cell is. Nothing is visited if low > high.
        """
        if low > high:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        first, last, finite = self._touched(values, low, high)
        near = finite & (last - first < MOST_CELLS)
        rows = np.flatnonzero(near)
        counts = last[rows] - first[rows] + 1
        drivers = np.repeat(rows, counts)
        begins = np.repeat(np.cumsum(counts) - counts, counts)
        cells = np.repeat(first[rows], counts) + np.arange(drivers.size) - begins
        visited = np.unique(drivers * n_places + place(cells))
        far = np.flatnonzero(~near)
        everywhere = np.repeat(far, n_places), np.tile(np.arange(n_places), far.size)
        return (
            np.concatenate((visited // n_places, everywhere[0])),
            np.concatenate((visited % n_places, everywhere[1])),
        )

    def _touched(self, values: Numbers, low: float, high: float) -> tuple[Ints, Ints, Bools]:
        """Return the first and the last cell that each driver may reach, and if both are known.

        Sums are rounded, and so are the differences that bands hold; ends are moved by more than
        both together.
        """
        numbers: Floats = values.astype(np.float64)
        finite = np.isfinite(numbers) & np.isfinite(low) & np.isfinite(high)
        numbers = np.where(finite, numbers, 0.0)
        ends = []
        for end, outward in ((low, -4), (high, 4)):
            known = end if np.isfinite(end) else 0.0
            error = np.spacing(np.maximum(np.abs(numbers), abs(known)))
            ends.append(numbers + known + outward * error)
        first, last = (self.home(each) for each in ends)
        return first, last, finite


def turned(low: float, high: float) -> tuple[float, float]:
    """Return what bands between two ends are for drivers of the other stream.

    >>> turned(-1, 5)
    (-5, 1)
    """
    return -high, -low
