"""Compiling ahead: each kernel is run once on nothing, so that no epoch waits for a compiler.

A kernel compiles when it is first called (about a second), and later processes load what it
left on disk (some milliseconds). The process that Spark's workers are forked from calls this
before it forks; the workers then find every kernel ready in memory.
"""

from __future__ import annotations

import numpy as np

from millrace.kernels.hashing import combine, hash_bytes, hash_ints, set_nulls
from millrace.kernels.running import running_max_before


def warm() -> None:
    """Compile or load every kernel."""
    hashes = hash_ints(np.zeros(1, np.int64))
    hash_bytes(np.zeros(2, np.int32), np.empty(0, np.uint8))
    combine(hashes, hashes)
    set_nulls(hashes, np.ones(1, np.bool_))
    running_max_before(np.zeros(1, np.int64), np.zeros(1, np.int32), 1, np.zeros(1, np.int64))
