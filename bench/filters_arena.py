"""Where the contestants of the filter benchmark meet: one Spark, some rounds, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

from bench.filters_rivals import FILES_AN_EPOCH, Input
from bench.filters_workloads import Counts, write_input
from bench.report import Figure

SLOW_ROUNDS = 2
"""A contestant that is slower by an order of magnitude is run this often: its share is small."""

Rates = dict[str, list[float]]


@dataclass(slots=True)
class Arena:
    """What a case needs to run, and the points it finds for the plot."""

    spark: SparkSession
    scratch: Path
    rounds: int
    scale: float
    console: Console = field(default_factory=lambda: Console(stderr=True))
    points: dict[str, dict[int, float]] = field(default_factory=dict)

    def n(self, n_queries: int) -> int:
        """Return how many queries to take for so many."""
        return max(10, int(n_queries * self.scale))

    def input(self, name: str, columns: str, rows: pa.Table, *, epochs: int) -> Input:
        """Write files for so many epochs; each has the rows of the table twice."""
        directory = self.scratch / name
        write_input(directory, rows, files=FILES_AN_EPOCH * epochs)
        return Input(directory, columns, FILES_AN_EPOCH * rows.num_rows)

    def say(self, case: str, text: str) -> None:
        """Say how far a case is."""
        self.console.print(f"[dim]{case:>9}  {text}")

    def point(self, contestant: str, n_queries: int, rate: float) -> None:
        """Keep a point for the plot."""
        self.points.setdefault(contestant, {})[n_queries] = rate

    def compete(
        self,
        case: str,
        contestants: Mapping[str, Callable[[], float]],
        slow: Mapping[str, Callable[[], float]] | None = None,
    ) -> Rates:
        """Let all run in turn, round after round; a round before the first warms the JVM up."""
        rates: Rates = {name: [] for name in (*contestants, *(slow or {}))}
        for round_ in range(self.rounds + 1):
            turn = {name: run() for name, run in contestants.items()}
            if slow and 0 < round_ <= SLOW_ROUNDS:
                turn |= {name: run() for name, run in slow.items()}
            shown = ", ".join(f"{name} {in_words(rate)}" for name, rate in turn.items())
            self.say(case, f"round {round_ or 'warm-up'}: {shown} rows/s")
            if round_:
                for name, rate in turn.items():
                    rates[name].append(rate)
        return rates


def ratio(rates: Rates, ours: str, theirs: str) -> float:
    """Return the median over rounds of how many times as fast one is as the other."""
    if len(rates[ours]) == len(rates[theirs]):
        return median(a / b for a, b in zip(rates[ours], rates[theirs], strict=True))
    return median(rates[ours]) / median(rates[theirs])


def compared(rates: Rates, ours: str, theirs: str) -> str:
    """Return both medians in words."""
    mine, others = in_words(median(rates[ours])), in_words(median(rates[theirs]))
    return f"{mine} against {others} rows/s"


def checked(figure: Figure, mine: Counts, truth: Counts) -> Figure:
    """Keep a figure only if the counts behind it are right; a wrong answer has no speed."""
    if np.array_equal(mine, truth):
        return replace(figure, note=f"{figure.note}; counts equal".lstrip("; "))
    n_wrong = int(np.count_nonzero(mine != truth))
    note = f"COUNTS OF {n_wrong:,} QUERIES DIFFER; measured {figure.value:.4g}, {figure.note}"
    if figure.bound == "at most":
        return replace(figure, value=1e9, note=note)
    required = 1.0 if figure.required is None else figure.required
    return replace(figure, value=0.0, bound="at least", required=required, note=note)


def in_words(number: float) -> str:
    """Return a number with three digits: 12.3k, 4.56M.

    >>> in_words(12_345), in_words(4_560_000), in_words(87.2)
    ('12.3k', '4.56M', '87.2')
    """
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"
