"""Select joins: by number of queries, of groups, of selected drivers, and of stored rows.

Figures 7 and 8 of Agarwal, Xie, Yang, Yu: Input-sensitive scalable continuous query processing.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from bench.drawing import Drawing, draw
from bench.joins_timing import ALONE, LABELS, describing, pairing, seconds, strategy
from bench.joins_workloads import Workload, driver_ranges, with_tau
from bench.report import Figure, progress

TAU = 30
SIZES = (100, 1_000, 10_000, 100_000)
BATCH = 65_536
STEADY = 0.2  # seconds of one batch after the other, as an engine runs
PAIRED = 256  # what they are given to name queries for: it fits in memory that is used again
# Those that take long for a driver are given fewer; they share nothing among drivers.
BASELINES = {"vanilla": 64, ALONE: 256, "join_first": 32}
OURS = ("ssi", "bitmaps", "select_first")

Lines = dict[str, dict[float, float]]


def scaling(folder: Path) -> list[Figure]:
    """Figure 7a: from 100 to 100,000 queries in about 30 groups; a tenth selects each driver."""
    random = np.random.default_rng(17)
    counted: Lines = defaultdict(dict)
    named: Lines = defaultdict(dict)
    figures: list[Figure] = []
    for n in SIZES:
        ranges = *driver_ranges(random, n, 0.1), *with_tau(random, n, TAU)
        workload = Workload.of(random, ranges, n_drivers=BATCH)
        for paired, lines in ((False, counted), (True, named)):
            for name, rate in rates(workload, paired=paired).items():
                lines[name][n] = rate
        told = ", ".join(f"{name} {line[n]:,.0f}" for name, line in counted.items())
        progress("select", f"{n:>7} queries in {workload.tau} groups: {told} rows/s")
        if n == SIZES[-1]:
            figures = _apart(workload)
    last, ours = SIZES[-1], LABELS["ssi"]
    fall = counted[ours][SIZES[0]] / counted[ours][last]
    by_count = counted[ours][last] / _best(counted, last)
    by_name = named[ours][last] / _best(named, last)
    drawing = Drawing(
        "ssi-7a",
        "Figure 7a: rows a second whose affected queries are counted, by queries",
        "queries, in about 30 groups",
        "rows a second",
        "The paper: SSI falls by less than 20 % from 100 to 100,000 queries; Vanilla and "
        "SelectFirst fall with the number of queries; JoinFirst is below 5 % of SSI at 100,000.",
        f"Here SSI falls {fall:.2f} times, and counts {by_count:,.0f} times and names "
        f"{by_name:.1f} times as fast as the best of the three at 100,000.",
    )
    draw(drawing, counted, folder)
    note = "a tenth of the queries selects each row; 100 keys of 1,000 stored rows"
    return [
        Figure("select joins, 100 by 100,000 queries", fall, "at most", 1.5, "x", note),
        Figure("select joins, counted, SSI by best", by_count, "at least", 20, "x", note),
        Figure("select joins, named, SSI by best", by_name, "at least", 5, "x", note),
        *figures,
    ]


def _best(lines: Lines, n: int) -> float:
    return max(lines[LABELS.get(name, name)][n] for name in BASELINES)


def rates(workload: Workload, *, paired: bool) -> dict[str, float]:
    """Return how many rows a second each strategy counts or names the queries of."""
    sizes = BASELINES | dict.fromkeys(OURS, PAIRED if paired else BATCH)
    sizes |= {} if paired else {"select_first": 4_096}
    step = pairing if paired else describing
    drivers = {name: workload.some(size) for name, size in sizes.items()}
    runs = {name: step(strategy(name, workload), workload, drivers[name]) for name in sizes}
    return {
        LABELS.get(name, name): len(drivers[name]) / each
        for name, each in seconds(runs, least=STEADY).items()
    }


def _apart(workload: Workload) -> list[Figure]:
    """Say apart what identification and full output take, with SSI, for a row."""
    drivers = workload.some(16)
    found = strategy("ssi", workload).find(drivers, workload.stored)
    n_triples = sum(piece.places.size for piece in found.triples())
    n_pairs = found.pairs().drivers.size
    took = seconds(
        {
            "runs": found.runs,
            "triples": lambda: [None for _ in found.triples()],
        }
    )
    return [
        Figure(
            f"full output as {name}, by row",
            each / len(drivers) * 1e6,
            "reported",
            None,
            "us",
            f"{n_pairs / len(drivers):,.0f} pairs, {n_triples / len(drivers):,.0f} triples a row",
        )
        for name, each in took.items()
    ]


def groups(folder: Path) -> list[Figure]:
    """Figure 7b: 100,000 queries in 30 to 10,000 groups; about 250 select each driver."""
    random = np.random.default_rng(18)
    lines: Lines = defaultdict(dict)
    for tau in (30, 100, 300, 1_000, 3_000, 10_000):
        ranges = *driver_ranges(random, 100_000, 0.0025), *with_tau(random, 100_000, tau)
        workload = Workload.of(random, ranges, n_drivers=4_096)
        for name, rate in counting(workload).items():
            lines[name][tau] = rate
        progress("groups", f"{tau} groups: {lines['SSI'][tau]:,.0f} rows/s by SSI")
    crossed = [tau for tau in lines["SSI"] if lines[ALONE][tau] > lines["SSI"][tau]]
    held = f"SelectFirst overtakes at {crossed[0]:,.0f}" if crossed else "SSI stays ahead"
    drawing = Drawing(
        "ssi-7b",
        "Figure 7b: rows a second whose affected queries are counted, by groups",
        "groups that 100,000 queries need; about 250 select a row",
        "rows a second",
        "The paper: SelectFirst overtakes SSI at about 2,000 groups.",
        f"Here {held}: a segment skips the groups that none of its rows reaches.",
    )
    draw(drawing, lines, folder)
    ratio = lines["SSI"][10_000] / lines[ALONE][10_000]
    return [Figure("SSI by SelectFirst at 10,000 groups", ratio, "reported", None, "x", held)]


def counting(workload: Workload) -> dict[str, float]:
    """Return how many rows a second each strategy of the figures counts the queries of."""
    sizes = BASELINES | {"ssi": len(workload.drivers)}
    drivers = {name: workload.some(size) for name, size in sizes.items()}
    runs = {name: describing(strategy(name, workload), workload, drivers[name]) for name in sizes}
    took = seconds(runs, 3)
    return {LABELS.get(name, name): len(drivers[name]) / took[name] for name in sizes}


def shares(folder: Path) -> list[Figure]:
    """Figures 8a and 8b: by how many queries select a driver, and by how many rows it joins."""
    random = np.random.default_rng(19)
    by_share: Lines = defaultdict(dict)
    n = 50_000
    for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3):
        ranges = *driver_ranges(random, n, share), *with_tau(random, n, TAU)
        for name, rate in counting(Workload.of(random, ranges, n_drivers=16_384)).items():
            by_share[name][share * n] = rate
    by_rows: Lines = defaultdict(dict)
    ranges = *driver_ranges(random, n, 0.01), *with_tau(random, n, TAU)
    for n_joined in (1, 10, 100, 1_000, 10_000):
        n_segments = max(10, min(2_000, 100_000 // n_joined))
        workload = Workload.of(
            random,
            ranges,
            n_drivers=16_384,
            n_stored=n_segments * n_joined,
            n_segments=n_segments,
        )
        for name, rate in counting(workload).items():
            by_rows[name][n_joined] = rate
    falls = {
        "SSI by queries that select": by_share["SSI"][0.001 * n] / by_share["SSI"][0.3 * n],
        "SelectFirst by queries that select": by_share[ALONE][0.001 * n] / by_share[ALONE][0.3 * n],
        "SSI by rows joined": by_rows["SSI"][1] / by_rows["SSI"][10_000],
        "JoinFirst by rows joined": by_rows["JoinFirst"][1] / by_rows["JoinFirst"][10_000],
    }
    claim = "The paper: {} falls in proportion, SSI is flat."
    told = f"Here SSI falls {falls['SSI by queries that select']:.1f} times, SelectFirst "
    told += f"{falls['SelectFirst by queries that select']:.0f} times."
    across, up = "queries that select a row, of 50,000", "rows a second"
    title = "Figure 8a: rows a second whose affected queries are counted, by queries that select"
    draw(Drawing("ssi-8a", title, across, up, claim.format("SelectFirst"), told), by_share, folder)
    told = f"Here SSI falls {falls['SSI by rows joined']:.1f} times (few rows of a key share work "
    told += f"with few keys), JoinFirst {falls['JoinFirst by rows joined']:.0f} times."
    title = "Figure 8b: rows a second whose affected queries are counted, by rows joined"
    across = "stored rows that a row joins"
    draw(Drawing("ssi-8b", title, across, up, claim.format("JoinFirst"), told), by_rows, folder)
    return [Figure(f"fall of {name}", fall, "reported", None, "x") for name, fall in falls.items()]
