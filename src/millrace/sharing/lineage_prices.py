"""What lineage costs: a word of 64 queries for a row, and a query whose range is looked for.

Cost: about 1 s to measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from millrace.kernels.lineage import every_bit, narrow
from millrace.sharing import measuring
from millrace.sharing.price_list import PriceList
from millrace.sharing.select.prices import Prices

LINEAGE = "lineage"
PRICES: dict[str, Prices] = {LINEAGE: (2.7, 40.0)}
LIST = PriceList("lineage", PRICES, ("lineage.py", "lineage_prices.py"))
N_TRIALS = 30
SPREAD = 1_000_000


def calibrate(n_trials: int = N_TRIALS) -> dict[str, Prices]:
    """Measure, and return the prices."""
    return measuring.measured(_trials(n_trials), PRICES)


def _trials(n_trials: int) -> Iterator[measuring.Trial]:
    """Let random queries narrow random rows."""
    random = np.random.default_rng(13)
    for _ in range(n_trials):
        n_queries, n_rows = (int(10 ** random.uniform(2, most)) for most in (4.5, 4))
        low = random.integers(0, SPREAD, n_queries)
        codes = random.integers(0, SPREAD, n_rows)
        order, bits = np.argsort(codes), every_bit(n_queries, n_rows)
        work = np.array([float(bits.size), float(n_queries)])
        do = partial(narrow, bits, order, codes[order], low, low + SPREAD // 10)
        yield measuring.Trial(LINEAGE, work, do)
