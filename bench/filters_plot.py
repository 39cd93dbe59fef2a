"""The plot of the filter benchmark: rows a second by number of queries, every contestant a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.report import machine

Points = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """How a contestant is shown."""

    label: str
    colour: str
    style: str = "-"
    marker: str = "o"
    width: float = 1.6


LINES = {
    "I": Line("I: identity, no query", "0.45", "--", "", 1.4),
    "alerts": Line("millrace: alerts,\none match a row", "tab:blue", width=2.6),
    "cacq": Line("millrace: CACQ,\na quarter of pairs match", "tab:green", width=2.6),
    "N": Line("N: NumPy loop in mapInArrow", "tab:orange"),
    "J": Line("J: range join in Spark SQL", "tab:red"),
    "Q": Line("Q: a StreamingQuery each", "tab:purple"),
}


def draw(points: Points, folder: Path) -> Path:
    """Draw the plot, and keep the points beside it; return where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = {name: dict(sorted(each.items())) for name, each in points.items()}
    spelt = json.dumps({"machine": machine(), "points": shown}, indent=2)
    (folder / "filters-points.json").write_text(spelt + "\n")
    figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
    labels = [_line(axes, name, each) for name, each in shown.items() if name in LINES]
    _part(axes, labels)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(7, 3e7)
    axes.set_xticks([10**power for power in range(1, 7)])
    axes.set_xticklabels(["10", "100", "1,000", "10,000", "100,000", "1,000,000"])
    ticks = [10**power for power in range(2, 8)]
    axes.set_yticks(ticks, ["100", "1k", "10k", "100k", "1M", "10M"])
    axes.set_ylim(*_limits(shown))
    axes.minorticks_off()
    axes.set_xlabel("standing queries")
    axes.set_ylabel("rows a second, through Spark, all queries answered")
    axes.set_title(_title(shown), loc="left")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.text(0.99, 0.005, machine(), ha="right", va="bottom", fontsize=7, color="0.5")
    path = folder / "filters.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _title(points: Points) -> str:
    """Say what is seen: how much slower the largest number of queries in common is."""
    numbers = [number for number in points.get("cacq", {}) if number in points.get("N", {})]
    if len(numbers) < 2:
        return "Rows a second by number of standing queries"
    few, many = min(numbers), max(numbers)
    ours, loop = (points[name][few] / points[name][many] for name in ("cacq", "N"))
    kept = f"{ours:.1f} times slower" if ours > 1.05 else "as quick"
    return (
        f"With {many:,} CACQ queries instead of {few:,}, a NumPy loop is {loop:.0f} times slower; "
        f"millrace is {kept}"
    )


def _limits(points: Points) -> tuple[float, float]:
    rates = [rate for each in points.values() for rate in each.values()]
    return min(rates) / 2, max(rates) * 2


def _line(axes: Axes, name: str, points: Mapping[int, float]) -> tuple[Line, int, float]:
    line, numbers, rates = LINES[name], list(points), list(points.values())
    axes.plot(
        numbers, rates, line.style, color=line.colour, marker=line.marker, lw=line.width, ms=4.5
    )
    return line, numbers[-1], rates[-1]


def _part(axes: Axes, labels: list[tuple[Line, int, float]]) -> None:
    """Write each label right of its line's end, parted where two would meet."""
    taken: list[tuple[int, float]] = []
    for line, number, rate in sorted(labels, key=lambda each: -each[2]):
        height = rate
        for where, other in taken:
            if number * 30 > where and other / height < 1.9:
                height = other / 1.9
        taken.append((number, height))
        axes.annotate(
            line.label, (number, rate), (number * 1.35, height), color=line.colour, va="center",
            fontsize=9, linespacing=1.1,
        )  # fmt: skip
