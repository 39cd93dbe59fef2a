"""Contestants in turn, and what each took in the middle: the time of the thread's processor.

All of them run in one thread; so what others do on the machine at the time counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np

from bench.joins_workloads import Workload
from millrace.sharing.drivers import Drivers
from millrace.sharing.select.prices import PRICES
from millrace.sharing.select.select_first import SelectFirst
from millrace.sharing.select.strategies import STRATEGIES
from millrace.sharing.select.strategy import Indexed, Strategy

ROUNDS = 5
PATIENCE_SECONDS = 2.0
LEAST_SECONDS = 0.005  # what takes less is run several times in a row

Run = Callable[[], object]

ALONE = "SelectFirst"
"""As in the paper: a row shares nothing with others."""

LABELS = {
    "vanilla": "Vanilla",
    "select_first": "SelectFirst, rows share",
    "join_first": "JoinFirst",
    "ssi": "SSI",
    "bitmaps": "Bitmaps",
    "hotspot": "Hotspot",
    "dynamic": "Dynamic",
}


def strategy(name: str, workload: Workload) -> Strategy:
    """Return a strategy with the queries of a workload, all of them indexed."""
    made: Strategy
    if name == ALONE:
        made = Indexed(SelectFirst.build_alone, PRICES["select_first"])
    else:
        made = STRATEGIES[name](PRICES)
    made.add(np.arange(len(workload.queries)), workload.queries)
    made.find(workload.some(2), workload.stored).pairs()
    return made


def seconds(
    contestants: Mapping[str, Run],
    rounds: int = ROUNDS,
    least: float = LEAST_SECONDS,
    *,
    told: Callable[[list[float]], float] = median,
) -> dict[str, float]:
    """Run contestants in turn, each for some seconds at least; one that is slow less often.

    They take turns in another order each time: what one leaves in memory and the processor's caches
    helps or hurts the next.
    """
    firsts = {name: min(_timed(run, 1), _timed(run, 1)) for name, run in contestants.items()}
    repeats = {name: 1 + int(least / max(each, 1e-6)) for name, each in firsts.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    random = np.random.default_rng(rounds)
    for _ in range(rounds):
        for name in random.permutation([*contestants]).tolist():
            if not times[name] or sum(times[name]) < PATIENCE_SECONDS:
                times[name].append(_timed(contestants[name], repeats[name]))
    return {name: told(each) for name, each in times.items()}


def _timed(run: Run, n_times: int) -> float:
    start = time.thread_time()
    for _ in range(n_times):
        run()
    return (time.thread_time() - start) / n_times


def describing(each: Strategy, workload: Workload, drivers: Drivers) -> Run:
    """Return what counts the affected queries."""
    return lambda: each.find(drivers, workload.stored).descriptors()


def pairing(each: Strategy, workload: Workload, drivers: Drivers) -> Run:
    """Return what names the affected queries."""
    return lambda: each.find(drivers, workload.stored).pairs()
