"""Prices of work, fitted to what was measured: none is negative, and errors are relative.

An error of 1 ms matters more in a run of 2 ms than in one of 2 s; and absolute errors give prices
that make up for the largest run at the cost of all others.
"""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Floats

_ROUNDS = 2_000
_SETTLED = 1e-6


def fit_prices(amounts: Floats, measured: Floats) -> Floats:
    """Return prices, by kind of work, that explain what runs took as well as can be.

    One price after the other is set to its best value, or to zero, until none changes: that ends
    in the one minimum, as the sum of squares has no other.

    >>> fit_prices(np.array([[1.0, 2.0], [1.0, 0.0]]), np.array([7.0, 1.0])).round(3).tolist()
    [1.0, 3.0]
    """
    design = amounts / measured[:, None]
    sizes = np.sqrt((design**2).sum(axis=0))
    used = np.flatnonzero(sizes)
    scaled = design[:, used] / sizes[used]
    gram, target = scaled.T @ scaled, scaled.sum(axis=0)
    found = np.zeros(used.size)
    for _ in range(_ROUNDS):
        before = found.copy()
        for at in range(used.size):
            found[at] = max(0.0, found[at] + target[at] - gram[at] @ found)
        if np.abs(found - before).max(initial=0.0) < _SETTLED:
            break
    prices = np.zeros(amounts.shape[1])
    prices[used] = found / sizes[used]
    return prices
