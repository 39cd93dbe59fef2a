"""Warming up select joins: every strategy finds something once, on queries of nobody."""

from __future__ import annotations

import numpy as np

from millrace.sharing.select.calibration import random_trial
from millrace.sharing.select.prices import PRICES
from millrace.sharing.select.strategies import STRATEGIES


def warm_select_joins() -> None:
    """Compile the kernels of all strategies, for all that can be asked of them."""
    trial = random_trial(np.random.default_rng(3), queries=(30, 100))
    slots = np.arange(len(trial.queries))
    for make in STRATEGIES.values():
        strategy = make(PRICES)
        strategy.add(slots, trial.queries)
        strategy.drop(slots[:1])
        found = strategy.find(trial.drivers, trial.stored)
        found.descriptors()
        found.runs()
        strategy.estimate(trial.drivers, trial.stored)
