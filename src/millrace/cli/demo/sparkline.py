"""Sparklines over time: the newest cell is at the right, a cell is a fixed stretch of time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.text import Text

from millrace.cli.terminal import Glyphs

Samples = Iterable[tuple[float, float]]


def totals(epochs: Iterable[tuple[float, float, float]], cells: Sequence[float]) -> list[float]:
    """Spread amounts over the stretch in which each came about; sum them up by cell.

    An epoch is (end, duration, amount); `cells` are the bounds of the cells, one more than they.

    Examples
    --------
    >>> totals([(2.0, 2.0, 10.0)], [0.0, 1.0, 2.0, 3.0])
    [5.0, 5.0, 0.0]
    """
    found = [0.0] * (len(cells) - 1)
    for end, duration, amount in epochs:
        began = end - max(duration, 1e-3)
        for at, (low, high) in enumerate(pairwise(cells)):
            shared = min(end, high) - max(began, low)
            if shared > 0:
                found[at] += amount * shared / (end - began)
    return found


def highest(samples: Samples, cells: Sequence[float]) -> list[float]:
    """Return the greatest value in each cell, 0 where there is none.

    Examples
    --------
    >>> highest([(0.5, 3.0), (0.6, 1.0), (2.5, 2.0)], [0.0, 1.0, 2.0, 3.0])
    [3.0, 0.0, 2.0]
    """
    found = [0.0] * (len(cells) - 1)
    for when, value in samples:
        for at, (low, high) in enumerate(pairwise(cells)):
            if low <= when < high:
                found[at] = max(found[at], value)
    return found


def cell(seconds: float, width: int) -> float:
    """Choose how long a cell is, so that all of a run is seen at once.

    Examples
    --------
    >>> cell(20.0, 60), cell(31.0, 60), cell(100.0, 60)
    (0.5, 1.0, 2.0)
    """
    return 0.5 * max(math.ceil(2 * seconds / width), 1)


def bounds(now: float, width: int, length: float) -> list[float]:
    """Return the bounds of the cells; they stand still, and the last one is complete."""
    stop = int(now / length) * length
    return [stop - length * (width - at) for at in range(width + 1)]


def draw(
    values: Sequence[float],
    cells: Sequence[float],
    glyphs: Glyphs,
    *,
    style: str,
    outage: tuple[float, float] | None,
    held: bool = False,
) -> Text:
    """Draw the cells; those of an outage without a value are crosses.

    With `held`, a cell without a value shows the one before, as a measure does between samples.
    Twice the middle value and whatever is above it are a full cell, so that one peak does not
    flatten all the rest.
    """
    there = sorted(value for value in values if value > 0)
    top = 2 * there[len(there) // 2] if there else 1.0
    line, before = Text(), 0.0
    for found, (low, high) in zip(values, pairwise(cells), strict=True):
        dead = outage is not None and low < outage[1] and high > outage[0]
        value = before if held and not found and not dead else found
        before = value
        if value > 0:
            step = min(int(value / top * len(glyphs.bars)), len(glyphs.bars) - 1)
            line.append(glyphs.bars[step], style)
        elif dead:
            line.append(glyphs.gap, "red")
        else:
            line.append(" ")
    return line
