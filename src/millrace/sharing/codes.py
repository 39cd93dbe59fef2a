"""Codes that are compared with ranges: where they begin and end, and what no row has.

Columns are int64 codes in the order of their values, as the index makes them. Ranges are closed.
Two codes are no value and in no range: LEAST, which is NULL and "nothing to the left", and
GREATEST, "nothing to the right".

    LEAST | LOWEST ................................ HIGHEST | GREATEST
            a range without a low end begins here, one without a high end ends there

Invariant: were a range open to LEAST, a row without a left neighbour would seem to have one in it.
"""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Ints

LEAST = int(np.iinfo(np.int64).min)
GREATEST = int(np.iinfo(np.int64).max)
LOWEST = LEAST + 1
HIGHEST = GREATEST - 1


def as_range(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return closed ranges without the two codes that are no value; some may be empty.

    >>> as_range(np.array([LEAST, 3]), np.array([5, GREATEST]))[1].tolist() == [5, HIGHEST]
    True
    """
    return np.maximum(low, LOWEST), np.minimum(high, HIGHEST)
