"""Warming up the index: every access method runs once, on boxes that matter to nobody."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.index.access import METHODS
from millrace.index.chooser import predicted
from millrace.index.text.automaton import build, find
from millrace.index.text.needles import Needle

N_BOXES = 300
N_ROWS = 5_000


def warm_access_methods() -> None:
    """Compile the kernels of all access methods, for both of their purposes."""
    chance = np.random.default_rng(0)
    points = chance.integers(0, 50, N_BOXES)
    low = np.stack((points, chance.integers(0, 1_000, N_BOXES)))
    high = np.stack((points, low[1] + chance.integers(0, 500, N_BOXES)))
    codes = np.stack((chance.integers(0, 60, N_ROWS), chance.integers(0, 2_000, N_ROWS)))
    for name, method in METHODS.items():
        arrays = method.build(low, high)
        method.pairs(arrays, codes)
        method.count(arrays, codes, np.zeros(N_BOXES, np.int32))
        for mode in ("pairs", "count"):
            predicted({name: arrays}, codes[:, :64].copy(), N_ROWS, mode)


def warm_texts() -> None:
    """Compile the search for texts."""
    lines = pa.array(["disk full", None, "Disk \u017fmall"])
    for ignore_case in (False, True):
        needles = [
            Needle("line", "disk", "contains", ignore_case),
            Needle("line", "full", "suffix", ignore_case),
        ]
        find(build(needles)["line", ignore_case], lines)
