"""Band joins: affected queries a second by groups, against queries, rows or merges one by one.

Figures 10(a) and 10(b) of Agarwal, Xie, Yang, Yu: Input-sensitive scalable continuous query
processing. Stored values are normal about the middle of a line, drivers uniform on it; bands have
uniform middles. All numbers are thousandths, so they are integers. What is measured is
identification; full output, with a run of rows for each pair, is stated apart.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np

from bench.drawing import Drawing, draw, verdict
from bench.joins_timing import Make, Run, by_row, seconds, sizes_told
from bench.report import Figure, progress
from millrace.kernels.arrays import Ints
from millrace.sharing import band_indexes
from millrace.sharing.band_join import BandJoin
from millrace.sharing.band_table import BandTable
from millrace.sharing.drivers import Drivers
from millrace.sharing.hot_bands import HotBandJoin
from millrace.sharing.hotspots import Hotspots
from millrace.sharing.partition import canonical
from millrace.sharing.queries import BandQueries
from millrace.sharing.stored import Stored

LINE = 10_000_000
N_STORED = 100_000
BATCH = 4_096
SIZES = (50, 500, 5_000, 50_000, 500_000)
LENGTH = 450_000
LENGTHS = (1_000_000, 300_000, 100_000, 30_000, 10_000, 3_000)
N_QUERIES = 100_000

WAYS = {
    "SSI": "ssi",
    "Hotspot": "hotspot",
    "MergeJoin": "merge_join",
    "QOuter": "q_outer",
    "DOuter": "d_outer",
}
FIT_ROWS = (125, 250, 500, 1_000)
STEEP = 2  # times: a line falls from one size to the next


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Queries, and what they are asked of."""

    queries: BandQueries
    drivers: Drivers
    stored: Stored

    @classmethod
    def of(cls, random: np.random.Generator, n_queries: int, length: int) -> Self:
        """Make bands of about a length, and rows."""
        middle = random.integers(0, LINE, n_queries)
        half = np.abs(random.normal(length / 2, length / 10, n_queries)).astype(np.int64)
        values = np.clip(random.normal(LINE / 2, LINE / 10, N_STORED), 0, LINE).astype(np.int64)
        return cls(
            BandQueries(middle - half, middle + half),
            drivers_of(np.sort(random.integers(0, LINE, BATCH))),
            stored_of(values),
        )

    @property
    def tau(self) -> int:
        """How many groups the bands need."""
        return canonical(self.queries.low, self.queries.high).sizes.size

    def some(self, n_drivers: int) -> Drivers:
        """Return some drivers, from the whole line."""
        n_drivers = min(max(n_drivers, 1), BATCH)
        return self.drivers.take(np.linspace(0, BATCH - 1, n_drivers + 2).astype(np.int64)[1:-1])

    def join(self, way: str) -> BandJoin | HotBandJoin:
        """Return a strategy with all queries in its index."""
        table = BandTable(doubles=False)
        made: BandJoin | HotBandJoin
        if way == "hotspot":
            made = HotBandJoin(Hotspots(0.001), table)
        else:
            made = BandJoin(getattr(band_indexes, way), table)
        made.add(np.arange(len(self.queries)), self.queries)
        made.rebuild()
        return made


def drivers_of(codes: Ints) -> Drivers:
    """Return drivers of one segment."""
    nothing = np.zeros(codes.size, np.int64)
    return Drivers(nothing, codes, nothing)


def stored_of(codes: Ints) -> Stored:
    """Return stored rows of one segment."""
    nothing = np.zeros(codes.size, np.int64)
    return Stored.build(nothing, codes, nothing, n_segments=1)


def measured(bands: Bands, ways: tuple[str, ...]) -> tuple[dict[str, float], str]:
    """Return what a driver takes with each of some ways, in seconds, and in what batches."""
    took, sizes = by_row({name: _counting(bands, bands.join(WAYS[name])) for name in ways}, BATCH)
    return took, sizes_told(sizes)


