"""Cells of a column: between two cuts no box changes its mind."""

from __future__ import annotations

import numpy as np

from millrace.index.access.access import LAST_VALUE, NULL_CODE
from millrace.kernels.arrays import Ints, Ints32
from millrace.kernels.box_cells import n_apart

_DIRECT_CODES = 4096


def cut_points(low: Ints, high: Ints) -> Ints:
    """Return the codes at which some interval begins, or after which it ends."""
    return np.unique(np.concatenate([low[low > NULL_CODE], high[high < LAST_VALUE] + 1]))


def direct_cells(cuts: Ints) -> Ints32:
    """Return the cell of each code between the cuts, if these are close together."""
    if cuts.size == 0:
        return np.empty(0, np.int32)
    least, last = cuts[n_apart(cuts)], cuts[-1]
    if int(last) - int(least) > _DIRECT_CODES:
        return np.empty(0, np.int32)
    return np.searchsorted(cuts, np.arange(least, last), "right").astype(np.int32)
