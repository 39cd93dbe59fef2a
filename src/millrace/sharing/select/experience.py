"""Experience: what strategies took against what they were expected to take.

Prices explain most of what a strategy takes, but not which rows are in the processor's caches or
how predictable branches are. So those that are expected to be among the cheapest are tried, on
batches that have to be done anyway, and what was expected of them is corrected.

A strategy is tried several times in a row, and the quickest try counts: as long as the processor
has not got used to it, it takes up to twice as long, and what others do on the machine disturbs
some tries. Whatever turns out to be far from the best is left after a few; a strategy that chooses
among several ways itself gets as many for each.

Invariant: what is told of a strategy is of batches and stored rows of one magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from millrace.kernels.arrays import Floats

NEAR = 4.0  # times the cheapest: what is expected to take more is not tried
CLOSE = 1.5  # times the quickest: what took more is not tried more often than a few times
FEW, MANY = 4, 16  # tries
WARM_NS = 40e6  # a strategy that has run for so long has got used to it


class Experience:
    """By strategy, the least part of what was expected that it took; how often, and how long."""

    def __init__(self, ways: Mapping[str, int]) -> None:
        """Know strategies by name, and in how many ways each may come to do its work."""
        self._names = [*ways]
        self._few = FEW * np.array([*ways.values()])
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
        near = totals <= NEAR * totals.min()
        new = near & (self._n_tried < self._few)
        if new.any():
            at = int(np.argmin(np.where(new, totals, np.inf)))
            return at, int(self._few[at] - self._n_tried[at])
        took = np.where(near, self._factors * totals, np.inf)
        unsure = (self._n_tried < MANY) & (self._spent_ns < WARM_NS)
        close = unsure & (took <= CLOSE * took.min())
        at = int(np.argmin(np.where(close, took, np.inf)))
        return (at, int(MANY - self._n_tried[at])) if close.any() else None

    def learn(self, name: str, expected_ns: float, took_ns: float) -> None:
        """Note what a strategy took for a batch."""
        at = self._names.index(name)
        factor = took_ns / max(expected_ns, 1.0)
        self._factors[at] = min(self._factors[at], factor) if self._n_tried[at] else factor
        self._n_tried[at] += 1
        self._spent_ns[at] += took_ns
