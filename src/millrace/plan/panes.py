"""Which families are groups of one stream's windows: their queries share panes.

    SELECT RSTREAM(k, count(*)) EVERY 1 MINUTE FROM s [RANGE :w SECONDS] WHERE v > :x GROUP BY k
    SELECT avg(price) FROM s [RANGE 1 hour SLIDE :d SECONDS] WHERE symbol = :s

All that queries differ in is which elements they take: how large the window is and how far it
slides, and what columns are compared with; and what is asked of a group. They are told at
instants that do not depend on elements: at ticks, or where the window slides. As a plan of joins,
each element is joined with each query that takes it. But queries that take the same elements for a
while need their sum only (`operators.relational.paned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa

from millrace.plan.aggregate_types import ADDED
from millrace.plan.bind import type_of
from millrace.plan.conditions import both, conjuncts
from millrace.plan.declared import Declared
from millrace.plan.expressions import MIRRORED, Column, Compare, Comparison, Expression, walk
from millrace.plan.levels import (
    BIRTH,
    BIRTHS_AS,
    ELEMENT,
    QUERIES,
    QUERIES_AS,
    QUERY,
    SEEN_FROM,
)
from millrace.plan.nodes import Output
from millrace.plan.relation_types import relation_schema
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

PaneWay: TypeAlias = Literal["auto", "dense", "sparse", "never"]
"""How queries of a family share panes: by cost, in one of two ways, or not."""
PICKED = ("min", "max", "first", "last", "percentile_cont", "percentile_disc")
"""The aggregates that are one of the values, or lie between two."""
SHARD = "#shard"
"""The column of an element that says in which shard it is."""
_TECHNICAL = (
    {f"{QUERIES_AS}.{BIRTH}", f"{BIRTHS_AS}.{BIRTH}"},
    {f"{QUERIES_AS}.{QUERY}", f"{QUERIES_AS}.{QUERY}~"},
)


@dataclass(frozen=True, slots=True)
class Test:
    """What a query asks of elements: that a column compares so with a value of the query."""

    column: str
    operator: Comparison
    value: Expression


@dataclass(frozen=True, slots=True)
class Added:
    """Columns that are computed and put behind the others."""

    outputs: tuple[Output, ...]


Step: TypeAlias = Filter | Project | Added


@dataclass(frozen=True, slots=True)
class Paned:
    """Groups of the elements of one stream that queries take.

    `below` is what is done to elements before they are grouped, `above` to the groups of each
    query; both in the order in which it is done. Sizes and slides of the window, and the values of
    tests, are of the columns of queries. A `lone` group is there without elements, too.
    """

    stream: str
    alias: str
    window: Window
    below: tuple[Step, ...]
    tests: tuple[Test, ...]
    tested: pa.Schema
    """The columns that are compared with values of queries."""
    group: Group
    lone: bool
    above: tuple[Filter | Project, ...]
    told: Relation
    every: int | None

    @property
    def keys(self) -> tuple[Output, ...]:
        """The keys of groups, but for the query's."""
        return tuple(each for each in self.group.keys if not _of_family(each.value))


def paned(stream: StreamOf, declared: Declared) -> Paned | None:
    """Return how a family's stream is made of groups that share panes, if it is."""
    if QUERIES not in declared.tables:
        return None
    asked = _asked_groups(stream.relation)
    if asked is None or not all(map(_shared, asked.group.aggregates)):
        return None
    taking = _Taking(declared)
    window = taking.elements(asked.group.input)
    if window is None or not _at_instants(stream, window.window):
        return None
    keys = [each for each in asked.group.keys if not _of_family(each.value)]
    if any(map(_of_family, _values(keys, asked.group.aggregates))):
        return None
    source = _source(window)
    if source is None:
        return None
    return Paned(
        source,
        window.alias,
        window.window,
        tuple(taking.steps),
        tuple(taking.tests),
        pa.schema(taking.tested),
        asked.group,
        asked.lone,
        asked.above,
        stream.relation,
        stream.every,
    )


def _at_instants(stream: StreamOf, window: Window) -> bool:
    """Say whether answers change at instants only that do not depend on elements."""
    ticks = stream.kind == "rstream" and stream.every is not None
    slides = stream.kind != "rstream" and window.slide is not None
    bounded = window.size is not None and window.since is None and window.until is None
    return (ticks or slides) and bounded and window.kind == "range" and not window.lag


def _shared(aggregate: Aggregate) -> bool:
    once = aggregate.distinct and aggregate.kind not in ("min", "max", "first", "last")
    return aggregate.kind in (*ADDED, *PICKED) and not once


def _values(keys: Sequence[Output], aggregates: Sequence[Aggregate]) -> Iterator[Expression]:
    yield from (each.value for each in keys)
    for each in aggregates:
        yield from (one for one in (each.operand, each.where, each.by) if one is not None)


# ---- what is asked of groups ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AskedGroups:
    group: Group
    lone: bool
    above: tuple[Filter | Project, ...]


