"""Prices of window joins on this machine: measured as those of select joins are.

Trials are those of select joins, with times: stored rows are of a stretch before the drivers, and
windows reach back over all of it or a small part. In every other trial ranges of stored rows are
wide, so that many queries are affected.

Cost: about 4 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from millrace.sharing import measuring
from millrace.sharing.drivers import Drivers
from millrace.sharing.price_list import PriceList
from millrace.sharing.queries import WindowQueries
from millrace.sharing.select.calibration import SPREAD, random_trial
from millrace.sharing.select.prices import Prices
from millrace.sharing.stored import Stored
from millrace.sharing.window.batch import Links, WindowBatch
from millrace.sharing.window.strategies import BUILDS, PRICES

LIST = PriceList("window", PRICES, ("window_*.py", "window/*.py"))
N_TRIALS = 60


def calibrate(n_trials: int = N_TRIALS) -> dict[str, Prices]:
    """Measure, and return prices for each index."""
    return measuring.measured(_trials(n_trials), PRICES)


def _trials(n_trials: int) -> Iterator[measuring.Trial]:
    """Let every index name the affected queries of random trials."""
    random = np.random.default_rng(11)
    for _ in range(n_trials):
        queries, batch = random_batch(random)
        if not batch.rows.size:
            continue
        for name, build in BUILDS.items():
            index = build(queries, np.arange(len(queries)))
            yield measuring.Trial(name, index.work(batch).sum(axis=1), partial(index.pair, batch))


def random_batch(random: np.random.Generator) -> tuple[WindowQueries, WindowBatch]:
    """Return queries with windows of one magnitude or of many, and what meets them."""
    trial = random_trial(random, drivers=(50, 2_000))
    given, n_rows = trial.queries, len(trial.stored)
    segments = np.repeat(np.arange(trial.stored.n_segments), np.diff(trial.stored.starts))
    times = random.integers(0, SPREAD, n_rows)
    n_segments = trial.stored.n_segments
    stored = Stored.build(segments, trial.stored.codes, times, n_segments=n_segments)
    widest = SPREAD * 10 ** random.uniform(-3, 0)
    sizes = random.uniform(0.1, 1, len(given)) * widest
    more = int(SPREAD * 10 ** random.uniform(-2, -0.3)) * random.integers(0, 2)
    queries = WindowQueries(
        given.driver_low,
        given.driver_high,
        given.stored_low - more,
        given.stored_high + more,
        sizes.astype(np.int64),
    )
    now = np.full(len(trial.drivers), SPREAD)
    drivers = Drivers(trial.drivers.segments, trial.drivers.codes, now)
    return queries, WindowBatch.of(drivers, stored, Links(stored))
