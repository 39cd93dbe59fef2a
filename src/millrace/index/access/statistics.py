"""What is known of an index when it is built, and of the work it would have with a batch."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Mode = Literal["pairs", "count"]
Work = tuple[float, ...]
"""Amounts of work, in the units of the method; the chooser has a price in ns for each."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """A few small numbers about an index, stored with it as the array `statistics`."""

    n: int
    """Boxes, also the empty ones."""
    n_words: int = 0
    """Words of 64 boxes."""
    n_columns: int = 0
    """Columns that some box constrains."""
    n_cuts: int = 0
    """Constants kept: cut points, or bounds to rank."""
    n_terms: int = 0
    """Bitmaps to intersect, over all boxes."""
    column: int = -1
    """The column that the method searches by."""
    other_column: int = -1
    """The second one, if it has one."""
    n_cut_rows: int = 0
    """Rows of a batch that are worked on together."""

    def stored(self) -> NDArray[np.int64]:
        """Return the numbers as an array."""
        return np.array(astuple(self), np.int64)

    @classmethod
    def of(cls, arrays: Arrays) -> Self:
        """Read the numbers back."""
        return cls(*arrays["statistics"].tolist())
