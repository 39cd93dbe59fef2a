"""Bounds: whether what a plan remembers stays within a bound, or grows for as long as it runs.

A relation is *endless* if rows come and never go: that of a window without a bound, and whatever is
made of one row by row. An operator that has to remember the rows of an endless relation needs more
and more (after Babu and Widom, "Continuous queries over data streams", 2001, who ask for each part
of a query's memory whether it is empty, bounded or not).

    selections, projections, UNION ALL, ISTREAM      remember nothing of it
    GROUP BY, DISTINCT, UNION, EXCEPT, INTERSECT,
    count(DISTINCT ...), PARTITION BY ... ROWS n     remember each group, each different value
    min and max of what may go again                 remember each different value, too
    joins, ORDER BY ... LIMIT, subqueries,
    and other aggregates of single values            remember the rows

The first are as they should be, the second are allowed and said, the third are refused unless the
user says that they may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from millrace.plan.aggregate_types import ADDED
from millrace.plan.growth import monotonic
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
    StreamOf,
    Table,
    Top,
    Windowed,
)

Grows: TypeAlias = Literal["with values", "with rows"]
_EXTREMES = ("min", "max")


@dataclass(frozen=True, slots=True)
class Growth:
    """An operator whose memory has no bound: with what it grows, over which stream, and why."""

    operator: str
    grows: Grows
    stream: str

    @property
    def reason(self) -> str:
        """What is remembered."""
        if self.grows == "with values":
            return f'{self.operator} remembers every different value of "{self.stream}"'
        return f'{self.operator} remembers every row of "{self.stream}"'


def growths(plan: Relation | Stream) -> list[Growth]:
    """Return the operators of a plan whose memory grows for as long as it runs."""
    return list(dict.fromkeys(_growths(plan)))


def _growths(node: Relation | Stream) -> Iterator[Growth]:  # noqa: C901  a case for each node
    match node:
        case Source() | Table():
            return
        case StreamOf(kind, relation, _):
            yield from _growths(relation)
            if kind == "rstream":
                yield from _remembered("RSTREAM", "with rows", relation)
        case Windowed(stream, window, _):
            yield from _growths(stream)
            if window.by:
                yield Growth("PARTITION BY", "with values", _name(stream))
        case Filter() | Project() | Hop():
            yield from _growths(node.input)
        case Distinct(given):
            yield from _growths(given)
            yield from _remembered("DISTINCT", "with values", given)
        case Group():
            yield from _growths(node.input)
            yield from _grouped(node)
        case Top(given):
            yield from _growths(given)
            yield from _remembered("ORDER BY with LIMIT", "with rows", given)
        case Join() | Combined():
            yield from _paired(node)
        case Asked(given, _, _, subquery):
            yield from (*_growths(given), *_growths(subquery))
            yield from _remembered("a subquery", "with rows", given)
            yield from _remembered("a subquery", "with rows", subquery)
        case _:
            assert_never(node)


def _paired(node: Join | Combined) -> Iterator[Growth]:
    for side in (node.left, node.right):
        yield from _growths(side)
        if isinstance(node, Join):
            yield from _remembered("the join", "with rows", side)
        elif node.kind == "union" and not node.keep_all:
            yield from _remembered("UNION", "with values", side)
        elif node.kind != "union":
            yield from _remembered(node.kind.upper(), "with values", side)


def _grouped(node: Group) -> Iterator[Growth]:
    yield from _remembered("GROUP BY", "with values", node.input) if node.keys else ()
    for each in node.aggregates:
        if each.kind in _EXTREMES:
            if not monotonic(node.input):  # the next one has to be known when one goes
                yield from _remembered(each.kind, "with values", node.input)
        elif each.distinct:
            yield from _remembered(f"{each.kind}(DISTINCT ...)", "with values", node.input)
        elif each.kind not in ADDED:
            yield from _remembered(each.kind, "with rows", node.input)


def _remembered(operator: str, grows: Grows, node: Relation) -> Iterator[Growth]:
    """Say that an operator remembers what an endless relation is made of."""
    for stream in endless(node):
        yield Growth(operator, grows, stream)


def endless(node: Relation) -> list[str]:
    """Return the streams because of which rows of a relation come and never go."""
    match node:
        case Windowed(stream, window, _):
            kept = window.size is None and window.until is None
            return [_name(stream)] if kept else []
        case Table() | Top():
            return []
        case Filter() | Project() | Distinct() | Asked() | Hop():
            return endless(node.input)
        case Group(given, keys, _):
            return endless(given) if keys else []
        case Join(kind, left, right, _):
            sides = [endless(left), endless(right)]
            if kind == "inner" and not all(sides):
                return []  # a pair goes when one of its rows does
            return [*sides[0], *sides[1]]
        case Combined(kind, left, right, _):
            return endless(left) if kind != "union" else [*endless(left), *endless(right)]
        case _:
            assert_never(node)


def _name(stream: Stream) -> str:
    while isinstance(stream, StreamOf):
        inner = stream.relation
        while not isinstance(inner, Windowed | Table):
            inner = inner.left if isinstance(inner, Join | Combined) else inner.input
        if isinstance(inner, Table):
            return inner.name
        stream = inner.stream
    return stream.name
