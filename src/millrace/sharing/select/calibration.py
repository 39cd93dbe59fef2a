"""Prices of work on this machine: measured in seconds, once, and kept in the user's cache.

Random sets of queries, drivers and stored rows are given to every index whose work, at the prices
that are known, would not take long; what they took is explained by the work they did.

Cost: about 6 s. The file is named after the machine and the code, so neither a new processor nor a
new version reads what is not its own. Without a file the prices are those of `prices`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from millrace import caches, kernels
from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.costs import fit_prices
from millrace.sharing.drivers import Drivers
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Batch, Load
from millrace.sharing.select.index import Build, amounts
from millrace.sharing.select.prices import PRICES, Prices
from millrace.sharing.stored import Stored

N_TRIALS = 40
MOST_NS = 40e6  # what is expected to take longer is not tried
SPREAD = 1_000_000
LEAST_NS = 1_000.0


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


@dataclass(slots=True, eq=False)
class Measured:
    """What an index did in some runs, and what they took."""

    amounts: list[Floats]
    ns: list[float]


def measure(
    builds: dict[str, Build], random: np.random.Generator, n_trials: int = N_TRIALS
) -> dict[str, Measured]:
    """Let every index name the affected queries of random trials."""
    measured = {name: Measured([], []) for name in builds}
    for _ in range(n_trials):
        trial = random_trial(random)
        batch = Batch.of(trial.drivers, trial.stored)
        if not len(batch):
            continue
        load = Load(batch)
        for name, build in builds.items():
            index = build(trial.queries, np.arange(len(trial.queries)))
            work = amounts(index, load).sum(axis=1)
            if work @ np.asarray(PRICES[name]) > MOST_NS:
                continue
            times = []
            for _ in range(3):  # the first finds nothing in the processor's caches
                start = time.thread_time()  # others may be busy
                index.pair(batch.probes)
                times.append((time.thread_time() - start) * 1e9)
            measured[name].amounts.append(work)
            measured[name].ns.append(max(min(times), LEAST_NS))
    return measured


def calibrate(builds: dict[str, Build], n_trials: int = N_TRIALS) -> dict[str, Prices]:
    """Measure, and return prices for each index."""
    runs = measure(builds, np.random.default_rng(7), n_trials)
    return {
        name: tuple(fit_prices(np.array(each.amounts), np.array(each.ns)).tolist())
        for name, each in runs.items()
    }


def prices_of_machine(path: Path | None = None) -> dict[str, Prices]:
    """Return the prices that were measured here, or those that are known if there are none."""
    try:
        told = json.loads((path or _path()).read_text(encoding="utf-8"))
        return {name: tuple(map(float, told[name])) for name in PRICES}
    except (OSError, ValueError, KeyError, TypeError):
        return PRICES


def keep_prices(builds: dict[str, Build], path: Path | None = None) -> dict[str, Prices]:
    """Measure prices and keep them, unless this machine has some already; return them."""
    path = path or _path()
    if path.exists():
        return prices_of_machine(path)
    prices = calibrate(builds)
    with contextlib.suppress(OSError):  # it can be done again
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as draft:
            json.dump(prices, draft)
        Path(draft.name).replace(path)
    return prices


def _path() -> Path:
    digest = hashlib.sha256("\0".join((*_machine(), *_code())).encode()).hexdigest()[:16]
    return caches.cache_directory(os.environ) / f"prices-{digest}.json"


def _machine() -> tuple[str, ...]:
    model = ""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line for line in lines if line.startswith("model name"))
    return platform.machine(), platform.processor(), model, str(os.cpu_count())


def _code() -> list[str]:
    """Return the text of all that is measured."""
    folders = (Path(kernels.__path__[0]).glob("select_*.py"), Path(__file__).parent.glob("*.py"))
    return [path.read_text(encoding="utf-8") for each in folders for path in sorted(each)]
