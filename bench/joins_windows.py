"""Window joins: 100,000 queries, each with a window of its own, by how far windows reach back.

The paper (Agarwal, Xie, Yang, Yu: Input-sensitive scalable continuous query processing, 3.3)
gives no figures of these; these are ours. What is measured is naming the affected queries, with the
links of all that is stored made anew for each batch; full output is stated apart.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.drawing import Drawing, draw, verdict
from bench.joins_timing import CLOSE_ROUNDS, Make, Run, by_row, full_output, sizes_told
from bench.joins_workloads import LINE, about, driver_ranges
from bench.report import Figure, progress
from millrace.sharing.drivers import Drivers
from millrace.sharing.queries import WindowQueries
from millrace.sharing.stored import Stored
from millrace.sharing.window.dynamic import WindowDynamic
from millrace.sharing.window.join import WindowJoin
from millrace.sharing.window.strategies import STRATEGIES

N_QUERIES = 100_000
N_STORED = 100_000
BATCH = 4_096  # at most; each strategy is given batches of the size that suits it
WIDEST = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
*SMALL, LARGE = WIDEST
WRITTEN = {WIDEST[0]: 512, LARGE: 8}
"""Of how many rows all output is written, by how far windows reach: it is a million or so."""
BASELINES = ("join_first", "select_first")
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


def strategies_of(queries: WindowQueries) -> dict[str, WindowJoin | WindowDynamic]:
    """Return every strategy with all queries in its index."""
    made = {name: make() for name, make in STRATEGIES.items()}
    for each in made.values():
        each.add(np.arange(N_QUERIES), queries)
    return made


def measured(
    made: dict[str, WindowJoin | WindowDynamic], drivers: Drivers, stored: Stored
) -> tuple[dict[str, float], dict[str, int]]:
    """Return what a driver takes with each strategy, in seconds, and the batches it was given."""

    def naming(each: WindowJoin | WindowDynamic) -> Make:
        def of_size(size: int) -> Run:
            some = some_of(drivers, size)
            return lambda: each.find(some, replace(stored)).pairs()

        return of_size

    makes = {name: naming(each) for name, each in made.items()}
    return by_row(makes, BATCH, rounds=CLOSE_ROUNDS, told=min)


def some_of(drivers: Drivers, size: int) -> Drivers:
    """Return so many of the drivers, of all keys."""
    return drivers.take(np.linspace(0, len(drivers) - 1, size).astype(np.int64))


def _told(took: dict[str, float]) -> str:
    return ", ".join(f"{LABELS[name]} {1e6 * each:.1f}" for name, each in took.items())


def windows(folder: Path) -> list[Figure]:
    """By the length of windows; 1,000 rows of each key are stored."""
    random = np.random.default_rng(12)
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    ratios: dict[int, float] = {}
    written, notes = [], {}
    for widest in WIDEST:
        made = strategies_of(queries_of(random, widest, gap=False))
        drivers, stored = rows_of(random, 100, gap=False)
        took, sizes = measured(made, drivers, stored)
        for name, each in took.items():
            lines[LABELS[name]][widest] = 1e6 * each
        progress("windows", f"up to {widest}: {_told(took)} us/row")
        ratios[widest] = min(took[name] for name in BASELINES) / took["dynamic"]
        notes[widest] = f"us a row: {_told(took)}; {sizes_told(sizes)}"
        if widest in WRITTEN:
            some = some_of(drivers, WRITTEN[widest])
            found = {name: made[name].find(some, stored) for name in (*BASELINES, "dynamic")}
            case = f"window joins, full output, windows up to {widest:,}: best / Dynamic"
            written.append(full_output(case, "dynamic", found, len(some)))
    worst = min(SMALL, key=ratios.__getitem__)
    said = ", ".join(f"up to {widest:,}: {ratios[widest]:.2f}" for widest in SMALL)
    draw(_lengthened(lines, ratios), lines, folder)
    return [
        Figure(
            "window joins: Dynamic / best baseline, large windows",
            ratios[LARGE],
            "at least",
            2,
            "x",
            f"{N_QUERIES:,} queries, windows up to {LARGE:,} rows; {notes[LARGE]}",
        ),
        Figure(
            "window joins: Dynamic / best baseline, small windows",
            ratios[worst],
            "at least",
            0.95,
            "x",
            f"the least of windows {said}; there {notes[worst]}",
        ),
        *written,
    ]


def _lengthened(lines: dict[str, dict[float, float]], ratios: dict[int, float]) -> Drawing:
    """Return how the figure by the length of windows is drawn."""
    growth = {name: line[LARGE] / line[WIDEST[0]] for name, line in lines.items()}
    held = {
        "long windows cost JoinFirst 10 times or more": growth["JoinFirst"] >= 10,
        "they cost SSI less than JoinFirst": growth["SSI"] < growth["JoinFirst"],
        "Dynamic is at least 0.95 of the best baseline throughout": min(ratios.values()) >= 0.95,
    }
    return Drawing(
        "ssi-windows",
        f"Window joins, {N_QUERIES:,} queries: what a row takes by the longest window",
        "rows that the longest window reaches back, of all keys together",
        "us a row",
        "The paper has no figure of it; by its costs (Theorem 4) long windows cost JoinFirst much "
        "and skylines little.",
        verdict(
            held,
            f"from {WIDEST[0]} to {LARGE:,} JoinFirst grows {growth['JoinFirst']:.0f} times, "
            f"SSI {growth['SSI']:.1f} times (there are more affected queries to name, too).",
        ),
    )


def gaps(folder: Path) -> list[Figure]:
    """By the number of rows stored for a key, most of which lie beyond the queries' ranges."""
    random = np.random.default_rng(13)
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    made = strategies_of(queries_of(random, LARGE, gap=True))
    for n_segments in SEGMENTS:
        took, _ = measured(made, *rows_of(random, n_segments, gap=True))
        for name, each in took.items():
            lines[LABELS[name]][N_STORED // n_segments] = 1e6 * each
        progress("windows", f"{N_STORED // n_segments} rows a key, gap: {_told(took)} us/row")
    best = {n: min(lines[o][n] for o in ("JoinFirst", "SelectFirst")) for n in lines["SSI"]}
    lead = min(best[n] / lines["SSI"][n] for n in best)
    fewest, *_, most = lines["SSI"]
    grown = {name: line[most] / line[fewest] for name, line in lines.items()}
    drawing = Drawing(
        "ssi-windows-gap",
        f"Window joins, {N_QUERIES:,} queries, stored rows beyond nearly all ranges",
        "stored rows of a key",
        "us a row",
        "The paper has no figure of it; by its costs (Theorem 4) SSI depends on skylines, not on "
        "the rows that join.",
        verdict(
            {
                "SSI is the fastest throughout": lead >= 1,
                "it depends on the rows less than JoinFirst": grown["SSI"] < grown["JoinFirst"],
            },
            f"SSI is at least {lead:.1f} times as fast as the best of the others; it grows "
            f"{grown['SSI']:.1f} times, JoinFirst {grown['JoinFirst']:.0f} times.",
        ),
    )
    draw(drawing, lines, folder)
    note = "stored rows beyond nearly all ranges, 100 to 10,000 of a key"
    return [Figure("window joins: SSI / best baseline, gap", lead, "reported", None, "x", note)]
