"""Prices of select joins on this machine: measured in seconds, once, and kept (`price_list`).

Random sets of queries, drivers and stored rows are given to every index whose work, at the prices
that are known, would not take long; what they took is explained by the work they did.

Cost: about 6 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.sharing import measuring
from millrace.sharing.drivers import Drivers
from millrace.sharing.price_list import PriceList
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Batch, Load
from millrace.sharing.select.index import Build, amounts
from millrace.sharing.select.prices import PRICES, Prices
from millrace.sharing.stored import Stored

LIST = PriceList("select", PRICES, ("select_*.py", "select/*.py"))
N_TRIALS = 40
SPREAD = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Something to find."""

    queries: SelectQueries
    drivers: Drivers
    stored: Stored


def random_trial(
    random: np.random.Generator,
    *,
    queries: tuple[int, int] = (100, 30_000),
    drivers: tuple[int, int] = (100, 10_000),
) -> Trial:
    """Return queries in clusters or not, wide or narrow; rows of few keys or many.

    Numbers of queries and drivers are between two bounds, all magnitudes alike.
    """
    n_queries, n_drivers = (
        int(10 ** random.uniform(*np.log10(bounds))) for bounds in (queries, drivers)
    )
    n_segments = int(10 ** random.uniform(0.5, 3))
    n_stored = int(n_segments * 10 ** random.uniform(0, 3))
    n_clusters = int(10 ** random.uniform(0, 2))
    centres = random.integers(0, SPREAD, n_clusters)
    clustered = random.random(n_queries) < random.choice([0.0, 0.5, 0.9, 1.0])
    low, high = _ranges(random, random.integers(0, SPREAD, n_queries), random.uniform(-4, -0.3))
    scattered = random.integers(0, SPREAD, n_queries)
    middle = np.where(clustered, centres[random.integers(0, n_clusters, n_queries)], scattered)
    stored_low, stored_high = _ranges(random, middle, random.uniform(-5, -1))
    segments = np.sort(random.integers(0, n_segments, n_drivers))
    codes = random.integers(0, SPREAD, n_drivers)
    # Where rows are in one part of the line only, many queries meet none.
    reach = int(SPREAD * random.choice([0.1, 1.0]))
    keys, rows = random.integers(0, n_segments, n_stored), random.integers(0, reach, n_stored)
    return Trial(
        SelectQueries(low, high, stored_low, stored_high),
        Drivers(segments, codes, np.zeros(n_drivers, np.int64)),
        Stored.build(keys, rows, np.zeros(n_stored, np.int64), n_segments=n_segments),
    )


def _ranges(random: np.random.Generator, middle: Ints, magnitude: float) -> tuple[Ints, Ints]:
    width = np.abs(random.normal(1, 0.2, middle.size)) * SPREAD * 10**magnitude
    half = (width / 2).astype(np.int64)
    return middle - half, middle + half


def random_trials(
    builds: dict[str, Build], n_trials: int, *, seed: int = 7
) -> Iterator[measuring.Trial]:
    """Let every index name the affected queries of random trials."""
    random = np.random.default_rng(seed)
    for _ in range(n_trials):
        trial = random_trial(random)
        batch = Batch.of(trial.drivers, trial.stored)
        if not len(batch):
            continue
        load = Load(batch)
        for name, build in builds.items():
            index = build(trial.queries, np.arange(len(trial.queries)))
            work = amounts(index, load).sum(axis=1)
            yield measuring.Trial(name, work, partial(index.pair, batch.probes))


def calibrate(builds: dict[str, Build], n_trials: int = N_TRIALS) -> dict[str, Prices]:
    """Measure, and return prices for each index."""
    return measuring.measured(random_trials(builds, n_trials), PRICES)


def prices_of_machine(path: Path | None = None) -> dict[str, Prices]:
    """Return the prices that were measured here, or those that are known if there are none."""
    return LIST.of_machine(path)


def keep_prices(builds: dict[str, Build], path: Path | None = None) -> dict[str, Prices]:
    """Measure prices and keep them, unless this machine has some already; return them."""
    return LIST.keep(lambda: calibrate(builds), path)
