"""Contestants in turn, and what each took in the middle: the time of the thread's processor.

All of them run in one thread; so what others do on the machine at the time counts little. Some
share work among the rows of a batch and some do not: each is given batches of the size that suits
it best (`by_row`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from types import MappingProxyType

import numpy as np

from bench.joins_workloads import Workload
from bench.report import Figure
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Found
from millrace.sharing.select.prices import PRICES
from millrace.sharing.select.select_first import SelectFirst
from millrace.sharing.select.strategies import STRATEGIES
from millrace.sharing.select.strategy import Indexed, Strategy

ROUNDS = 5
CLOSE_ROUNDS = 15  # where contestants are close: the least counts, the most even measure
PATIENCE_SECONDS = 2.0
LEAST_SECONDS = 0.005  # what takes less is run several times in a row
SIZES = (16, 64, 256, 1_024, 4_096, 16_384, 65_536)
LONGEST_SECONDS = 0.5  # of a batch, while its best size is looked for

NOBODY: Mapping[str, float] = MappingProxyType({})

Run = Callable[[], object]
Make = Callable[[int], Run]
"""Makes a run for so many rows."""

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
    firsts = {name: _first(run) for name, run in contestants.items()}
    repeats = {name: 1 + int(least / max(each, 1e-6)) for name, each in firsts.items()}
    times = {name: [each] if each > PATIENCE_SECONDS else [] for name, each in firsts.items()}
    random = np.random.default_rng(rounds)
    for _ in range(rounds):
        for name in random.permutation([*contestants]).tolist():
            if not times[name] or sum(times[name]) < PATIENCE_SECONDS:
                times[name].append(_timed(contestants[name], repeats[name]))
    return {name: told(each) for name, each in times.items()}


def _first(run: Run) -> float:
    """Return what a run takes; if that is not long, one that is not the first."""
    took = _timed(run, 1)
    return took if took > PATIENCE_SECONDS else min(took, _timed(run, 1))


def _timed(run: Run, n_times: int) -> float:
    start = time.thread_time()
    for _ in range(n_times):
        run()
    return (time.thread_time() - start) / n_times


def by_row(
    makes: Mapping[str, Make],
    most: int = SIZES[-1],
    *,
    rounds: int = ROUNDS,
    least: float = LEAST_SECONDS,
    told: Callable[[list[float]], float] = median,
    sharing: Mapping[str, float] = NOBODY,
) -> tuple[dict[str, float], dict[str, int]]:
    """Return what a row takes with each contestant, in seconds, and the batches it was given.

    These are of the size, up to `most`, that suits the contestant best. `sharing` says of those
    that share much work among rows how long a batch may take while that is looked for, in seconds.
    """
    sizes = {
        name: _best_size(make, most, sharing.get(name, LONGEST_SECONDS))
        for name, make in makes.items()
    }
    runs = {name: make(sizes[name]) for name, make in makes.items()}
    took = seconds(runs, rounds, least, told=told)
    return {name: each / sizes[name] for name, each in took.items()}, sizes


def _best_size(make: Make, most: int, longest: float) -> int:
    """Try batches of more and more rows, as long as one does not take long."""
    each: dict[int, float] = {}
    for size in (*(size for size in SIZES if size < most), most):
        if each and size * min(each.values()) > longest:
            break
        each[size] = _first(make(size)) / size
    return min(each, key=each.__getitem__)


def sizes_told(sizes: Mapping[str, int]) -> str:
    """Say which batches contestants were given."""
    return "batches of " + ", ".join(
        f"{size:,} ({LABELS.get(name, name)})" for name, size in sizes.items()
    )


def full_output(case: str, ours: str, found: Mapping[str, Found], n_drivers: int) -> Figure:
    """State full output apart: all triples of row, stored row and query, ours by the best other."""
    runs = {name: _writing(each) for name, each in found.items()}
    took = {name: each / n_drivers for name, each in seconds(runs, 3).items()}
    n_triples = sum(piece.places.size for piece in found[ours].triples())
    best = min(each for name, each in took.items() if name != ours)
    told = ", ".join(f"{LABELS.get(name, name)} {1e6 * each:,.0f}" for name, each in took.items())
    note = (
        f"{n_triples / n_drivers:,.0f} triples of row, stored row and query a row; us a row: {told}"
    )
    return Figure(case, best / took[ours], "reported", None, "x", note)


def _writing(found: Found) -> Run:
    return lambda: [None for _ in found.triples()]


def describing(each: Strategy, workload: Workload, drivers: Drivers) -> Run:
    """Return what counts the affected queries."""
    return lambda: each.find(drivers, workload.stored).descriptors()


def pairing(each: Strategy, workload: Workload, drivers: Drivers) -> Run:
    """Return what names the affected queries."""
    return lambda: each.find(drivers, workload.stored).pairs()


def sized(
    step: Callable[[Strategy, Workload, Drivers], Run],
    strategies: Mapping[str, Strategy],
    workload: Workload,
) -> dict[str, Make]:
    """Return what counts or names affected queries of batches of any size, by strategy."""
    return {
        name: lambda size, each=each: step(each, workload, workload.some(size))
        for name, each in strategies.items()
    }


def fitted(
    counts: Sequence[int], spent: Sequence[float], whole: int, what: str
) -> tuple[float, str]:
    """Return what a line through measurements says of the whole, and tell how it was fitted."""
    slope, base = np.polyfit(counts, spent, 1)
    measured = ", ".join(f"{n}: {value:.3f}" for n, value in zip(counts, spent, strict=True))
    expected = float(base + slope * whole)
    line = f"{base:.3f} s + {slope:.3f} s a {what}"
    return expected, f"k = {measured} s; fit {line}: {expected:,.1f} s at {whole:,}"
