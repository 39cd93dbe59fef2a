"""Band joins over ranges of numbers: a row is in its own range, or in all those that it reaches.

The line of numbers is cut into cells of one width, and the cells are dealt to a fixed number of
*slots*, one after the other and round again. Of one stream, the anchor, a row is in the slot of its
own number. A row of another with number y meets anchors from y + low to y + high: it is copied into
the slots of all cells that this touches, each once.

    cells        |     0     |     1     |     2     |     3     |
    anchors          x    x        x   x       x         x   x
    y                             y
    is copied                 [------------------]              into the slots of the cells 1 and 2

Invariant: an anchor is in one slot, and what it may meet is there once; so every pair meets exactly
once, whatever the width, the number of slots, and how slots are spread over shards. Bands may
become wider or narrower: anchors rest where they are, and copies reach as far as bands do when they
are made.

Cost: a row is copied 1 + (high - low) / width times, into every slot at most. What has no number to
count with (infinity, NaN, bands without an end) is copied into every slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from millrace.kernels.arrays import Bools, Floats, Hashes, Ints, Numbers
from millrace.kernels.hashing import hash_ints

SLOTS, FEW_SLOTS = 64, 8
"""How many slots there are; and where rows are copied into every one of them."""
_FARTHEST = 2**61
"""Cells beyond this are one, so that the distance of two cells fits into 64 bits."""
EXACT = 2**52
"""Sums of whole numbers below this are exact as doubles."""


@dataclass(frozen=True, slots=True)
class Cells:
    """How a line of numbers is cut and dealt; without a width, numbers are dealt by their hash."""

    width: float
    n_slots: int = SLOTS

    def home(self, values: Numbers) -> Ints:
        """Return the slot of each number; NaN is where infinity is.

        >>> Cells(10).home(np.array([-1, 0, 9, 10])).tolist()
        [63, 0, 0, 1]
        """
        if not self.width:
            plain = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 + 0.0 is 0.0
            hashes = _hashed(plain.astype(np.float64).view(np.int64))
            return (hashes % np.uint64(self.n_slots)).astype(np.int64)
        return np.mod(self._cells(values), self.n_slots)

    def copies(self, values: Numbers, low: float, high: float) -> tuple[Ints, Ints]:
        """Return (row, slot) for every slot that a row reaches, in the order of rows.

        Nothing is reached if low > high.
        """
        if low > high:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        first, last, finite = self._touched(values, low, high)
        near = finite & (last - first < self.n_slots)
        first, counts = np.where(near, first, 0), np.where(near, last - first + 1, self.n_slots)
        rows = np.repeat(np.arange(len(values)), counts)
        begins = np.repeat(np.cumsum(counts) - counts, counts)
        return rows, np.mod(first[rows] + np.arange(rows.size) - begins, self.n_slots)

    def _cells(self, values: Numbers) -> Ints:
        if values.dtype.kind == "i" and float(self.width).is_integer() and self.width < EXACT:
            cells = np.floor_divide(values, np.int64(self.width))
            return np.clip(cells, -_FARTHEST, _FARTHEST)
        with np.errstate(over="ignore"):
            cells = np.floor(values / self.width)
        return np.clip(np.where(np.isnan(cells), np.inf, cells), -_FARTHEST, _FARTHEST).astype(
            np.int64
        )

    def _touched(self, values: Numbers, low: float, high: float) -> tuple[Ints, Ints, Bools]:
        """Return the first and the last cell that each row may reach, and if both are known.

        Sums are rounded, and so are the differences that bands hold; ends are moved by more than
        both together, unless all are whole numbers that are not.
        """
        numbers: Floats = values.astype(np.float64)
        if not (np.isfinite(low) and np.isfinite(high) and self.width):
            nothing = np.zeros(len(values), np.int64)
            return nothing, nothing, nothing > 0
        finite = np.isfinite(numbers)
        numbers = np.where(finite, numbers, 0.0)
        whole = values.dtype.kind == "i" and all(
            float(each).is_integer() and abs(each) < EXACT for each in (low, high, self.width)
        )
        ends = []
        for end, outward in ((low, -4), (high, 4)):
            error = np.spacing(np.maximum(np.abs(numbers), abs(end)))
            error = np.where(whole & (np.abs(numbers) < EXACT), 0.0, error)
            with np.errstate(over="ignore"):
                ends.append(numbers + end + outward * error)
            finite &= np.isfinite(ends[-1])
        first, last = (self._cells(np.where(finite, each, 0.0)) for each in ends)
        return first, last, finite


@cache
def slot_keys(n_slots: int) -> Ints:
    """Return a number for each slot; by their hashes slots lie evenly over all buckets.

    Neighbouring ones lie apart, so that few of them are not all in one shard. The number of slots
    is a power of two.
    """
    n_bits = n_slots.bit_length() - 1
    found = np.zeros(n_slots, np.int64)
    for slot in range(n_slots):
        wanted = int(f"{slot:0{n_bits}b}"[::-1], 2)
        number = slot
        while int(_hashed(np.array([number]))[0]) >> (64 - n_bits) != wanted:
            number += n_slots
        found[slot] = number
    return found


def _hashed(numbers: Ints) -> Hashes:
    """Hash numbers as columns are; kernels are compiled for arrays that cannot be written to."""
    numbers.flags.writeable = False
    return hash_ints(numbers)
