"""What families remember, and for how long: where their queries differ by when they were born.

A query sees the elements from its birth on. Where all windows forget, that makes no difference any
more after some time, the *horizon*. Where one does not, and its rows are joined with queries, the
join remembers them for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from millrace.plan.bounds import endless
from millrace.plan.expressions import Expression
from millrace.plan.levels import QUERIES
from millrace.plan.relations import (
    Distinct,
    Filter,
    Group,
    Join,
    Project,
    Relation,
    Stream,
    StreamOf,
    Table,
    Windowed,
)
from millrace.plan.scopes import inputs, relations_in

Span: TypeAlias = tuple[int | Expression, ...]
"""Lengths of time that are added up; some may be values of parameters."""


def horizon(node: Relation) -> int | None:
    """Return after how long a relation does not depend on when its query was born, if ever.

    Then windows of time have forgotten whatever came before. Where their sizes are parameters, it
    is another time for each query.
    """
    found = spans(node)
    if found is None:
        return None
    lengths = [[each for each in span if isinstance(each, int)] for span in found]
    if [*map(len, lengths)] != [*map(len, found)]:
        return None
    return max(map(sum, lengths), default=0)


def spans(node: Relation) -> tuple[Span, ...] | None:
    """Return what the horizon of a relation is the longest of: for each window a sum.

    It is None if a window does not forget.
    """
    if isinstance(node, Windowed):
        return _spans_of_window(node)
    found = [spans(each) for each in inputs(node)]
    known = [each for each in found if each is not None]
    return tuple(chain.from_iterable(known)) if len(known) == len(found) else None


def _spans_of_window(node: Windowed) -> tuple[Span, ...] | None:
    window, before = node.window, [Span()]
    if isinstance(node.stream, StreamOf):
        below = spans(node.stream.relation)
        if below is None:
            return None
        # What a stream tells is new against the instant before.
        before = [(*each, 1) for each in below or [Span()]]
    if window.kind != "range" or window.since is not None or window.size is None:
        return None
    return tuple((*each, window.size, 1 + window.lag, window.slide or 0) for each in before)


def remembered_rows(plan: Relation | Stream) -> Iterator[str]:
    """Yield the streams every row of which a family's plan remembers, where queries are joined.

    A query on its own may pass such rows on and forget them; of a family some may go.
    """
    for node in relations_in(plan):
        if isinstance(node, Join) and isinstance(node.left, Table) and node.left.name == QUERIES:
            below = node.right
            while isinstance(below, Filter | Project):
                below = below.input
            if not isinstance(below, Group | Distinct):
                yield from endless(below)
