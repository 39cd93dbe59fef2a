"""Kernel for lateness: what each row's group had reached before the row came.

A row is late if its time is behind the greatest time of the EARLIER rows of its source
partition, less the delay. So the maximum must run row by row, not batch by batch:

    start          7
    times          5   9   8   12
    before         7   7   9    9
    after                          12

Law: running over a batch equals running over its pieces, each from where the last one ended.

Cost: about 1.2 ns a row, one pass, no memory but the two results.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints, Ints32


@njit(cache=True, nogil=True)
def running_max_before(
    times: Ints, groups: Ints32, n_groups: int, start: Ints
) -> tuple[Ints, Ints]:
    """Return each row's maximum of its group's start and earlier rows, and the new maxima.

    `start` has one value a group and is not changed.
    """
    before = np.empty(times.size, np.int64)
    maxima = start[:n_groups].copy()
    for row in range(times.size):
        group = groups[row]
        reached = maxima[group]
        before[row] = reached
        maxima[group] = max(reached, times[row])
    return before, maxima
