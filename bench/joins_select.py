"""Select joins: by number of queries, of groups, of selected drivers, and of stored rows.

Figures 7 and 8 of Agarwal, Xie, Yang, Yu: Input-sensitive scalable continuous query processing.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from bench.drawing import Drawing, draw, verdict
from bench.joins_timing import (
    ALONE,
    LABELS,
    by_row,
    describing,
    full_output,
    pairing,
    sized,
    sizes_told,
    strategy,
)
from bench.joins_workloads import Workload, driver_ranges, with_tau
from bench.report import Figure, progress

TAU = 30
SIZES = (100, 1_000, 10_000, 100_000)
TAUS = (30, 100, 300, 1_000, 3_000, 10_000)
N_SHARED = 50_000
SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
JOINED = (1, 10, 100, 1_000, 10_000)
BATCH = 65_536
STEADY = 0.1  # seconds of one batch after the other, as an engine runs
MOST_PAIRS = 4_000_000  # that a batch names: they fit in memory that is used again
SHARING = {"select_first": 20.0}
"""What searches once for all rows of a key gains most by large batches, and may take its time."""
ONE_BY_ONE = 16  # rows of which all output is written
BASELINES = ("vanilla", ALONE, "select_first", "join_first")
OURS = ("ssi", "bitmaps")

Lines = dict[str, dict[float, float]]


def scaling(folder: Path) -> list[Figure]:
    """Figure 7a: from 100 to 100,000 queries in about 30 groups; a tenth selects each driver."""
    random = np.random.default_rng(17)
    counted: Lines = defaultdict(dict)
    named: Lines = defaultdict(dict)
    notes, figures = {False: "", True: ""}, list[Figure]()
    for n in SIZES:
        ranges = *driver_ranges(random, n, 0.1), *with_tau(random, n, TAU)
        workload = Workload.of(random, ranges, n_drivers=BATCH)
        for paired, lines in ((False, counted), (True, named)):
            found, notes[paired] = rates(workload, (*BASELINES, *OURS), paired=paired)
            for name, rate in found.items():
                lines[name][n] = rate
        told = ", ".join(f"{name} {line[n]:,.0f}" for name, line in counted.items())
        progress("select", f"{n:>7} queries in {workload.tau} groups: {told} rows/s counted")
        told = ", ".join(f"{name} {line[n]:,.0f}" for name, line in named.items())
        progress("select", f"{n:>7} queries: {told} rows/s named")
        if n == SIZES[-1]:
            figures = [_written(workload)]
    last, ours = SIZES[-1], LABELS["ssi"]
    fall = counted[ours][SIZES[0]] / counted[ours][last]
    by_count = counted[ours][last] / _best(counted, last)
    by_name = named[ours][last] / _best(named, last)
    draw(
        _scaled(counted, fall, f"{by_count:,.0f} times and names {by_name:.1f} times"),
        counted,
        folder,
    )
    note = "a tenth of the queries selects each row; 100 keys of 1,000 stored rows; {}"
    counted_note, named_note = note.format(notes[False]), note.format(notes[True])
    return [
        Figure("select joins, 100 by 100,000 queries", fall, "at most", 1.5, "x", counted_note),
        Figure("select joins, counted, SSI by best", by_count, "at least", 20, "x", counted_note),
        Figure("select joins, named, SSI by best", by_name, "at least", 5, "x", named_note),
        *figures,
    ]


def _scaled(counted: Lines, fall: float, leads: str) -> Drawing:
    """Return how Figure 7a is drawn: what the paper says of it, and what became of that."""
    first, last = SIZES[0], SIZES[-1]
    falls = {name: line[first] / line[last] for name, line in counted.items()}
    share = counted[LABELS["join_first"]][last] / counted[LABELS["ssi"]][last]
    held = {
        "SSI falls by less than 20 %": fall < 1.25,
        "Vanilla falls with the queries": falls[LABELS["vanilla"]] > last / first / 10,
        "SelectFirst does": falls[ALONE] > last / first / 10,
        "JoinFirst is below 5 % of SSI": share < 0.05,
    }
    return Drawing(
        "ssi-7a",
        "Figure 7a: rows a second whose affected queries are counted, by queries",
        "queries, in about 30 groups",
        "rows a second",
        "The paper: SSI falls by less than 20 % from 100 to 100,000 queries; Vanilla and "
        "SelectFirst fall linearly with the queries; JoinFirst is below 5 % of SSI at 100,000.",
        verdict(
            held,
            f"SSI falls {fall:.2f} times, Vanilla {falls[LABELS['vanilla']]:.0f}, SelectFirst "
            f"{falls[ALONE]:.0f}; JoinFirst is at {100 * share:.2g} % of SSI, which counts {leads} "
            "as fast as the best of the others at 100,000. Linear: within 10 times of it.",
        ),
    )


def _best(lines: Lines, n: int) -> float:
    return max(lines[LABELS.get(name, name)][n] for name in BASELINES)


def rates(
    workload: Workload, names: tuple[str, ...], *, paired: bool = False
) -> tuple[dict[str, float], str]:
    """Return of how many rows a second the queries are counted or named, and in what batches."""
    most, step = len(workload.drivers), pairing if paired else describing
    made = {name: strategy(name, workload) for name in names}
    if paired:
        some = workload.some(ONE_BY_ONE)
        n_pairs = made["ssi"].find(some, workload.stored).pairs().drivers.size
        most = min(most, MOST_PAIRS * len(some) // max(n_pairs, 1))
    makes = sized(step, made, workload)
    took, sizes = by_row(makes, most, least=STEADY, told=min, sharing=SHARING)
    return {LABELS.get(name, name): 1 / each for name, each in took.items()}, sizes_told(sizes)


def _written(workload: Workload) -> Figure:
    """State full output apart, at all queries."""
    drivers = workload.some(ONE_BY_ONE)
    found = {
        name: strategy(name, workload).find(drivers, workload.stored)
        for name in ("ssi", "select_first")
    }
    return full_output("select joins, full output, SSI by SelectFirst", "ssi", found, len(drivers))


def groups(folder: Path) -> list[Figure]:
    """Figure 7b: 100,000 queries in 30 to 10,000 groups; about 250 select each driver."""
    random = np.random.default_rng(18)
    lines: Lines = defaultdict(dict)
    for tau in TAUS:
        ranges = *driver_ranges(random, 100_000, 0.0025), *with_tau(random, 100_000, tau)
        workload = Workload.of(random, ranges, n_drivers=4_096)
        for name, rate in rates(workload, (*BASELINES, "ssi"))[0].items():
            lines[name][tau] = rate
        progress("groups", f"{tau} groups: {lines['SSI'][tau]:,.0f} rows/s by SSI")
    crossed = [tau for tau in TAUS if lines[ALONE][tau] > lines["SSI"][tau]]
    spread = {name: max(line.values()) / min(line.values()) for name, line in lines.items()}
    join_first = lines[LABELS["join_first"]]
    held = {
        "SelectFirst overtakes SSI between 1,000 and 3,000": bool(crossed)
        and 1_000 <= crossed[0] <= 3_000,
        "Vanilla and SelectFirst are flat": max(spread["Vanilla"], spread[ALONE]) < 2,
        "SSI falls with the groups": lines["SSI"][TAUS[-1]] < lines["SSI"][TAUS[0]] / 2,
        "JoinFirst is better with more groups": join_first[TAUS[-1]] > join_first[TAUS[0]],
    }
    where = f"SelectFirst overtakes at {crossed[0]:,}" if crossed else "SSI stays ahead"
    drawing = Drawing(
        "ssi-7b",
        "Figure 7b: rows a second whose affected queries are counted, by groups",
        "groups that 100,000 queries need; about 250 select a row",
        "rows a second",
        "The paper: SelectFirst overtakes SSI at about 2,000 groups; Vanilla and SelectFirst are "
        "flat, SSI falls with the groups; JoinFirst is better where queries are less clustered.",
        verdict(held, f"{where}; a segment skips the groups that none of its rows reaches."),
    )
    draw(drawing, lines, folder)
    ratio = lines["SSI"][TAUS[-1]] / lines[ALONE][TAUS[-1]]
    return [Figure("SSI by SelectFirst at 10,000 groups", ratio, "reported", None, "x", where)]


def shares(folder: Path) -> list[Figure]:
    """Figures 8a and 8b: by how many queries select a driver, and by how many rows it joins."""
    random = np.random.default_rng(19)
    by_share: Lines = defaultdict(dict)
    for share in SHARES:
        ranges = *driver_ranges(random, N_SHARED, share), *with_tau(random, N_SHARED, TAU)
        workload = Workload.of(random, ranges, n_drivers=16_384)
        for name, rate in rates(workload, (*BASELINES, "ssi"))[0].items():
            by_share[name][share * N_SHARED] = rate
        progress("shares", f"{share:.1%} select: {by_share['SSI'][share * N_SHARED]:,.0f} rows/s")
    by_rows: Lines = defaultdict(dict)
    ranges = *driver_ranges(random, N_SHARED, 0.01), *with_tau(random, N_SHARED, TAU)
    for n_joined in JOINED:
        n_segments = max(10, min(2_000, 100_000 // n_joined))
        workload = Workload.of(
            random,
            ranges,
            n_drivers=16_384,
            n_stored=n_segments * n_joined,
            n_segments=n_segments,
        )
        for name, rate in rates(workload, (*BASELINES, "ssi"))[0].items():
            by_rows[name][n_joined] = rate
        progress("shares", f"{n_joined} rows joined: {by_rows['SSI'][n_joined]:,.0f} rows/s")
    return [
        *_fallen("8a", "queries that select", "a row, of 50,000", by_share, ALONE, folder),
        *_fallen("8b", "stored rows joined", "with a row", by_rows, "JoinFirst", folder),
    ]


def _fallen(
    number: str, what: str, of_what: str, lines: Lines, other: str, folder: Path
) -> list[Figure]:
    """Draw Figure 8a or 8b: the paper says that SSI is flat, and that another falls linearly."""
    first, *_, last = lines["SSI"]
    falls = {name: line[first] / line[last] for name, line in lines.items()}
    rest = {name: fall for name, fall in falls.items() if name not in ("SSI", other)}
    held = {
        "SSI is flat (within 2 times)": falls["SSI"] < 2,
        f"{other} falls linearly (within 10 times)": falls[other] > last / first / 10,
    }
    drawing = Drawing(
        f"ssi-{number}",
        f"Figure {number}: rows a second whose affected queries are counted, by {what}",
        f"{what} {of_what}",
        "rows a second",
        f"The paper: {other} falls linearly, SSI is flat.",
        verdict(
            held,
            f"from {first:,.0f} to {last:,.0f} SSI falls {falls['SSI']:.1f} times, {other} "
            f"{falls[other]:.0f} times; "
            + ", ".join(f"{name} {fall:.1f}" for name, fall in rest.items())
            + ".",
        ),
    )
    draw(drawing, lines, folder)
    return [
        Figure(f"fall of {name} by {what}", falls[name], "reported", None, "x")
        for name in ("SSI", other)
    ]
