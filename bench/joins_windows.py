"""Window joins: 100,000 queries, each with a window of its own, by how far windows reach back.

The paper (Agarwal, Xie, Yang, Yu: Input-sensitive scalable continuous query processing, 3.3)
gives no figures of these; these are ours. What is measured is naming the affected queries, with the
links of all that is stored made anew for each batch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.drawing import Drawing, draw
from bench.joins_timing import Run, seconds
from bench.joins_workloads import LINE, about, driver_ranges
from bench.report import Figure, progress
from millrace.sharing.drivers import Drivers
from millrace.sharing.queries import WindowQueries
from millrace.sharing.stored import Stored
from millrace.sharing.window.strategies import STRATEGIES

N_QUERIES = 100_000
N_STORED = 100_000
BATCH = 256
FEW = 32
WIDEST = (100, 1_000, 3_000, 10_000, 30_000, 100_000)
SMALL, LARGE = WIDEST[1], WIDEST[-1]
SEGMENTS = (1_000, 300, 100, 30, 10)

LABELS = {
    "join_first": "JoinFirst",
    "select_first": "SelectFirst",
    "ssi": "SSI",
    "dynamic": "Dynamic",
}


def queries_of(random: np.random.Generator, widest: int, *, gap: bool) -> WindowQueries:
    """Return queries whose stored ranges are long enough for some 30 groups, and their windows.

    With a gap stored rows lie beyond nearly all of the ranges.
    """
    middle = random.random(N_QUERIES) * LINE * (0.88 if gap else 1.0)
    ranges = about(middle, random.normal(40_000, 2_000, N_QUERIES))
    return WindowQueries(
        *driver_ranges(random, N_QUERIES, 0.1), *ranges, random.integers(0, widest + 1, N_QUERIES)
    )


def rows_of(random: np.random.Generator, n_segments: int, *, gap: bool) -> tuple[Drivers, Stored]:
    """Return drivers that come after the stored rows, of which one came at each instant."""
    codes = random.integers(int(0.9 * LINE) if gap else 0, LINE, N_STORED)
    segments = random.integers(0, n_segments, N_STORED)
    stored = Stored.build(segments, codes, np.arange(N_STORED), n_segments=n_segments)
    keys = np.sort(random.integers(0, n_segments, BATCH))
    times = N_STORED + random.integers(0, 100, BATCH)
    return Drivers(keys, random.integers(0, LINE, BATCH), times), stored


def measured(queries: WindowQueries, drivers: Drivers, stored: Stored) -> dict[str, float]:
    """Return what a driver takes with each strategy, in seconds."""
    runs: dict[str, Run] = {}
    numbers: dict[str, int] = {}
    for name, make in STRATEGIES.items():
        strategy = make()
        strategy.add(np.arange(N_QUERIES), queries)
        rows = np.linspace(0, len(drivers) - 1, FEW).astype(np.int64)
        some = drivers.take(rows) if name == "join_first" else drivers
        runs[name] = lambda each=strategy, some=some: each.find(some, replace(stored)).pairs()
        numbers[name] = len(some)
    return {name: each / numbers[name] for name, each in seconds(runs).items()}


def _told(took: dict[str, float]) -> str:
    return ", ".join(f"{LABELS[name]} {1e6 * each:.1f}" for name, each in took.items())


def windows(folder: Path) -> list[Figure]:
    """By the length of windows; 1,000 rows of each key are stored."""
    random = np.random.default_rng(12)
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    figures = []
    for widest in WIDEST:
        queries = queries_of(random, widest, gap=False)
        took = measured(queries, *rows_of(random, 100, gap=False))
        for name, each in took.items():
            lines[LABELS[name]][widest] = 1e6 * each
        progress("windows", f"up to {widest}: {_told(took)} us/row")
        ratio = min(took["join_first"], took["select_first"]) / took["dynamic"]
        note = f"{N_QUERIES:,} queries, windows up to {widest:,} rows; us a row: {_told(took)}"
        if widest == LARGE:
            case = "window joins: Dynamic / best baseline, large windows"
            figures.append(Figure(case, ratio, "at least", 2, "x", note))
        if widest == SMALL:
            case = "window joins: Dynamic / best baseline, small windows"
            figures.append(Figure(case, ratio, "at least", 0.95, "x", note))
    drawing = Drawing(
        "ssi-windows",
        f"Window joins, {N_QUERIES:,} queries: what a row takes by the longest window",
        "rows that the longest window reaches back, of all keys together",
        "us a row",
        "The paper has no figure; long windows should cost JoinFirst much and skylines little.",
        f"Here JoinFirst grows {lines['JoinFirst'][LARGE] / lines['JoinFirst'][WIDEST[0]]:.0f} "
        f"times, SSI {lines['SSI'][LARGE] / lines['SSI'][WIDEST[0]]:.1f} times.",
    )
    draw(drawing, lines, folder)
    return figures


def gaps(folder: Path) -> list[Figure]:
    """By the number of rows stored for a key, most of which lie beyond the queries' ranges."""
    random = np.random.default_rng(13)
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    queries = queries_of(random, LARGE, gap=True)
    for n_segments in SEGMENTS:
        took = measured(queries, *rows_of(random, n_segments, gap=True))
        for name, each in took.items():
            lines[LABELS[name]][N_STORED // n_segments] = 1e6 * each
        progress("windows", f"{N_STORED // n_segments} rows a key, gap: {_told(took)} us/row")
    best = {n: min(lines[o][n] for o in ("JoinFirst", "SelectFirst")) for n in lines["SSI"]}
    lead = min(best[n] / lines["SSI"][n] for n in best)
    drawing = Drawing(
        "ssi-windows-gap",
        f"Window joins, {N_QUERIES:,} queries, stored rows beyond nearly all ranges",
        "stored rows of a key",
        "us a row",
        "The paper has no figure; it expects SSI not to depend on the rows that join.",
        f"Here SSI is at least {lead:.1f} times as fast as the best of the others.",
    )
    draw(drawing, lines, folder)
    note = "stored rows beyond nearly all ranges, 100 to 10,000 of a key"
    return [Figure("window joins: SSI / best baseline, gap", lead, "reported", None, "x", note)]
