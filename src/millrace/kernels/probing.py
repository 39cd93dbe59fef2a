"""Kernels that look for partners: rows of one key are together, in order of time.

Cost: about 100 ns a row that looks, for two searches in the rows of its key.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints


@njit(cache=True, nogil=True)
def runs_of(starts: Ints, times: Ints, wanted: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return where the rows of a key begin and end whose times are in a closed interval.

    Parameters
    ----------
    starts
        Where the rows of each key begin; one entry more than keys.
    times
        The times of rows, ascending for each key.
    wanted
        For each row that looks the number of its key, or -1 for none.
    low, high
        The interval of each.
    """
    firsts, stops = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
    for row in range(len(wanted)):
        key = wanted[row]
        if key < 0:
            continue
        mine = times[starts[key] : starts[key + 1]]
        firsts[row] = starts[key] + np.searchsorted(mine, low[row])
        stops[row] = starts[key] + np.searchsorted(mine, high[row], side="right")
        stops[row] = max(stops[row], firsts[row])
    return firsts, stops


def spelt_out(firsts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Return all places of runs, and of which run each is.

    >>> [each.tolist() for each in spelt_out(np.array([5, 2]), np.array([7, 3]))]
    [[0, 0, 1], [5, 6, 2]]
    """
    lengths = stops - firsts
    which = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.cumsum(lengths) - lengths
    return which, np.arange(len(which)) + (firsts - begins)[which]
