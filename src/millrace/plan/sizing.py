"""Which streams of a family are totals of windows of many sizes: they need not run for each query.

    SELECT RSTREAM(k, count(*)) EVERY 1 minute FROM s [RANGE :w SECONDS] GROUP BY k

All that queries differ in is how large their window is, and they are told at the same instants. As
a plan, each element is joined with each query, and stays for as long as that says; what is told can
be computed of the elements themselves (`operators.relational.sized`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.plan.expressions import Column, Expression, walk
from millrace.plan.levels import QUERIES, QUERIES_AS, SEEN_FROM
from millrace.plan.nodes import Output
from millrace.plan.placement import EVERYWHERE
from millrace.plan.relations import (
    Aggregate,
    Filter,
    Group,
    Join,
    Project,
    Relation,
    Source,
    StreamOf,
    Table,
    Window,
    Windowed,
)

ADDED = ("count", "sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")
"""The aggregates that can be added up, and taken away again."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """Totals of windows over one stream.

    `below` is what is done to elements before they are grouped, `above` to the groups of each
    query; both in the order in which it is done. The size of the window is of the columns of
    queries. The elements have the column that says for which birth they are, and keep it.
    """

    stream: str
    alias: str
    window: Window
    below: tuple[Filter | Project, ...]
    group: Group
    above: tuple[Filter | Project, ...]
    every: int

    @property
    def keys(self) -> tuple[Output, ...]:
        """The keys of groups, but for the query's."""
        return tuple(each for each in self.group.keys if not of_query(each.value))


def sizing(stream: StreamOf, columns: Mapping[str, str] | None) -> Sizing | None:
    """Return how a family's stream is made of windows of many sizes, if it is.

    Every shard must have all queries; `columns` says how they are spread.
    """
    spread = columns is not None and columns.get(QUERIES) != EVERYWHERE
    if spread or stream.kind != "rstream" or stream.every is None:
        return None
    above, group = _chain(stream.relation)
    if not isinstance(group, Group) or not all(map(_added, group.aggregates)):
        return None
    below, joined = _chain(group.input)
    window = _window(joined)
    if window is None or not isinstance(window.window.size, Expression):
        return None
    keys = [each for each in group.keys if not of_query(each.value)]
    if any(map(of_query, _asked(keys, group.aggregates, below))):
        return None
    source = _source(window)
    if source is None:
        return None
    kept = tuple(map(_of_elements, below))
    return Sizing(source, window.alias, window.window, kept, group, above, stream.every)


def _of_elements(node: Filter | Project) -> Filter | Project:
    """Leave the columns of queries out of what is computed, and keep that of the birth."""
    if isinstance(node, Filter):
        return node
    outputs = [each for each in node.outputs if not of_query(each.value)]
    return replace(node, outputs=(*outputs, Output(SEEN_FROM, Column(SEEN_FROM))))


def of_query(value: Expression) -> bool:
    """Say whether an expression names a column of queries."""
    return any(
        isinstance(each, Column) and each.name.startswith(f"{QUERIES_AS}.") for each in walk(value)
    )


def _added(aggregate: Aggregate) -> bool:
    return aggregate.kind in ADDED and not aggregate.distinct


def _chain(node: Relation) -> tuple[tuple[Filter | Project, ...], Relation]:
    """Return what is selected and computed of a relation, and that relation."""
    found: list[Filter | Project] = []
    while isinstance(node, Filter | Project):
        found.insert(0, node)
        node = node.input
    return tuple(found), node


def _window(joined: Relation) -> Windowed | None:
    """Return the window that is joined with the queries, by their ids."""
    if not isinstance(joined, Join) or joined.kind != "inner" or not _are_queries(joined.left):
        return None
    _, window = _chain(joined.right)
    if not isinstance(window, Windowed) or window.window.kind != "range":
        return None
    plain = window.window.slide is None and window.window.since is None and not window.window.lag
    return window if plain and window.window.until is None else None


def _source(window: Windowed) -> str | None:
    """Return the stream whose elements are joined with the queries before they are windowed."""
    stream = window.stream
    if not isinstance(stream, StreamOf) or stream.kind != "rstream" or stream.every is not None:
        return None
    _, joined = _chain(stream.relation)
    if not isinstance(joined, Join) or not _are_queries(joined.left):
        return None
    _, now = _chain(joined.right)
    is_now = isinstance(now, Windowed) and now.window.kind == "range" and now.window.size == 0
    if not is_now or not isinstance(now, Windowed) or not isinstance(now.stream, Source):
        return None
    return now.stream.name


def _are_queries(node: Relation) -> bool:
    return isinstance(node, Table) and node.name == QUERIES


def _asked(
    keys: Sequence[Output], aggregates: Sequence[Aggregate], below: Sequence[Filter | Project]
) -> list[Expression]:
    """Return all that is asked of elements; columns of queries are only passed on."""
    found = [each.value for each in keys]
    for aggregate in aggregates:
        found += [each for each in (aggregate.operand, aggregate.where) if each is not None]
    for node in below:
        if isinstance(node, Filter):
            found.append(node.condition)
        else:
            found += [each.value for each in node.outputs if not isinstance(each.value, Column)]
    return found
