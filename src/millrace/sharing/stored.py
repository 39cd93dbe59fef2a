"""Stored: the rows of the other side of a join, by key, and those of a key by their code.

A *segment* is what is stored for one key. In a segment rows are ascending by (code, time), so that
the rows whose code is in a range are a run of places, found by two searches:

    starts   0           3                 8
    codes    4  9  9     1  5  5  7  20
             segment 0   segment 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from millrace.kernels.arrays import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Rows in segments; `places` are the numbers by which the caller knows them."""

    starts: Ints
    codes: Ints
    times: Ints
    places: Ints

    def __post_init__(self) -> None:
        for name in ("starts", "codes", "times", "places"):
            # A kernel would be compiled a second time for arrays that must not be written to.
            object.__setattr__(self, name, np.require(getattr(self, name), np.int64, ["C", "W"]))
        assert self.codes.size == self.times.size == self.places.size, "one of each for a row"
        assert self.starts.size > 0, "there is a start more than there are segments"
        assert self.starts[0] == 0, "the first segment begins at the first row"
        assert self.starts[-1] == self.codes.size, "the last segment ends at the last row"

    @classmethod
    def build(cls, segments: Ints, codes: Ints, times: Ints, *, n_segments: int) -> Self:
        """Sort rows that stand in any order; their places are their positions here.

        >>> stored = Stored.build(np.array([1, 0, 1]), np.array([7, 5, 3]), np.zeros(3, np.int64),
        ...                       n_segments=3)
        >>> stored.starts.tolist(), stored.codes.tolist(), stored.places.tolist()
        ([0, 1, 3, 3], [5, 3, 7], [1, 2, 0])
        """
        order = np.lexsort((times, codes, segments))
        starts = np.zeros(n_segments + 1, np.int64)
        np.cumsum(np.bincount(segments, minlength=n_segments), out=starts[1:])
        return cls(starts, codes[order], times[order], order)

    @property
    def n_segments(self) -> int:
        """How many keys there are."""
        return self.starts.size - 1

    def __len__(self) -> int:
        return self.codes.size

    def lengths(self, segments: Ints) -> Ints:
        """Return how many rows some segments have."""
        return self.starts[segments + 1] - self.starts[segments]
