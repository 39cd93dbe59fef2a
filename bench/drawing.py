"""Plots of the papers' experiments: a paper's claim is the caption, with what became of it here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Literal

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure as FigureOnPage

from bench.report import machine

COLOURS = (
    *("tab:red", "tab:blue", "tab:green", "tab:orange"),
    *("tab:purple", "tab:brown", "tab:gray", "tab:cyan", "black"),
)
STYLES = ("-", "--", ":", "-.")
MOST_MARKED = 32
"""How many points a line may have that are marked one by one."""
CAPTION_WIDTH, CAPTION_LINE = 158, 0.0235
"""How many characters of a caption are in a line, and which part of the picture its height is."""

LABEL_WIDTH = 18
"""How many characters of a bar's name are in a line."""
MOST_TICKS = 9
"""How many points across may have their own number at the axis."""

Scale = Literal["log", "linear"]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure: its file, what is on it, what the paper says of it, and whether that held.

    `across` and `up` are the names of the axes, `scales` how they grow, in the same order.
    """

    name: str
    title: str
    across: str
    up: str
    claim: str
    verdict: str
    scales: tuple[Scale, Scale] = ("log", "log")


def verdict(parts: Mapping[str, bool], measured: str) -> str:
    """Say which parts of a paper's claim held here, and what was measured.

    >>> verdict({"it rises": True, "it doubles": False}, "1.2 times.")
    'HELD: it rises. NOT HELD: it doubles. Here: 1.2 times.'
    """
    said = []
    for word, held in (("HELD", True), ("NOT HELD", False)):
        some = [part for part, found in parts.items() if bool(found) is held]
        said += [f"{word}: {'; '.join(some)}."] if some else []
    return " ".join([*said, f"Here: {measured}"])


def draw(
    drawing: Drawing, lines: Mapping[str, Mapping[int, float] | Mapping[float, float]], folder: Path
) -> Path:
    """Draw lines by name; return where the picture is.

    Lines whose names are alike up to a comma have one colour, and differ in their style.
    """
    figure, axes = _begun(drawing)
    seen: dict[str, int] = {}
    for name, points in lines.items():
        kind = name.partition(",")[0]
        nth = seen.setdefault(kind, 0)
        colour = COLOURS[[*seen].index(kind) % len(COLOURS)]
        seen[kind] += 1
        style = STYLES[nth % len(STYLES)]
        marker = "o" if len(points) <= MOST_MARKED else ""
        axes.plot(
            [*points], [*points.values()], style, color=colour, marker=marker, ms=4, label=name
        )
    _scale(axes, drawing.scales, sorted({at for points in lines.values() for at in points}))
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    return _finished(drawing, figure, folder)


def draw_bars(drawing: Drawing, values: Mapping[str, float], folder: Path) -> Path:
    """Draw a bar for each name, with its value on it; return where the picture is.

    The scale upwards counts, that across does not.
    """
    names = [fill(name, LABEL_WIDTH) for name in values]
    figure, axes = _begun(drawing, right=0.97, n_labels=max(name.count("\n") for name in names))
    bars = axes.bar(names, [*values.values()], color=COLOURS[1], width=0.6)
    axes.bar_label(bars, fmt="{:,.3g}")
    if drawing.scales[1] == "log":
        axes.set_yscale("log")
    return _finished(drawing, figure, folder)


def draw_stacks(drawing: Drawing, stacks: Mapping[str, Mapping[str, float]], folder: Path) -> Path:
    """Draw a bar for each name, of parts one above the other; return where the picture is."""
    figure, axes = _begun(drawing)
    parts = [*dict.fromkeys(part for stack in stacks.values() for part in stack)]
    base = dict.fromkeys(stacks, 0.0)
    for number, part in enumerate(parts):
        heights = {name: stack.get(part, 0.0) for name, stack in stacks.items()}
        colour = COLOURS[number % len(COLOURS)]
        axes.bar([*stacks], [*heights.values()], 0.6, [*base.values()], color=colour, label=part)
        base = {name: base[name] + height for name, height in heights.items()}
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    return _finished(drawing, figure, folder)


def draw_table(
    drawing: Drawing, columns: Sequence[str], rows: Sequence[Sequence[str]], folder: Path
) -> Path:
    """Draw rows of words; return where the picture is."""
    figure, axes = _begun(drawing, right=0.97)
    axes.set_axis_off()
    drawn = axes.table(rows, colLabels=columns, cellLoc="left", colLoc="left", loc="upper left")
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(8)
    drawn.auto_set_column_width([*range(len(columns))])
    return _finished(drawing, figure, folder)


def _begun(
    drawing: Drawing, *, right: float = 0.76, n_labels: int = 0
) -> tuple[FigureOnPage, Axes]:
    """Begin a picture, with room for its caption and so many more lines of labels above it."""
    figure, axes = plt.subplots(figsize=(9, 6))
    n_lines = _caption(drawing).count("\n") + 1 + 1.3 * n_labels
    bottom = 0.11 + CAPTION_LINE * n_lines
    figure.subplots_adjust(bottom=bottom, top=0.91, left=0.09, right=right)
    axes.set_xlabel(drawing.across)
    axes.set_ylabel(drawing.up)
    axes.set_title(drawing.title, loc="left")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _finished(drawing: Drawing, figure: FigureOnPage, folder: Path) -> Path:
    figure.text(0.02, 0.015, _caption(drawing), fontsize=8, va="bottom")
    figure.text(0.99, 0.985, machine(), ha="right", va="top", fontsize=6, color="0.5")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{drawing.name}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _caption(drawing: Drawing) -> str:
    """Return the claim, and what became of it, in lines that fit the picture."""
    said = (drawing.claim, drawing.verdict)
    return "\n".join(fill(each, CAPTION_WIDTH) for each in said if each)


def _scale(axes: Axes, scales: tuple[Scale, Scale], points: Sequence[float]) -> None:
    """Scale the axes; where points across are few, the numbers at the axis are theirs."""
    across, up = scales
    if across == "log":
        axes.set_xscale("log", base=2)
        if len(points) <= MOST_TICKS:
            shown = _apart(points)
            axes.set_xticks(shown, [_label(each) for each in shown], minor=False)
            axes.set_xticks([], minor=True)
    if up == "log":
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def _apart(points: Sequence[float]) -> list[float]:
    """Return points that have room for a number each on a logarithmic axis, the last among them."""
    ordered = sorted(points, reverse=True)
    least = math.log2(ordered[0] / ordered[-1]) / 9 if ordered[-1] > 0 else 0.0
    kept: list[float] = []
    for each in ordered:
        if not kept or each <= 0 or math.log2(kept[-1] / each) >= least:
            kept.append(each)
    return kept[::-1]


def _label(number: float) -> str:
    return f"{number:,.0f}" if number >= 1_000 else f"{number:,g}"
