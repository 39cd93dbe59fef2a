"""Experience: what strategies took against what they were expected to take.

Prices explain most of what a strategy takes, but not which rows are in the processor's caches or
how predictable branches are. So those that are expected to be among the cheapest are tried, on
batches that have to be done anyway, and what was expected of them is corrected.

A strategy is tried several times in a row, and the quickest try counts: as long as the processor
has not got used to it, it takes up to twice as long, and what others do on the machine disturbs
some tries. Whatever turns out to be far from the best is left after a few.

Invariant: what is told of a strategy is of batches and stored rows of one magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.kernels.arrays import Floats

NEAR = 4.0  # times the cheapest: what is expected to take more is not tried
CLOSE = 1.5  # times the quickest: what took more is not tried more often than a few times
FEW, MANY = 4, 16  # tries
WARM_NS = 40e6  # a strategy that has run for so long has got used to it


class Experience:
    """By strategy, the least part of what was expected that it took; how often, and how long."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [*names]
        self._shape: tuple[int, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._factors = np.ones(len(self._names))
        self._n_tried = np.zeros(len(self._names), np.int64)
        self._spent_ns = np.zeros(len(self._names))

    def begin(self, shape: tuple[int, ...]) -> None:
        """Forget everything if batches are not what they were."""
        if shape != self._shape:
            self._shape = shape
            self._forget()

    def correct(self, costs: Floats) -> Floats:
        """Return costs, `[strategy, driver]`, as experience has it; what was not tried has none."""
        tried = self._n_tried > 0
        factors = np.where(tried, self._factors, np.inf) if tried.any() else self._factors
        return costs * factors[:, None]

    def factor(self, name: str) -> float:
        """Return by how much what is expected of a strategy is corrected."""
        return float(self._factors[self._names.index(name)])

    def untried(self, totals: Floats) -> tuple[int, int] | None:
        """Return a strategy that has to be tried, and how often, by what is expected of each."""
        n_tried = self._n_tried
        near = totals <= NEAR * totals.min()
        took = np.where(n_tried >= FEW, self._factors * totals, np.inf)
        close = (took <= CLOSE * took.min()) & (n_tried < MANY) & (self._spent_ns < WARM_NS)
        wanted = near & ((n_tried < FEW) | close)
        # Those that were begun with come first.
        order = np.where(n_tried > 0, totals - totals.max(), totals)
        at = int(np.argmin(np.where(wanted, order, np.inf)))
        n_times = FEW if n_tried[at] < FEW else MANY - FEW
        return (at, n_times) if wanted.any() else None

    def learn(self, name: str, expected_ns: float, took_ns: float) -> None:
        """Note what a strategy took for a batch."""
        at = self._names.index(name)
        factor = took_ns / max(expected_ns, 1.0)
        self._factors[at] = min(self._factors[at], factor) if self._n_tried[at] else factor
        self._n_tried[at] += 1
        self._spent_ns[at] += took_ns
