"""Kernels over sorted texts: where a text stands among constants, compared byte by byte."""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bytes, Ints


@njit(cache=True, nogil=True)
def rank_texts(starts: Ints, stops: Ints, data: Bytes, bounds: Ints, constants: Bytes) -> Ints:
    """Return for each text twice its place among the constants, plus one if it is there.

    The constants ascend without a duplicate; constant i has the bytes from `bounds[i]` to
    `bounds[i + 1]`. So code 2i + 1 is constant i itself, and 2i what lies just before it.
    """
    codes = np.empty(starts.size, np.int64)
    n_constants = bounds.size - 1
    for text in range(starts.size):
        low, high, found = 0, n_constants, 0
        while low < high:
            middle = (low + high) >> 1
            order = _compared(
                data, starts[text], stops[text], constants, bounds[middle], bounds[middle + 1]
            )
            if order == 0:
                low, found = middle, 1
                break
            if order > 0:
                low = middle + 1
            else:
                high = middle
        codes[text] = 2 * low + found
    return codes


@njit(cache=True, nogil=True)
def _compared(
    data: Bytes, first: int, stop: int, others: Bytes, other_first: int, other_stop: int
) -> int:
    """Compare two pieces of bytes: negative, zero or positive as the first is less or not."""
    length, other_length = stop - first, other_stop - other_first
    for at in range(min(length, other_length)):
        difference = np.int64(data[first + at]) - np.int64(others[other_first + at])
        if difference != 0:
            return difference  # type: ignore[return-value]
    return length - other_length
