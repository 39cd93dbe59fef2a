"""What CQL means: which rows a relation holds at an instant, and a stream until then.

By the definition and nothing else: slow, plain, and short enough to be checked by eye. A row is a
dictionary, a relation a list of rows (a bag), a stream a list of elements in order. Instants are
whole numbers from 0 on, and every one of them is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

from millrace.errors import SeveralRowsError
from millrace.plan.expressions import Comparison, Expression
from millrace.plan.relation_types import Declared, aggregate_type, relation_schema
from millrace.plan.relations import (
    Aggregate,
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
    Window,
    Windowed,
)
from millrace.schema import Schema
from millrace.testing.oracle.aggregates import aggregated, place, same
from millrace.testing.oracle.bags import Bagged, Row, bag
from millrace.testing.oracle.casts import Typed, cast_value
from millrace.testing.oracle.expressions import World, value_of
from millrace.testing.oracle.operations import compared
from millrace.testing.oracle.windows import Element, seen

__all__ = ["Bagged", "Change", "Definition", "Element", "Row", "SeveralRowsError", "bag", "seen"]

Change: TypeAlias = tuple[int, Row, int]
"""An instant, a row of a table, and how many copies of it come (or go, below zero)."""
Reading: TypeAlias = Callable[[Expression, Row], Any]
"""Tells the value of an expression for a row."""


@dataclass
class Definition:
    """Answers what plans mean over given streams, in order, and tables.

    Within a subquery, `outer` is the row that it is asked about, with all rows around that.

    >>> from millrace.plan.relations import Source, Window, Windowed
    >>> declared = Declared({"s": Schema.of("x int")})
    >>> given = Definition(declared, {"s": [(1, {"x": 10}), (3, {"x": 30})]})
    >>> given.relation(Windowed(Source("s"), Window("range", 1), "s"), 2)
    [{'s.x': 10}]
    """

    declared: Declared
    streams: Mapping[str, Sequence[Element]]
    tables: Mapping[str, Sequence[Change]] = field(default_factory=dict)
    outer: Row = field(default_factory=dict)
    begin: int = 0
    """The first instant: no relation has a row before it, so all that is there then is new."""
    parameters: Mapping[int, Any] = field(default_factory=dict)
    """The values of parameters: of a query of a family, written as constants."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """What functions of users say, for the values of one row."""
    _told: dict[tuple[Stream, int], list[Element]] = field(default_factory=dict)
    _bags: dict[tuple[Relation, int], Counter[Bagged]] = field(default_factory=dict)
    _schemas: dict[tuple[Relation, Schema | None], Schema] = field(default_factory=dict)

    # ---- streams ---------------------------------------------------------------------------------

    def stream(self, stream: Stream, until: int) -> list[Element]:
        """Return the elements of a stream up to an instant, in order."""
        match stream:
            case Source(name):
                names = self.declared.streams[name].names
                return [
                    (at, {each: row[each] for each in names})
                    for at, row in self.streams[name]
                    if at <= until
                ]
            case StreamOf():
                if until < self.begin:
                    return []
                if (stream, until) not in self._told:
                    before = self.stream(stream, until - 1)
                    told = [(until, row) for row in self.told(stream, until)]
                    self._told[stream, until] = before + told
                return self._told[stream, until]
            case _:
                assert_never(stream)

    def told(self, stream: StreamOf, at: int) -> list[Row]:
        """Return what a derived stream tells at one instant, in canonical order."""
        now = self._bag(stream.relation, at)
        before = self._bag(stream.relation, at - 1) if at > self.begin else Counter[Bagged]()
        match stream.kind:
            case "istream":
                found = now - before
            case "dstream":
                found = before - now
            case "rstream":
                found = now if stream.every is None or at % stream.every == 0 else Counter()
            case _:
                assert_never(stream.kind)
        return [dict(each.row) for each in sorted(found.elements(), key=Bagged.place)]

    def _bag(self, relation: Relation, at: int) -> Counter[Bagged]:
        """Return what a relation below a stream holds at an instant; it sees nothing around it."""
        if (relation, at) not in self._bags:
            apart = replace(self, declared=self.declared.apart(), outer={})
            self._bags[relation, at] = bag(apart.relation(relation, at))
        return self._bags[relation, at]

    # ---- relations -------------------------------------------------------------------------------

    def relation(self, node: Relation, at: int) -> list[Row]:  # noqa: C901  a case for each node
        """Return the rows of a relation at an instant, in no order."""
        match node:
            case Windowed() | Table():
                return self._leaf(node, at)
            case Filter(given, condition):
                value = self._reading(given)
                return [row for row in self.relation(given, at) if value(condition, row) is True]
            case Project(given, outputs):
                value = self._reading(given)
                return [
                    {each.name: value(each.value, row) for each in outputs}
                    for row in self.relation(given, at)
                ]
            case Join():
                return self._join(node, at)
            case Group():
                return self._group(node, at)
            case Hop(given):
                return self.relation(given, at)
            case Distinct(given):
                return [dict(each.row) for each in bag(self.relation(given, at))]
            case Combined():
                return self._combined(node, at)
            case Asked():
                return self._asked(node, at)
            case Top():
                return self._top(node, at)
            case _:
                assert_never(node)

    def _leaf(self, node: Windowed | Table, at: int) -> list[Row]:
        if isinstance(node, Windowed):
            rows = seen(self._window(node.window), self.stream(node.stream, at), at)
        else:
            rows = self._table(node.name, at)
        return [{f"{node.alias}.{name}": row[name] for name in row} for row in rows]

    def _window(self, window: Window) -> Window:
        """Return a window of a constant size and slide."""
        return replace(window, size=self._length(window.size), slide=self._length(window.slide))

    def _length(self, length: int | Expression | None) -> int | None:
        if length is None or isinstance(length, int):
            return length
        world = World(Schema.of("nothing int"), self.parameters)
        return int(str(value_of(length, {}, world)))

    def _table(self, name: str, at: int) -> list[Row]:
        names = self.declared.tables[name].names
        held: Counter[Bagged] = Counter()
        for when, row, copies in self.tables[name]:
            if when <= at:
                held[Bagged.of({each: row[each] for each in names})] += copies
        return [dict(each.row) for each in held.elements()]

    def _join(self, node: Join, at: int) -> list[Row]:
        left, right = self.relation(node.left, at), self.relation(node.right, at)
        value = self._reading(node)
        pairs = [
            (one, other)
            for one in range(len(left))
            for other in range(len(right))
            if node.condition is None
            or value(node.condition, {**left[one], **right[other]}) is True
        ]
        rows = [{**left[one], **right[other]} for one, other in pairs]
        if node.kind in ("left", "full"):
            nothing = dict.fromkeys(self._schema(node.right).names)
            partnered = {one for one, _ in pairs}
            rows += [{**row, **nothing} for at, row in enumerate(left) if at not in partnered]
        if node.kind in ("right", "full"):
            nothing = dict.fromkeys(self._schema(node.left).names)
            partnered = {other for _, other in pairs}
            rows += [{**nothing, **row} for at, row in enumerate(right) if at not in partnered]
        return rows

    def _group(self, node: Group, at: int) -> list[Row]:
        value = self._reading(node.input)
        groups: dict[tuple[Any, ...], tuple[Row, list[Row]]] = {}
        if not node.keys:
            groups[()] = ({}, [])
        for row in self.relation(node.input, at):
            key = {each.name: value(each.value, row) for each in node.keys}
            groups.setdefault(tuple(map(same, key.values())), (key, []))[1].append(row)
        return [
            {**key, **{each.name: self._aggregate(each, rows, node) for each in node.aggregates}}
            for key, rows in groups.values()
        ]

    def _aggregate(self, aggregate: Aggregate, rows: list[Row], node: Group) -> object:
        value = self._reading(node.input)
        operand, where, by = aggregate.operand, aggregate.where, aggregate.by
        if where is not None:
            rows = [row for row in rows if value(where, row) is True]
        if operand is None:
            return len(rows)
        pairs = [(value(operand, row), None if by is None else value(by, row)) for row in rows]
        arrow = aggregate_type(aggregate, self._schema(node.input), self.declared)
        return aggregated(aggregate, pairs, arrow)

    def _combined(self, node: Combined, at: int) -> list[Row]:
        left, right = bag(self._as(node, node.left, at)), bag(self._as(node, node.right, at))
        if not node.keep_all:
            left, right = Counter(set(left)), Counter(set(right))
        match node.kind:
            case "union":
                found = left + right if node.keep_all else left | right
            case "except":
                found = left - right
            case "intersect":
                found = left & right
            case _:
                assert_never(node.kind)
        return [dict(each.row) for each in found.elements()]

    def _as(self, node: Combined, side: Relation, at: int) -> list[Row]:
        """Return the rows of one side with the columns of both."""
        columns = list(zip(self._schema(node), self._schema(side), strict=True))
        return [
            {
                ours.name: row[theirs.name]
                if ours.type == theirs.type
                else cast_value(Typed(theirs.type, row[theirs.name]), ours.type)
                for ours, theirs in columns
            }
            for row in self.relation(side, at)
        ]

    def _asked(self, node: Asked, at: int) -> list[Row]:
        return [
            {**row, node.name: self._answer(node, row, at)} for row in self.relation(node.input, at)
        ]

    def _answer(self, node: Asked, row: Row, at: int) -> object:
        about = replace(
            self,
            declared=self.declared.about(self._schema(node.input)),
            outer={**self.outer, **row},
        )
        rows = [list(each.values()) for each in about.relation(node.subquery, at)]
        match node.kind:
            case "exists":
                return bool(rows)
            case "in":
                value = self._reading(node.input)
                operands = [value(each, row) for each in node.operands]
                return _either([_compared(node.operator, operands, each) for each in rows])
            case "scalar":
                if len(rows) > 1:
                    raise SeveralRowsError(
                        f'subquery "{node.name}" has {len(rows)} rows at {at}, for {row}'
                    )
                return rows[0][0] if rows else None
            case _:
                assert_never(node.kind)

    def _top(self, node: Top, at: int) -> list[Row]:
        value = self._reading(node.input)
        rows = sorted(self.relation(node.input, at), key=lambda row: Bagged.of(row).place())
        for order in reversed(node.order):  # a stable sort leaves ties as they were
            keyed = [(value(order.value, row), row) for row in rows]
            valued = sorted(
                (each for each in keyed if each[0] is not None),
                key=lambda each: place(each[0]),
                reverse=order.descending,
            )
            nulls = [each for each in keyed if each[0] is None]
            rows = [row for _, row in (nulls + valued if order.nulls_first else valued + nulls)]
        parts: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            parts.setdefault(tuple(same(row[name]) for name in node.per), []).append(row)
        stop = node.offset + node.limit
        return [row for part in parts.values() for row in part[node.offset : stop]]

    def _reading(self, given: Relation) -> Reading:
        """Return what tells values of expressions over rows of a relation."""
        visible = self.declared.visible(self._schema(given))
        world = World(visible, self.parameters, self.functions, self.declared.functions)
        return lambda node, row: value_of(node, {**self.outer, **row}, world)

    def _schema(self, node: Relation) -> Schema:
        known = node, self.declared.outer
        if known not in self._schemas:
            self._schemas[known] = relation_schema(node, self.declared)
        return self._schemas[known]


def _compared(operator: Comparison, left: Sequence[object], right: Sequence[object]) -> bool | None:
    """Compare two rows as SQL does: column by column, and for all it must hold."""
    holds = [compared(operator, one, other) for one, other in zip(left, right, strict=True)]
    return False if False in holds else None if None in holds else True


def _either(truths: Sequence[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False