def _counting(bands: Bands, join: BandJoin | HotBandJoin) -> Make:
    def of_size(size: int) -> Run:
        drivers = bands.some(size)
        return lambda: join.find(drivers, bands.stored).descriptors()

    return of_size


def extrapolated(bands: Bands) -> tuple[float, str]:
    """Return what DOuter takes for a driver: it is linear in stored rows, so few are measured."""
    join, drivers = bands.join("d_outer"), bands.some(4)
    took = []
    for n_rows in FIT_ROWS:
        stored = stored_of(bands.stored.codes[:: N_STORED // n_rows])
        run = {"": lambda stored=stored: join.find(drivers, stored).descriptors()}
        took.append(seconds(run, 3)[""] / len(drivers))
    slope, start = np.polyfit(FIT_ROWS, took, 1)
    told = ", ".join(f"{n}: {1e6 * each:.0f}" for n, each in zip(FIT_ROWS, took, strict=True))
    line = f"fit {1e6 * start:.0f} us + {1e9 * slope:.0f} ns each"
    return float(start + slope * N_STORED), f"DOuter of stored rows {told} us a row; {line}"


def sizes(folder: Path) -> list[Figure]:
    """Figure 10(a): 50 to 500,000 queries."""
    random = np.random.default_rng(10)
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    figures: list[Figure] = []
    taus = []
    for n_queries in SIZES:
        bands = Bands.of(random, n_queries, LENGTH)
        taus.append(bands.tau)
        took, batches = measured(bands, ("SSI", "Hotspot", "MergeJoin", "QOuter"))
        took["DOuter"], fit = extrapolated(bands)
        for name, each in took.items():
            lines[name][n_queries] = 1 / each
        told = ", ".join(f"{name} {1e6 * each:.1f}" for name, each in took.items())
        progress("bands", f"{n_queries} queries, {bands.tau} groups: {told} us/row; {fit}")
        if n_queries == SIZES[-1]:
            figures = [*_ratios(took, bands.tau, f"{batches}; {fit}"), *_whole(bands)]
    draw(_sized(lines, taus), lines, folder)
    return figures


def _sized(lines: dict[str, dict[float, float]], taus: list[int]) -> Drawing:
    """Return how Figure 10(a) is drawn."""
    rivals = ("MergeJoin", "QOuter", "DOuter")
    leads = [lines["SSI"][n] / max(lines[each][n] for each in rivals) for n in SIZES]
    first, *_, last = SIZES
    fall = lines["SSI"][first] / lines["SSI"][last]
    falls_at = [
        two
        for one, two in pairwise(SIZES)
        if lines["MergeJoin"][one] > STEEP * lines["MergeJoin"][two]
    ]
    deep = lines["DOuter"][first] / lines["DOuter"][last]
    held = {
        "SSI leads by 10 times or more throughout": min(leads) >= 10,
        "it falls to a third at most (3.3 times)": fall <= 3.3,
        "QOuter is below 100 a second beyond 1,000": lines["QOuter"][5_000] < 100,
        "the merge join falls steeply from 50,000 on": falls_at[:1] == [50_000],
        "DOuter is flat (within 3 times)": deep < 3,
        "DOuter is low (below SSI by 100 times)": all(
            100 * lines["DOuter"][n] < lines["SSI"][n] for n in SIZES
        ),
    }
    return Drawing(
        "ssi-10a",
        "Figure 10(a): rows a second whose affected queries are counted, band joins",
        "queries",
        "rows a second",
        "The paper: SSI is best by orders of magnitude and falls to a third; QOuter is below 100 a "
        "second beyond 1,000 queries, the merge join falls from 50,000 on, DOuter is flat and low.",
        verdict(
            held,
            f"SSI leads by {min(leads):.0f} times or more, and by {leads[-1]:.0f} at {last:,}; it "
            f"falls {fall:.1f} times, with {taus[0]} to {taus[-1]} groups; QOuter counts "
            f"{lines['QOuter'][5_000]:,.0f} a second at 5,000; the merge join falls "
            f"{STEEP} times first at {falls_at[0] if falls_at else 0:,} queries; DOuter, "
            f"extrapolated from 125 to 1,000 stored rows, falls {deep:.0f} times.",
        ),
    )


def _ratios(took: dict[str, float], tau: int, how: str) -> list[Figure]:
    told = ", ".join(f"{name} {1e6 * each:.2f}" for name, each in took.items())
    note = f"{SIZES[-1]:,} queries in {tau} groups, {N_STORED:,} rows; us a row: {told}; {how}"
    return [
        Figure(
            "band joins: SSI / merge join",
            took["MergeJoin"] / took["SSI"],
            "at least",
            30,
            "x",
            note,
        ),
        Figure(
            "band joins: SSI / QOuter", took["QOuter"] / took["SSI"], "at least", 1000, "x", note
        ),
    ]


def _whole(bands: Bands) -> list[Figure]:
    """State full output apart: pairs with their runs."""
    drivers = bands.some(8)
    joins = {name: bands.join(WAYS[name]) for name in ("SSI", "MergeJoin")}
    took = seconds(
        {
            name: lambda each=each: each.find(drivers, bands.stored).runs()
            for name, each in joins.items()
        }
    )
    n_pairs = joins["SSI"].find(drivers, bands.stored).pairs().drivers.size
    note = (
        f"pairs with their runs, {n_pairs / len(drivers):,.0f} a row: "
        f"SSI {1e3 * took['SSI'] / len(drivers):.1f} ms, "
        f"merge join {1e3 * took['MergeJoin'] / len(drivers):.1f} ms a row"
    )
    ratio = took["MergeJoin"] / took["SSI"]
    return [Figure("band joins: SSI / merge join, full output", ratio, "reported", None, "x", note)]


def groups(folder: Path) -> list[Figure]:
    """Figure 10(b): 100,000 queries in more and more groups."""
    random = np.random.default_rng(11)
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    for length in LENGTHS:
        bands = Bands.of(random, N_QUERIES, length)
        tau = bands.tau
        took, _ = measured(bands, ("SSI", "Hotspot", "MergeJoin"))
        for name, each in took.items():
            lines[name][tau] = 1e6 * each
        told = ", ".join(f"{name} {1e6 * each:.1f}" for name, each in took.items())
        progress("bands", f"{tau} groups: {told} us/row")
    few, *_, many = lines["SSI"]
    growth = (lines["SSI"][many] / lines["SSI"][few]) / (many / few)
    lead = lines["MergeJoin"][many] / lines["SSI"][many]
    spread = max(lines["MergeJoin"].values()) / min(lines["MergeJoin"].values())
    held = {
        "SSI is linear in the groups (0.33 to 3 times)": 1 / 3 <= growth <= 3,
        "it is still ahead at 5,000 or more": lead > 1 and many >= 5_000,
        "the merge join does not depend on groups (within 2 times)": spread < 2,
    }
    drawing = Drawing(
        "ssi-10b",
        f"Figure 10(b): what a row takes, {N_QUERIES:,} band joins in some number of groups",
        "groups",
        "us a row",
        "The paper: SSI is linear in the number of groups and still ahead at 5,000; the merge join "
        "does not depend on it.",
        verdict(
            held,
            f"SSI grows {growth:.2f} times as fast as the groups; at {many:,.0f} groups it is "
            f"{lead:.2f} times as fast as the merge join, which varies {spread:.1f} times.",
        ),
    )
    draw(drawing, lines, folder)
    note = f"{many:,.0f} groups of {N_QUERIES:,} bands"
    return [Figure("band joins: SSI / merge join, many groups", lead, "reported", None, "x", note)]
