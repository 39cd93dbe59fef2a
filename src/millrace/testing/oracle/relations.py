"""What CQL means: which rows a relation holds at an instant, and a stream until then.

By the definition and nothing else: slow, plain, and short enough to be checked by eye. A row is a
dictionary, a relation a list of rows (a bag), a stream a list of elements in order. Instants are
whole numbers from 0 on, and every one of them is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from millrace.plan.expressions import Expression
from millrace.plan.relation_types import Declared, aggregate_type, relation_schema
from millrace.plan.relations import (
    Aggregate,
    Combined,
    Distinct,
    Filter,
    Group,
    Join,
    Project,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Window,
    Windowed,
)
from millrace.schema import Schema
from millrace.testing.oracle.aggregates import aggregated, place, same
from millrace.testing.oracle.expressions import World, value_of

Row: TypeAlias = dict[str, Any]
Element: TypeAlias = tuple[int, Row]
"""An instant and a row."""
Change: TypeAlias = tuple[int, Row, int]
"""An instant, a row of a table, and how many copies of it come (or go, below zero)."""


@dataclass
class Definition:
    """Answers what plans mean over given streams, in order, and tables.

    >>> from millrace.plan.relations import Source, Window, Windowed
    >>> declared = Declared({"s": Schema.of("x int")})
    >>> given = Definition(declared, {"s": [(1, {"x": 10}), (3, {"x": 30})]})
    >>> given.relation(Windowed(Source("s"), Window("range", 1), "s"), 2)
    [{'s.x': 10}]
    """

    declared: Declared
    streams: Mapping[str, Sequence[Element]]
    tables: Mapping[str, Sequence[Change]] = field(default_factory=dict)
    _known: dict[tuple[Stream, int], list[Element]] = field(default_factory=dict)

    # ---- streams ---------------------------------------------------------------------------------

    def stream(self, stream: Stream, until: int) -> list[Element]:
        """Return the elements of a stream up to an instant, in order."""
        match stream:
            case Source(name):
                return [(at, row) for at, row in self.streams[name] if at <= until]
            case StreamOf():
                if until < 0:
                    return []
                if (stream, until) not in self._known:
                    before = self.stream(stream, until - 1)
                    told = [(until, row) for row in self.told(stream, until)]
                    self._known[stream, until] = before + told
                return self._known[stream, until]
            case _:
                assert_never(stream)

    def told(self, stream: StreamOf, at: int) -> list[Row]:
        """Return what a derived stream tells at one instant, in canonical order."""
        now = bag(self.relation(stream.relation, at))
        before = bag(self.relation(stream.relation, at - 1)) if at > 0 else Counter[Bagged]()
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

    # ---- relations -------------------------------------------------------------------------------

    def relation(self, node: Relation, at: int) -> list[Row]:
        """Return the rows of a relation at an instant, in no order."""
        match node:
            case Windowed(stream, window, alias):
                rows = seen(window, self.stream(stream, at), at)
                return [{f"{alias}.{name}": row[name] for name in row} for row in rows]
            case Table(name, alias):
                return self._table(name, alias, at)
            case Filter(given, condition):
                rows = self.relation(given, at)
                return [row for row in rows if self._value(condition, row, given) is True]
            case Project(given, outputs):
                return [
                    {each.name: self._value(each.value, row, given) for each in outputs}
                    for row in self.relation(given, at)
                ]
            case Join():
                return self._join(node, at)
            case Group():
                return self._group(node, at)
            case Distinct(given):
                return [dict(each.row) for each in bag(self.relation(given, at))]
            case Combined():
                return self._combined(node, at)
            case _:
                assert_never(node)

    def _table(self, name: str, alias: str, at: int) -> list[Row]:
        held: Counter[Bagged] = Counter()
        for when, row, copies in self.tables[name]:
            if when <= at:
                held[Bagged.of(row)] += copies
        rows = [dict(each.row) for each in held.elements()]
        return [{f"{alias}.{column}": row[column] for column in row} for row in rows]

    def _join(self, node: Join, at: int) -> list[Row]:
        left, right = self.relation(node.left, at), self.relation(node.right, at)
        pairs = [
            (one, other)
            for one in range(len(left))
            for other in range(len(right))
            if node.condition is None
            or self._value(node.condition, {**left[one], **right[other]}, node) is True
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
        groups: dict[tuple[Any, ...], tuple[Row, list[Row]]] = {}
        if not node.keys:
            groups[()] = ({}, [])
        for row in self.relation(node.input, at):
            key = {each.name: self._value(each.value, row, node.input) for each in node.keys}
            groups.setdefault(tuple(map(same, key.values())), (key, []))[1].append(row)
        return [
            {**key, **{each.name: self._aggregate(each, rows, node) for each in node.aggregates}}
            for key, rows in groups.values()
        ]

    def _aggregate(self, aggregate: Aggregate, rows: list[Row], node: Group) -> object:
        where = aggregate.where
        if where is not None:
            rows = [row for row in rows if self._value(where, row, node.input) is True]
        if aggregate.operand is None:
            return len(rows)
        values = [self._value(aggregate.operand, row, node.input) for row in rows]
        values = [each for each in values if each is not None]
        if aggregate.distinct:
            values = list({same(each): each for each in values}.values())
        arrow = aggregate_type(aggregate, self._schema(node.input), self.declared)
        return aggregated(aggregate.kind, values, arrow)

    def _combined(self, node: Combined, at: int) -> list[Row]:
        names = self._schema(node.left).names
        left = bag(self.relation(node.left, at))
        right = bag(
            dict(zip(names, row.values(), strict=True)) for row in self.relation(node.right, at)
        )
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

    def _value(self, node: Expression, row: Row, given: Relation) -> Any:  # noqa: ANN401
        return value_of(node, row, World(self._schema(given), types=self.declared.functions))

    def _schema(self, node: Relation) -> Schema:
        return relation_schema(node, self.declared)


# ---- windows -------------------------------------------------------------------------------------


def seen(window: Window, elements: Sequence[Element], at: int) -> list[Row]:
    """Return the rows that a window shows at an instant of a stream up to it."""
    if window.kind == "range":
        return _last_time(window, elements, at)
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for _, row in elements:
        parts.setdefault(tuple(same(row[name]) for name in window.by), []).append(row)
    return [row for part in parts.values() for row in _last_rows(window, part)]


def _last_time(window: Window, elements: Sequence[Element], at: int) -> list[Row]:
    if window.size is None:
        return [row for _, row in elements]
    if window.slide is None:
        return [row for when, row in elements if at - window.size <= when <= at]
    boundary = at // window.slide * window.slide
    return [row for when, row in elements if boundary - window.size < when <= boundary]


def _last_rows(window: Window, rows: list[Row]) -> list[Row]:
    n_rows = len(rows)
    if window.slide is not None:
        n_rows = n_rows // window.slide * window.slide
    first = 0 if window.size is None else max(n_rows - window.size, 0)
    return rows[first:n_rows]


# ---- bags and values -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Bagged:
    """A row that can be counted: NULL equals NULL there, and NaN equals NaN."""

    same: tuple[Any, ...]
    row: tuple[tuple[str, Any], ...] = field(compare=False)

    @classmethod
    def of(cls, row: Row) -> Bagged:
        """Take a row."""
        return cls(tuple(map(same, row.values())), tuple(row.items()))

    def place(self) -> tuple[Any, ...]:
        """Return what rows are ordered by: their values, NULL before all others."""
        return tuple((value is not None, *place(value)) for _, value in self.row)


def bag(rows: Iterable[Row]) -> Counter[Bagged]:
    """Count rows."""
    return Counter(Bagged.of(row) for row in rows)
