"""Prices of band joins on this machine: measured on random bands, scattered or in clusters.

Cost: about 3 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from millrace.sharing import band_indexes, measuring
from millrace.sharing.band_prices import PRICES, band_work
from millrace.sharing.band_rows import numbers_of, probes_of
from millrace.sharing.drivers import Drivers
from millrace.sharing.partition import canonical
from millrace.sharing.price_list import PriceList
from millrace.sharing.queries import BandQueries
from millrace.sharing.select.prices import Prices
from millrace.sharing.stored import Stored

LIST = PriceList("band", PRICES, ("band*.py",))
N_TRIALS = 25
SPREAD = 1_000_000
N_DRIVERS = 200


def calibrate(n_trials: int = N_TRIALS) -> dict[str, Prices]:
    """Measure, and return prices for each way."""
    return measuring.measured(_trials(n_trials), PRICES)


def _trials(n_trials: int) -> Iterator[measuring.Trial]:
    """Let every way count the affected queries of random trials."""
    random = np.random.default_rng(17)
    for _ in range(n_trials):
        queries, drivers, stored = random_bands(random)
        n_groups = canonical(queries.low, queries.high).sizes.size
        n_rows = stored.lengths(drivers.segments).astype(np.float64)
        probes = probes_of(drivers, stored, doubles=False)
        values = numbers_of(stored.codes, doubles=False)
        for way in PRICES:
            n_bands = n_groups if way == "ssi" else len(queries)
            work = band_work(way, n_bands, n_rows).sum(axis=1)
            build = getattr(band_indexes, way)
            index = build(queries, np.arange(len(queries)), doubles=False)
            yield measuring.Trial(way, work, partial(index.describe, probes, values))


def random_bands(random: np.random.Generator) -> tuple[BandQueries, Drivers, Stored]:
    """Return bands around few points or many, and rows of one key or of some."""
    n_queries, n_stored = (int(10 ** random.uniform(2, most)) for most in (4.5, 4))
    n_segments = int(10 ** random.uniform(0, 2))
    centres = random.integers(0, SPREAD, int(10 ** random.uniform(0, 3)))
    middle = centres[random.integers(0, centres.size, n_queries)]
    half = random.integers(1, int(SPREAD * 10 ** random.uniform(-5, -2)), n_queries)
    segments = np.sort(random.integers(0, n_segments, N_DRIVERS))
    codes = random.integers(0, SPREAD, N_DRIVERS)
    rows = random.integers(0, 2 * SPREAD, n_stored)
    keys, times = random.integers(0, n_segments, n_stored), np.zeros(n_stored, np.int64)
    return (
        BandQueries(middle - half, middle + half),
        Drivers(segments, codes, np.zeros(N_DRIVERS, np.int64)),
        Stored.build(keys, rows, times, n_segments=n_segments),
    )
