"""What an access method is: a way to find, for rows, the boxes that hold them.

Values are int64 codes that keep the order of the values they stand for. NULL is the least code,
`NULL_CODE`, and no value is near either end. A box is one closed interval a column, and holds a
row if all of them hold the row's codes:

    columns          symbol        price
    box 0            [7, 7]        [101, END]         symbol = 7 AND price > 100
    box 1            [NULL, END]   [NULL + 1, 49]     price < 50, which NULL is not
    box 2            [3, 3]        [5, 4]             empty: holds nothing

An access method is a module with the functions of `Access`. What it builds is a few flat arrays,
which are written to a file once and mapped into every worker: so they are never written to and
never copied, and what a call allocates does not grow with the number of boxes, but for one
counter a box.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from millrace.index.access.statistics import Arrays, Mode, Work
from millrace.kernels.arrays import Bools, Ints, Ints32

NULL_CODE = np.iinfo(np.int64).min
END_CODE = np.iinfo(np.int64).max
LAST_VALUE = END_CODE - 2  # no row has a code above it
Pairs = tuple[Ints32, Ints32]

_N_PROBES = 64
_N_SAMPLED = 4096


class Access(Protocol):
    """The form that all access methods have."""

    def possible(self, low: Ints, high: Ints) -> bool:
        """Whether the method can index these boxes."""

    def build(self, low: Ints, high: Ints) -> Arrays:
        """Index the boxes `low[column, box] .. high[column, box]`."""

    def pairs(self, arrays: Arrays, codes: Ints) -> Pairs:
        """Return each (row, box) such that the box holds `codes[:, row]`, once."""

    def count(self, arrays: Arrays, codes: Ints, counts: Ints32) -> None:
        """Add to `counts[box]` the number of rows that the box holds."""

    def work(self, arrays: Arrays, sample: Ints, n_rows: int, mode: Mode) -> Work:
        """Return how much of what the method would do for `n_rows` like the sample."""


def inhabited(low: Ints, high: Ints) -> Ints:
    """Return the ids of the boxes that are not empty."""
    return np.flatnonzero((low <= high).all(axis=0))


def constrained(low: Ints, high: Ints) -> Bools:
    """Say of each interval whether there is a row that it does not hold."""
    return np.asarray((low > NULL_CODE) | (high < LAST_VALUE))


def constrained_columns(low: Ints, high: Ints) -> Bools:
    """Say of each column whether some box constrains it."""
    return np.asarray(constrained(low, high).any(axis=1))


def shared(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that nothing can write to, so that a kernel is compiled for one type."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def cuts_of(codes: Ints, size: int) -> Iterator[tuple[int, Ints]]:
    """Cut a batch into pieces of at most `size` rows, each with the number of its first row."""
    for first in range(0, codes.shape[1], size):
        yield first, shared(codes[:, first : first + size])


def n_cuts(n_rows: int, size: int) -> float:
    """Return into how many pieces `cuts_of` cuts a batch."""
    return float(-(-n_rows // size))


def joined(pieces: list[Pairs]) -> Pairs:
    """Put the pairs of the cuts of a batch together."""
    if len(pieces) == 1:
        return pieces[0]
    nothing = np.empty(0, np.int32)
    rows = np.concatenate([nothing, *(rows for rows, _ in pieces)])
    return rows, np.concatenate([nothing, *(boxes for _, boxes in pieces)])


def held_shares(low: Ints, high: Ints) -> Ints:
    """Estimate for each column how many of 1,000 boxes hold a value on that column.

    The values are those the boxes themselves mention, as a stream's mostly are.
    """
    n = low.shape[1]
    some = np.linspace(0, n - 1, min(n, _N_SAMPLED)).astype(np.int64)
    shares = np.full(low.shape[0], 1000, np.int64)
    for column in range(low.shape[0]):
        lows, highs = low[column, some], high[column, some]
        ends = np.sort(np.concatenate([lows[lows > NULL_CODE + 1], highs[highs < LAST_VALUE]]))
        if ends.size:
            probes = ends[np.linspace(0, ends.size - 1, _N_PROBES).astype(np.int64)]
            held = np.searchsorted(np.sort(lows), probes, "right") - np.searchsorted(
                np.sort(highs), probes, "left"
            )
            shares[column] = 1000 * held.sum() // (_N_PROBES * some.size)
    return shares
