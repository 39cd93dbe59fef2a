"""What families remember, and for how long: where their queries differ by when they were born.

A query sees the elements from its birth on. Where all windows forget, that makes no difference any
more after some time, the *horizon*. Where one does not, and its rows are joined with queries, the
join remembers them for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from millrace.plan.bounds import endless
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


def horizon(node: Relation) -> int | None:
    """Return after how long a relation does not depend on when its query was born, if ever.

    It is asked about what has no parameters yet: then windows of time have forgotten whatever
    came before.
    """
    if isinstance(node, Windowed):
        return _horizon_of_window(node)
    found = [horizon(each) for each in inputs(node)]
    known = [each for each in found if each is not None]
    return max(known, default=0) if len(known) == len(found) else None


def _horizon_of_window(node: Windowed) -> int | None:
    window, before = node.window, 0
    if isinstance(node.stream, StreamOf):
        below = horizon(node.stream.relation)
        if below is None:
            return None
        before = below + 1  # what a stream tells is new against the instant before
    size, slide = window.size, window.slide or 0
    if not isinstance(size, int) or not isinstance(slide, int):
        return None
    if window.kind != "range" or window.since is not None:
        return None
    return before + size + 1 + slide + window.lag


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
