"""Measuring work: what ways of working did in some trials, what that took, and so what it costs.

What is expected to take long at the prices that are known is not tried, and after a time nothing
is: prices are better than none also if fewer trials explain them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from millrace.kernels.arrays import Floats
from millrace.sharing.costs import fit_prices
from millrace.sharing.select.prices import Prices

MOST_NS = 40e6  # what is expected to take longer is not tried
LEAST_NS = 1_000.0
TIMES = 3  # that each is done
MOST_SECONDS = 10.0  # of the processor, for the trials of one kind


class Trial(NamedTuple):
    """Something to do: in which way, how much of each kind of work that is, and how."""

    way: str
    work: Floats
    do: Callable[[], object]


class Runs(NamedTuple):
    """What one way of working did in some trials, and what each took, in ns."""

    amounts: list[Floats]
    took: list[float]


def tried(
    trials: Iterable[Trial], known: Mapping[str, Prices], seconds: float = MOST_SECONDS
) -> dict[str, Runs]:
    """Do what there is to do, and return what it took in each way."""
    runs = {name: Runs([], []) for name in known}
    left = seconds * 1e9  # without what kernels take to be compiled, the first time
    for trial in trials:
        if trial.work @ np.asarray(known[trial.way]) <= MOST_NS:
            amounts, took = runs[trial.way]
            amounts.append(trial.work)
            took.append(max(_quickest(trial.do), LEAST_NS))
            left -= TIMES * took[-1]
        if left < 0:
            break
    return runs


def measured(
    trials: Iterable[Trial], known: Mapping[str, Prices], seconds: float = MOST_SECONDS
) -> dict[str, Prices]:
    """Do what there is to do, and return the prices that explain what it took.

    What is not tried at all keeps the price that is known.
    """
    runs = tried(trials, known, seconds)
    return {
        name: tuple(fit_prices(np.array(runs[name].amounts), np.array(runs[name].took)).tolist())
        if len(runs[name].took) >= len(prices)
        else prices
        for name, prices in known.items()
    }


def _quickest(do: Callable[[], object]) -> float:
    """Return how many ns something takes; the first time nothing is in the processor's caches."""
    times = []
    for _ in range(TIMES):
        start = time.thread_time()  # others may be busy
        do()
        times.append((time.thread_time() - start) * 1e9)
    return min(times)
