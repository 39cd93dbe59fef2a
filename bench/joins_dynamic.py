"""Dynamic: against every static strategy, over mixes that prices were not fitted to.

What is measured is identification: the affected queries of all rows are named. Full output is
stated apart. Rows of a mix come in one batch, to all strategies alike.

The optimum by row is measured row by row, for a sample of the rows: every strategy that may win
runs on each of them alone, and the quickest is the row's best. Then each strategy is given the rows
that it is best for, as one batch. That is what a perfect choice for each row takes, without what
choosing costs; where a static strategy takes less for all rows together, that is the optimum.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.joins_timing import Run, pairing, seconds
from bench.joins_workloads import Workload
from bench.report import Figure, progress
from millrace.kernels.arrays import Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Pairs
from millrace.sharing.select.batch import Batch, Load
from millrace.sharing.select.calibration import keep_prices, random_trial
from millrace.sharing.select.dynamic import Dynamic
from millrace.sharing.select.strategies import BUILDS, dynamic
from millrace.sharing.select.strategy import Strategy
from millrace.sharing.stored import Stored

N_MIXES = 30
TRIED, LEAST_TRIED = 128, 30  # batches, until what may be the cheapest has been tried
TRIED_SECONDS = 2.0  # after the least of these
CLOSE = 1.3  # times the quickest: of those the least of many rounds counts, the most even measure
DECIDING_ROUNDS = 31
HOPELESS = 8  # times what the cheapest is expected to take: it is not run
SAMPLE = 128  # rows that are run one by one
TIMES = 3  # that each of them is run, of which the quickest counts
TOLD_PAIRS = 1_000_000  # of which all output is told, or of all rows


class Watched:
    """A strategy, and which rows it was given last; rows say by their times which they are."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.given = np.zeros(0, np.int64)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  as many types as names
        """Do all else as the strategy does."""
        return getattr(self._strategy, name)

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        """Name what is affected."""
        self.given = drivers.times
        return self._strategy.pair(drivers, stored)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What strategies took for a row, in seconds, and how good the choice for each row was.

    Of those that had no hope, `slow`, it is the mean of few rows.
    `optimum` and `sampled` are for a sample: what a perfect choice takes, and what Dynamic takes.
    `shares` says which part of the rows Dynamic gave to each strategy, `right` which part of the
    sample it gave to the one that is best for that row. `written` is how fast it was by the best
    static one where all output was told, for some of the rows.
    """

    took: Mapping[str, float]
    slow: Mapping[str, float]
    optimum: float
    sampled: float
    shares: Mapping[str, float]
    right: float
    written: float

    @property
    def best(self) -> str:
        """The static strategy that took the least."""
        return min((name for name in self.took if name != "dynamic"), key=self.took.__getitem__)

    @property
    def by_best(self) -> float:
        """How fast Dynamic was by the best static strategy."""
        return self.took[self.best] / self.took["dynamic"]

    @property
    def by_optimum(self) -> float:
        """Which part of the speed of a perfect choice Dynamic has."""
        return self.optimum / self.sampled

    @property
    def chosen(self) -> str:
        """The strategies that rows went to, the most used first."""
        return "+".join(sorted(self.shares, key=self.shares.__getitem__, reverse=True))


def made(workload: Workload) -> tuple[Dynamic, dict[str, Watched]]:
    """Return Dynamic with the prices of this machine and the queries of a workload."""
    watched = {
        name: Watched(each) for name, each in dynamic(keep_prices(BUILDS)).strategies.items()
    }
    strategy = Dynamic(watched)
    strategy.add(np.arange(len(workload.queries)), workload.queries)
    return strategy, watched


def hopeful(strategy: Dynamic, workload: Workload) -> list[str]:
    """Return the names of the static strategies that may win."""
    costs = strategy.costs(Load(Batch.of(workload.drivers, workload.stored))).sum(axis=1)
    names = [*strategy.strategies]
    return [name for name, cost in zip(names, costs, strict=True) if cost < HOPELESS * costs.min()]


def numbered(workload: Workload) -> Workload:
    """Return the same with the numbers of rows as their times, which select joins do not read."""
    drivers = workload.drivers
    rows = np.arange(len(drivers))
    return Workload(
        workload.queries, Drivers(drivers.segments, drivers.codes, rows), workload.stored
    )


def settle(run: Run) -> None:
    """Let Dynamic try the others first, until it has chosen."""
    start = time.thread_time()
    for number in range(TRIED):
        run()
        if number >= LEAST_TRIED and time.thread_time() - start > TRIED_SECONDS:
            return


def contest(given: Workload, *, n_slow: int = 0, rounds: int = DECIDING_ROUNDS) -> Outcome:
    """Let every strategy that may win, and Dynamic, name the queries of all rows.

    Those that have no hope are given `n_slow` rows; those that are close run `rounds` times.
    """
    workload = numbered(given)
    strategy, watched = made(workload)
    fixed = {name: watched[name] for name in hopeful(strategy, workload)}
    runs = {
        name: pairing(each, workload, workload.drivers)
        for name, each in {**fixed, "dynamic": strategy}.items()
    }
    settle(runs["dynamic"])
    shares = _shares(strategy, watched, workload.drivers, workload.stored)
    took = seconds(runs, 3)
    least = min(took.values())
    close = {name: runs[name] for name in runs if took[name] < CLOSE * least}
    took |= seconds(close | {"dynamic": runs["dynamic"]}, rounds, told=min)
    some, slow = workload.some(n_slow), dict[str, Run]()
    if n_slow:
        others = {name: each for name, each in watched.items() if name not in fixed}
        slow = {name: pairing(each, workload, some) for name, each in others.items()}
    optimum, sampled, right = _by_row(strategy, watched, [*fixed], workload)
    return Outcome(
        {name: each / len(workload.drivers) for name, each in took.items()},
        {name: each / n_slow for name, each in seconds(slow, 1).items()},
        optimum,
        sampled,
        shares,
        right,
        _written(strategy, fixed, workload),
    )


def _shares(
    strategy: Dynamic, watched: Mapping[str, Watched], drivers: Drivers, stored: Stored
) -> dict[str, float]:
    """Return which part of the drivers each strategy is given by Dynamic."""
    given = _given(strategy, watched, drivers, stored)
    return {name: rows.size / len(drivers) for name, rows in given.items()}


def _given(
    strategy: Dynamic, watched: Mapping[str, Watched], drivers: Drivers, stored: Stored
) -> dict[str, Ints]:
    """Return the times of the drivers that each strategy is given by Dynamic."""
    for each in watched.values():
        each.given = np.zeros(0, np.int64)
    strategy.find(drivers, stored).pairs()
    return {name: each.given for name, each in watched.items() if each.given.size}


def _by_row(
    strategy: Dynamic, watched: Mapping[str, Watched], names: list[str], workload: Workload
) -> tuple[float, float, float]:
    """Run a sample row by row; return the optimum and Dynamic, for all of it, and how many agree.

    Only rows that join anything are asked; the others cost nobody anything.
    """
    drivers, stored = workload.some(SAMPLE), workload.stored
    drivers = drivers.take(np.flatnonzero(stored.lengths(drivers.segments)))
    if not len(drivers):
        return 1.0, 1.0, 1.0
    alone = np.array(
        [
            [_least(watched[name], drivers, at, stored) for name in names]
            for at in range(len(drivers))
        ]
    )
    best = alone.argmin(axis=1)
    runs = {name: pairing(watched[name], workload, drivers) for name in names}
    runs |= {
        f"best: {name}": pairing(watched[name], workload, drivers.take(rows))
        for at, name in enumerate(names)
        if (rows := np.flatnonzero(best == at)).size
    }
    runs["dynamic"] = pairing(strategy, workload, drivers)
    settle(runs["dynamic"])
    given = _given(strategy, watched, drivers, stored)
    chosen = {int(at): name for name, times in given.items() for at in times}
    right = [chosen.get(int(row)) == names[at] for row, at in zip(drivers.times, best, strict=True)]
    took = seconds(runs, told=min)
    perfect = sum(each for name, each in took.items() if name.startswith("best: "))
    fixed = (took[name] for name in names)
    return min(perfect, took["dynamic"], *fixed), took["dynamic"], float(np.mean(right))


def _least(strategy: Watched, drivers: Drivers, at: int, stored: Stored) -> float:
    """Return the least that a strategy takes for one row, in seconds."""
    one, took = drivers.take(np.array([at])), []
    for _ in range(TIMES):
        start = time.thread_time()
        strategy.pair(one, stored)
        took.append(time.thread_time() - start)
    return min(took)


def _written(strategy: Dynamic, fixed: Mapping[str, Watched], workload: Workload) -> float:
    """Return how fast Dynamic is by the best static strategy where the runs of pairs are told."""
    stored = workload.stored
    n_pairs = max(1, strategy.find(workload.drivers, stored).descriptors().lefts.sum())
    n_rows = len(workload.drivers)
    drivers = workload.some(max(1, min(n_rows, int(TOLD_PAIRS / n_pairs * n_rows))))
    settle(pairing(strategy, workload, drivers))
    runs: dict[str, Run] = {
        name: lambda each=each: each.find(drivers, stored).runs()
        for name, each in {**fixed, "dynamic": strategy}.items()
    }
    took = seconds(runs, 3, told=min)
    return min(each for name, each in took.items() if name != "dynamic") / took["dynamic"]


def mixes(folder: Path) -> list[Figure]:
    """Run thirty random mixes of 1,000 to 100,000 queries and 1,000 to 16,000 drivers."""
    del folder  # it draws nothing
    random = np.random.default_rng(2026)
    outcomes = []
    for number in range(N_MIXES):
        trial = random_trial(random, queries=(1_000, 100_000), drivers=(1_000, 16_000))
        workload = Workload(trial.queries, trial.drivers, trial.stored)
        found = contest(workload)
        outcomes.append(found)
        progress(
            "mixes",
            f"{number + 1:>2}: {len(workload.queries)} queries, {len(workload.drivers)} rows, best "
            f"{found.best} {1e6 * found.took[found.best]:.2f} us, chose {found.chosen} "
            f"{found.by_best:.2f}, {found.by_optimum:.2f} of the optimum, {found.right:.0%} right, "
            f"full output {found.written:.2f}",
        )
    ratios, written = (
        [getattr(each, name) for each in outcomes] for name in ("by_best", "written")
    )
    picks = Counter(each.chosen for each in outcomes)
    told = ", ".join(f"{name} {n}" for name, n in picks.most_common())
    return [
        Figure(
            "Dynamic by best static, worst of 30 mixes",
            min(ratios),
            "at least",
            0.95,
            "x",
            f"named; median {median(ratios):.2f}; {sum(each >= 0.95 for each in ratios)} of 30 "
            f"reach it; chose {told}",
        ),
        Figure(
            "Dynamic by best static, full output, worst of 30 mixes",
            min(written),
            "reported",
            None,
            "x",
            f"pairs with their runs of stored rows; median {median(written):.2f}",
        ),
        Figure(
            "Dynamic by optimum by row, median of 30 mixes",
            median(each.by_optimum for each in outcomes),
            "reported",
            None,
            "x",
            f"{SAMPLE} rows of each mix, run one by one; least "
            f"{min(each.by_optimum for each in outcomes):.2f}; the best strategy of a row is "
            f"chosen for {np.mean([each.right for each in outcomes]):.0%} of rows",
        ),
    ]
