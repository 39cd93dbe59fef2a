"""What a window shows of a stream at an instant, by the definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from millrace.plan.relations import Window
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.bags import Row

Element: TypeAlias = tuple[int, Row]
"""An instant and a row."""


def seen(window: Window, elements: Sequence[Element], at: int) -> list[Row]:
    """Return the rows that a window shows at an instant of a stream up to it."""
    if window.kind == "range":
        return [row for when, row in elements if _within(window, when, at)]
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for _, row in elements:
        parts.setdefault(tuple(same(row[name]) for name in window.by), []).append(row)
    return [row for part in parts.values() for row in _last_rows(window, part)]


def _within(window: Window, when: int, at: int) -> bool:
    """Say whether an element of the instant `when` is in a range at the instant `at`.

    A slide shows what stood at its last multiple, and then the far end is not included.
    """
    size, slide = _constants(window)
    if slide is not None:
        at = at // slide * slide
    first = None if size is None else at - size + (slide is not None)
    return (
        (first is None or first <= when)
        and (window.since is None or window.since <= when)
        and (window.until is None or when <= window.until)
        and when <= at - window.lag
    )


def _last_rows(window: Window, rows: list[Row]) -> list[Row]:
    n_rows = len(rows)
    size, slide = _constants(window)
    if slide is not None:
        n_rows = n_rows // slide * slide
    first = 0 if size is None else max(n_rows - size, 0)
    return rows[first:n_rows]


def _constants(window: Window) -> tuple[int | None, int | None]:
    size, slide = window.size, window.slide
    assert size is None or isinstance(size, int), "parameters have their values here"
    assert slide is None or isinstance(slide, int), "parameters have their values here"
    return size, slide
