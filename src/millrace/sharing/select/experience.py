"""Experience: what strategies took against what they were expected to take.

Prices explain most of what a strategy takes, but not which rows are in the processor's caches or
how predictable branches are. So those that are expected to be among the cheapest are tried, on
batches that have to be done anyway, and what was expected of them is corrected.

Invariant: what is told of a strategy is of batches and stored rows of one magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.kernels.arrays import Floats

TRIALS = 4  # the first finds nothing in the processor's caches
NEAR = 4.0  # times the cheapest: what is expected to take more is not tried


class Experience:
    """By strategy, the least part of what was expected that it took; and how often it was tried."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [*names]
        self._shape: tuple[int, ...] = ()
        self._factors = np.ones(len(self._names))
        self._n_tried = np.zeros(len(self._names), np.int64)

    def begin(self, shape: tuple[int, ...]) -> None:
        """Forget everything if batches are not what they were."""
        if shape != self._shape:
            self._shape = shape
            self._factors[:] = 1.0
            self._n_tried[:] = 0

    def correct(self, costs: Floats) -> Floats:
        """Return costs, `[strategy, driver]`, as experience has it; what was not tried has none."""
        tried = self._n_tried > 0
        factors = np.where(tried, self._factors, np.inf) if tried.any() else self._factors
        return costs * factors[:, None]

    def factor(self, name: str) -> float:
        """Return by how much what is expected of a strategy is corrected."""
        return float(self._factors[self._names.index(name)])

    def untried(self, totals: Floats) -> int | None:
        """Return a strategy that has to be tried, if there is one, by what is expected of each."""
        near = (totals <= NEAR * totals.min()) & (self._n_tried < TRIALS)
        return int(np.argmin(np.where(near, totals, np.inf))) if near.any() else None

    def learn(self, name: str, expected_ns: float, took_ns: float) -> None:
        """Note what a strategy took for a batch."""
        at = self._names.index(name)
        factor = took_ns / max(expected_ns, 1.0)
        self._factors[at] = min(self._factors[at], factor) if self._n_tried[at] else factor
        self._n_tried[at] += 1
