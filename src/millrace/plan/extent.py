"""Extents: which rows a relation holds at an instant, in words, and about how many they are.

    trades [RANGE 5 MINUTES]    rows of trades of the last 5 minutes    300 x rows a second
    quotes [ROWS 100]           last 100 rows of quotes                 100

How many rows a filter lets through, and how many different ones there are, is not known before
they have run: numbers are those that there can be at most. Of a join nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from millrace.plan.outline import window_text
from millrace.plan.relations import (
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Project,
    Relation,
    Source,
    Stream,
    Table,
    Top,
    Windowed,
)
from millrace.plan.scopes import inputs
from millrace.time import SECOND, print_duration


@dataclass(frozen=True, slots=True)
class Extent:
    """Rows in words, without an article, and about how many there are at most, if that is known."""

    words: str
    rows: float | None = None
    ends: bool = False
    """Whether rows come with the instant at which they will go."""

    def called(self, what: str, *, ends: bool = False) -> Extent:
        """Return as many things of these rows.

        >>> Extent("rows of s", 3).called("groups").words
        'groups of the rows of s'
        """
        return Extent(f"{what} of the {self.words}", self.rows, ends)


Rates = Mapping[str, float]
"""How many rows a second streams have, as far as it was measured."""


def extent(node: Relation, rates: Rates) -> Extent:
    """Return which rows a relation holds.

    >>> from millrace.plan.relations import Window
    >>> recent = Windowed(Source("s"), Window("range", 10 * SECOND), "s")
    >>> extent(Distinct(recent), {"s": 2.5})
    Extent(words='different rows of s of the last 10 seconds', rows=25.0, ends=False)
    """
    match node:
        case Windowed():
            return _windowed(node, rates)
        case Table(name, _):
            return Extent(f"rows of table {name}")
        case Filter(given) | Project(given) | Asked(given) | Hop(given):
            return extent(given, rates)
        case Distinct(given):
            found = extent(given, rates)
            return Extent(f"different {found.words}", found.rows)
        case Group(given, keys, _):
            return extent(given, rates).called("groups") if keys else Extent("only group", 1)
        case Join(_, left, right, _):
            ends = extent(left, rates).ends or extent(right, rates).ends
            return Extent(f"pairs of {', '.join(dict.fromkeys(_aliases(node)))}", ends=ends)
        case Combined(kind, left, right, keep_all):
            found = _both(extent(left, rates), extent(right, rates))
            return found if kind == "union" and keep_all else replace(found, ends=False)
        case Top(given, _, limit, _, per):
            of = extent(given, rates).words
            each = f" for each {', '.join(per)}" if per else ""
            return Extent(f"first {limit} of the {of}{each}", None if per else limit)
        case _:
            assert_never(node)


def _aliases(node: Relation) -> Iterator[str]:
    """Yield what the streams and tables are called that a relation is made of."""
    if isinstance(node, Windowed | Table):
        yield node.alias
    for each in inputs(node):
        yield from _aliases(each)


def _both(left: Extent, right: Extent) -> Extent:
    known = left.rows is not None and right.rows is not None
    rows = (left.rows or 0) + (right.rows or 0)
    words = f"{left.words} and the {right.words}"
    return Extent(words, rows if known else None, left.ends or right.ends)


def _windowed(node: Windowed, rates: Rates) -> Extent:
    window, name = node.window, _name(node.stream)
    size, slide = window.size, window.slide or 0
    if not isinstance(size, int | None) or not isinstance(slide, int):
        words = f"rows of {name} [{window_text(window)}] of each query"
        return Extent(words, ends=size is not None)
    if window.kind == "rows" and size is not None:
        each = f" for each {', '.join(window.by)}" if window.by else ""
        last = "last row" if size == 1 else f"last {size:,} rows"
        return Extent(f"{last} of {name}{each}", None if each else size)
    if window.since is not None or window.until is not None:
        return Extent(f"rows of {name} [{window_text(window)}]", ends=size is not None)
    if size is None:
        return Extent(f"rows of {name} since the query began")
    if size == 0:
        return Extent(f"rows of {name} of one instant", ends=True)
    span = size + slide + window.lag
    found = f"rows of {name} of the last {print_duration(span)}"
    rate = rates.get(name)
    return Extent(found, None if rate is None else rate * span / SECOND, ends=True)


def _name(stream: Stream) -> str:
    return stream.name if isinstance(stream, Source) else f"the {stream.kind} below"
