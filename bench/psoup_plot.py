"""The plots of PSoup's experiments: the paper's claim is the caption, with what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from bench.report import machine

COLOURS = {"NoMat": "tab:red", "PSoup-P": "tab:blue", "PSoup-C": "tab:green"}
STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure: its file, what is on it, what the paper says of it, and whether that held."""

    name: str
    title: str
    across: str
    up: str
    claim: str
    verdict: str


def draw(drawing: Drawing, lines: Mapping[str, Mapping[int, float]], folder: Path) -> Path:
    """Draw lines by name, both axes logarithmic; return where the picture is."""
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(9, 6))
    figure.subplots_adjust(bottom=0.2, top=0.92, left=0.08, right=0.76)
    seen: dict[str, int] = {}
    for name, points in lines.items():
        colour = next((COLOURS[each] for each in COLOURS if name.startswith(each)), "tab:purple")
        style = STYLES[seen.get(colour, 0) % len(STYLES)]
        seen[colour] = seen.get(colour, 0) + 1
        axes.plot([*points], [*points.values()], style, color=colour, marker="o", ms=4, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(drawing.across)
    axes.set_ylabel(drawing.up)
    axes.set_title(drawing.title, loc="left")
    axes.grid(axis="y", color="0.92")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.text(
        0.02, 0.015, fill(f"{drawing.claim} {drawing.verdict}", 140), fontsize=8, va="bottom"
    )
    figure.text(0.99, 0.985, machine(), ha="right", va="top", fontsize=6, color="0.5")
    path = folder / f"{drawing.name}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
