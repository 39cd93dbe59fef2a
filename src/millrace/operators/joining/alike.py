"""Numbering what is alike: combinations of the same rows, or rows for the same query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.kernels.grouping import number_hashes

GREATEST_CODE = 1 << 63


def numbered_places(places: Sequence[tuple[Ints, int]], n_pairs: int) -> tuple[Ints, Ints]:
    """Number tuples of places; each comes with the number of places that there are.

    Returns the number of each tuple, and where each number occurs first.
    """
    codes, n_codes = np.zeros(n_pairs, np.int64), 1
    for each, n_places in places:
        if n_codes * max(n_places, 1) > GREATEST_CODE:
            codes, firsts = number_hashes(codes.astype(np.uint64))
            n_codes = len(firsts)
        codes, n_codes = codes * n_places + each, n_codes * max(n_places, 1)
    return number_hashes(codes.astype(np.uint64))
