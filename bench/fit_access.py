"""Fit the prices of the access methods on this machine, and say how well they choose.

    python -m bench.fit_access [families]

Random families of boxes are indexed by every method that can, and matched with random rows. The
prices minimise the sum of squared RELATIVE errors and are not negative. Two thirds of the families
are used to fit, the others to test, first with the present prices and then with the new: regret
is the time of the chosen methods over that of the best. The printed table goes into
`millrace/index/chooser.py`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from millrace.index.access import METHODS
from millrace.index.access.access import END_CODE, NULL_CODE
from millrace.index.access.statistics import Arrays, Mode, Work
from millrace.index.chooser import PRICES, SAMPLE_ROWS, Prices, priced
from millrace.kernels.arrays import Floats, Ints

MODES: tuple[Mode, Mode] = ("pairs", "count")
N_REPEATS = 3
PATIENCE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Boxes and rows."""

    low: Ints
    high: Ints
    codes: Ints


def random_family(random: np.random.Generator) -> Family:
    """A key perhaps, and some ranges of random width, over few values or many."""
    n = int(10 ** random.uniform(2, 4.9))
    n_rows = int(random.choice([64, 512, 4096]))
    keyed = random.random() < 0.5
    lines = [_range(random, n, n_rows) for _ in range(random.integers(1, 3 if keyed else 5))]
    if keyed:
        n_keys = int(10 ** random.uniform(0.5, 4))
        keys = random.integers(0, n_keys, n)
        lines.insert(0, (keys, keys, random.integers(0, n_keys, n_rows)))
    low, high, codes = (
        np.ascontiguousarray(np.array(part, np.int64)) for part in zip(*lines, strict=True)
    )
    return Family(low, high, codes)


def _range(random: np.random.Generator, n: int, n_rows: int) -> tuple[Ints, Ints, Ints]:
    spread = int(random.choice([100, 10**6]))
    width = max(1, int(spread * 10 ** random.uniform(-4, -0.3)))
    low = random.integers(0, spread, n)
    high = low + random.integers(0, width, n)
    if random.random() < 0.3:
        below = random.random(n) < random.choice([0, 0.5])
        low, high = np.where(below, NULL_CODE + 1, low), np.where(below, high, END_CODE)
    if random.random() < 0.3:
        free = random.random(n) < 0.5
        low, high = np.where(free, NULL_CODE, low), np.where(free, END_CODE, high)
    return low, high, random.integers(0, spread, n_rows)


@dataclass(slots=True, eq=False)
class Measured:
    """What each method would do and did, for one family."""

    n_pairs: int = 0
    work: dict[str, Work] = field(default_factory=dict)
    ns: dict[str, float] = field(default_factory=dict)

    def chosen(self, prices: Prices) -> str:
        """Return the method with the least predicted cost."""
        return min(self.work, key=lambda name: priced(self.work[name], prices[name]))


def measure(family: Family, built: dict[str, Arrays], mode: Mode) -> Measured:
    """Time each method, the best of a few runs."""
    measured = Measured()
    n_rows = family.codes.shape[1]
    step = max(1, n_rows // SAMPLE_ROWS)
    sample = np.ascontiguousarray(family.codes[:, ::step][:, :SAMPLE_ROWS])
    counts = np.zeros(family.low.shape[1], np.int32)
    for name, arrays in built.items():
        measured.work[name] = METHODS[name].work(arrays, sample, n_rows, mode)
        method = METHODS[name]
        if mode == "pairs":
            measured.n_pairs = method.pairs(arrays, family.codes)[0].size
            measured.ns[name] = best_ns(partial(method.pairs, arrays, family.codes))
        else:
            measured.ns[name] = best_ns(partial(method.count, arrays, family.codes, counts))
    return measured


def best_ns(call: Callable[[], object]) -> float:
    """Return the shortest CPU time of a few calls."""
    times: list[float] = []
    while len(times) < N_REPEATS and sum(times) < PATIENCE_SECONDS:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return max(min(times) * 1e9, 1000.0)


def fit(runs: list[Measured], name: str) -> Work:
    """Minimise the relative error of a method, one price after the other, none below zero.

    What it takes to write a pair down is fitted too, and then forgotten: all methods must.
    """
    mine = [each for each in runs if name in each.work]
    amounts = [np.array([*each.work[name], each.n_pairs]) / each.ns[name] for each in mine]
    design: Floats = np.array(amounts)
    prices = np.zeros(design.shape[1])
    squares = (design**2).sum(axis=0)
    for _ in range(20_000):
        for column in np.flatnonzero(squares):
            rest = 1.0 - design @ prices + design[:, column] * prices[column]
            prices[column] = max(0.0, design[:, column] @ rest / squares[column])
    return tuple(float(f"{price:.3g}") for price in prices[:-1])


def report(mode: Mode, runs: list[Measured], prices: Prices) -> None:
    """Print the regret of choosing by these prices, and of never choosing."""
    best = sum(min(each.ns.values()) for each in runs)
    chosen = [each.ns[each.chosen(prices)] for each in runs]
    worst = max(mine / min(each.ns.values()) for mine, each in zip(chosen, runs, strict=True))
    print(f"{mode:6} regret {sum(chosen) / best:.3f}, worst {worst:.2f}, of {len(runs)}", end="; ")
    for name in ("block", "rank"):
        print(f"always {name} {sum(each.ns[name] for each in runs) / best:.2f}", end="; ")
    print()


def main(n_families: int) -> None:
    """Measure, fit, and print the table of prices."""
    random = np.random.default_rng(7)
    runs: dict[Mode, list[Measured]] = {mode: [] for mode in MODES}
    for _ in range(n_families):
        family = random_family(random)
        built = {
            name: method.build(family.low, family.high)
            for name, method in METHODS.items()
            if method.possible(family.low, family.high)
        }
        for mode in MODES:
            runs[mode].append(measure(family, built, mode))
    n_fitted = n_families * 2 // 3
    for mode in MODES:
        fitted = {name: fit(runs[mode][:n_fitted], name) for name in METHODS}
        report(mode, runs[mode][n_fitted:], PRICES[mode])
        report(mode, runs[mode][n_fitted:], fitted)
        for name, prices in fitted.items():
            print(f'        "{name}": {prices},')


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 90)
