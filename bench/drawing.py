"""Plots of the papers' experiments: a paper's claim is the caption, with what became of it here."""

from __future__ import annotations

from collections.abc import Mapping
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

COLOURS = ("tab:red", "tab:blue", "tab:green", "tab:orange", "tab:purple", "tab:brown", "tab:gray")
STYLES = ("-", "--", ":", "-.")
MOST_MARKED = 32
"""How many points a line may have that are marked one by one."""

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
    _scale(axes, drawing.scales)
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    return _finished(drawing, figure, folder)


def draw_bars(drawing: Drawing, values: Mapping[str, float], folder: Path) -> Path:
    """Draw a bar for each name, with its value on it; return where the picture is."""
    figure, axes = _begun(drawing)
    bars = axes.bar([*values], [*values.values()], color=COLOURS[1], width=0.6)
    axes.bar_label(bars, fmt="%.2f")
    return _finished(drawing, figure, folder)


def _begun(drawing: Drawing) -> tuple[FigureOnPage, Axes]:
    figure, axes = plt.subplots(figsize=(9, 6))
    figure.subplots_adjust(bottom=0.2, top=0.92, left=0.08, right=0.76)
    axes.set_xlabel(drawing.across)
    axes.set_ylabel(drawing.up)
    axes.set_title(drawing.title, loc="left")
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _finished(drawing: Drawing, figure: FigureOnPage, folder: Path) -> Path:
    caption = fill(f"{drawing.claim} {drawing.verdict}", 140)
    figure.text(0.02, 0.015, caption, fontsize=8, va="bottom")
    figure.text(0.99, 0.985, machine(), ha="right", va="top", fontsize=6, color="0.5")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{drawing.name}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _scale(axes: Axes, scales: tuple[Scale, Scale]) -> None:
    across, up = scales
    if across == "log":
        axes.set_xscale("log", base=2)
    if up == "log":
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