def _asked_groups(node: Relation) -> _AskedGroups | None:
    """Find the group of a family's relation: of each query, or of a birth, joined with queries."""
    above, found = _chain(node)
    if isinstance(found, Group):
        return _AskedGroups(found, lone=False, above=above)
    if not isinstance(found, Join) or not _are_queries(found.left):
        return None
    if found.kind == "left":  # what has no elements is counted, too: as none
        below, group = _chain(found.right)
        if not isinstance(group, Group) or len(below) != 1 or not above:
            return None
        return _AskedGroups(group, lone=True, above=above[1:])
    below, group = _chain(found.right)
    if found.kind != "inner" or not isinstance(group, Group):
        return None
    if not all(isinstance(each, Filter) for each in below):
        return None
    rest = [] if found.condition is None else conjuncts(found.condition)
    condition = both(each for each in rest if not _technical(each))
    asked = () if condition is None else (Filter(group, condition),)
    return _AskedGroups(group, lone=False, above=(*below, *asked, *above))


def _chain(node: Relation) -> tuple[tuple[Filter | Project, ...], Relation]:
    """Return what is selected and computed of a relation, and that relation."""
    found: list[Filter | Project] = []
    while isinstance(node, Filter | Project):
        found.insert(0, node)
        node = node.input
    return tuple(found), node


def _are_queries(node: Relation) -> bool:
    return isinstance(node, Table) and node.name == QUERIES


def _technical(condition: Expression) -> bool:
    """Say whether a condition joins queries with what is theirs."""
    return isinstance(condition, Compare) and _names(condition) in _TECHNICAL


# ---- what is done to elements --------------------------------------------------------------------


class _Taking:
    """Follows the elements of a window up to their group, and notes what is done to them."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.steps: list[Step] = []
        self.tests: list[Test] = []
        self.tested: list[pa.Field] = []

    def elements(self, node: Relation) -> Windowed | None:
        """Return the window whose elements are grouped, if it is one that queries may share."""
        above, joined = _chain(node)
        conditions: list[Expression] = []
        if isinstance(joined, Join):
            if joined.kind != "inner" or not _are_queries(joined.left):
                return None
            below, window = _chain(joined.right)
            conditions = [] if joined.condition is None else conjuncts(joined.condition)
        else:  # a group of a birth, whose elements nobody joins
            above, below, window = (), above, joined
        if not isinstance(window, Windowed) or not below or not isinstance(below[0], Project):
            return None
        rest = both(each for each in conditions if not _technical(each))
        nodes = [*below[1:], *([] if rest is None else [Filter(joined, rest)]), *above]
        return window if all(map(self._step, nodes)) else None

    def _step(self, node: Filter | Project) -> bool:
        if isinstance(node, Filter):
            return self._filter(node)
        outputs = [each for each in node.outputs if not _of_family(each.value)]
        if any(not isinstance(each.value, Column) for each in node.outputs if each not in outputs):
            return False
        kept = (SEEN_FROM, SHARD, *(each.name for each in self.tested))
        self.steps.append(
            replace(node, outputs=(*outputs, *(Output(each, Column(each)) for each in kept)))
        )
        return True

    def _filter(self, node: Filter) -> bool:
        """Part what is asked of elements from what queries compare them with."""
        parts = conjuncts(node.condition)
        plain = both(each for each in parts if not _of_family(each))
        if plain is not None:
            self.steps.append(Filter(node.input, plain))
        outputs: dict[tuple[Expression, pa.DataType], str] = {}
        for each in parts:
            if _of_family(each) and not self._test(each, node.input, outputs):
                return False
        if outputs:
            named = (Output(name, value) for (value, _), name in outputs.items())
            self.steps.append(Added(tuple(named)))
        return True

    def _test(
        self, node: Expression, given: Relation, outputs: dict[tuple[Expression, pa.DataType], str]
    ) -> bool:
        """Note a comparison of what an element says with what a query does."""
        if not isinstance(node, Compare) or node.operator == "<>":
            return False
        operator: Comparison = node.operator
        element, value = node.left, node.right
        if _of_family(element):
            element, operator, value = node.right, MIRRORED[operator], node.left
        named = _names(value)
        if _of_family(element) or not all(each.startswith(f"{QUERIES_AS}.") for each in named):
            return False
        schema = relation_schema(given, self.declared)
        arrow, other = (type_of(each, schema, self.declared.functions) for each in (element, value))
        if (element, other) not in outputs:
            outputs[element, other] = f"#t{len(self.tested)}"
            self.tested.append(pa.field(outputs[element, other], arrow))
        self.tests.append(Test(outputs[element, other], operator, value))
        return True


def _source(window: Windowed) -> str | None:
    """Return the stream whose elements a window is over, or over which each query has its own."""
    stream = window.stream
    if isinstance(stream, Source):
        return stream.name
    _, joined = _chain(stream.relation)
    if not isinstance(joined, Join) or not _are_queries(joined.left):
        return None
    _, now = _chain(joined.right)
    if not isinstance(now, Windowed) or now.alias != ELEMENT:
        return None
    return now.stream.name if isinstance(now.stream, Source) else None


def _of_family(value: Expression) -> bool:
    """Say whether an expression names a column of queries or of births."""
    return any(each.startswith((f"{QUERIES_AS}.", f"{BIRTHS_AS}.")) for each in _names(value))


def _names(value: Expression) -> set[str]:
    return {each.name for each in walk(value) if isinstance(each, Column)}
