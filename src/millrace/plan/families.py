"""Families: one plan for all queries that differ in nothing but parameters.

The parameters are a table, a row for each query; the family's plan is the query joined with it. A
query sees the elements of streams from its birth on, so each element comes once for every *birth*,
the queries that began together, and carries it as a column. What a relation of the plan depends on
is its *level*:

    ALL      neither: it is made of tables, and there is one for all queries
    BIRTH    on elements: there is one for each birth, and the column of the birth is a key
    QUERY    on parameters: there is one for each query, and its row of parameters is the key

A relation is raised to a higher level by a join with the table of births or of queries, where it
is used and not before: what stands below is computed and remembered once for all.

    SELECT k, count(*) FROM s [RANGE 10] GROUP BY k HAVING count(*) > $x

    join n > p0 and the birth is the same          rows of a query
      queries (qid, birth, p0)
      group by birth, k                            rows of a birth: one group for all queries

    outer joins       the preserved side is raised first; FULL raises both
    groups, top-k     the key of the level is among the keys; a global aggregate has a row for each
                      birth or query, whether there is anything to aggregate or not
    DISTINCT, sets    rows have the key among their columns
    windows           of rows: each key has rows of its own; of a size that is a parameter: each
                      query has elements of its own, which say how long they stay

Law: the rows of one query are those of its text with the constants written in, born when it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import pyarrow as pa

from millrace.plan.conditions import both, conjuncts
from millrace.plan.declared import Declared
from millrace.plan.expressions import Case, Column, Compare, Expression, IsNull, Literal
from millrace.plan.levels import (
    BIRTH,
    BIRTHS,
    BIRTHS_AS,
    ELEMENT,
    QUERIES,
    QUERIES_AS,
    QUERY,
    SEEN_FROM,
    Level,
    Types,
    has_parameter,
    level_of,
    of_columns,
    queries_schema,
)
from millrace.plan.mapping import mapped, outputs_mapped
from millrace.plan.nodes import Output
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
    StreamOf,
    Table,
    Top,
    Window,
    Windowed,
)
from millrace.plan.scopes import column_names

_QUERY_KEY, _QUERY_BIRTH = f"{QUERIES_AS}.{QUERY}", f"{QUERIES_AS}.{BIRTH}"
_BIRTH_KEY = f"{BIRTHS_AS}.{BIRTH}"
_NOW = Window("range", 0)


@dataclass(frozen=True, slots=True)
class Families:
    """Makes plans of families over what is declared; `orders` are the order columns of streams."""

    declared: Declared
    types: Types
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def stream(self, node: StreamOf) -> StreamOf:
        """Return a stream for all queries; an element has its query's row before its columns."""
        return self._told(node)

    def _told(self, node: StreamOf) -> StreamOf:
        """Return a stream of each query; that a query's birth is another now is no news of it."""
        names = [each for each in self._keys(Level.QUERY) if each != _QUERY_BIRTH]
        names += column_names(node.relation, self.declared)
        return replace(node, relation=_project(self._at(node.relation, Level.QUERY), names))

    def _keys(self, level: Level) -> list[str]:
        """Return the columns that relations of a level have before their own."""
        match level:
            case Level.ALL:
                return []
            case Level.BIRTH:
                return [_BIRTH_KEY]
            case Level.QUERY:
                names = queries_schema(self.types).names
                return [f"{QUERIES_AS}.{each}" for each in names]
            case _:
                assert_never(level)

    # ---- from level to level ---------------------------------------------------------------------

    def _at(self, node: Relation, level: Level) -> Relation:
        """Return a relation at a level, which is not below its own: its key, then its columns."""
        own = level_of(node)
        if own < level:
            return self._raised(node, level)
        return node if level == Level.ALL else self._made(node, level)

    def _raised(
        self, node: Relation, level: Level, condition: Expression | None = None
    ) -> Relation:
        """Return a relation of a lower level for each birth or query; a condition may name both."""
        own, leaf = level_of(node), _leaf(level)
        conditions = [] if condition is None else [condition]
        if own == Level.BIRTH:
            conditions.insert(0, _equal(_QUERY_BIRTH, _BIRTH_KEY))
        joined = Join("inner", leaf, self._at(node, own), both(conditions))
        names = column_names(node, self.declared)
        return _project(joined, [*self._keys(level), *names])

    def _made(self, node: Relation, level: Level) -> Relation:
        """Return a relation at its own level."""
        match node:
            case Windowed():
                return self._windowed(node, level)
            case Filter(given, condition) if level_of(given) < level:
                return self._raised(given, level, of_columns(condition))
            case Project(given, outputs):
                kept = [Output(each, Column(each)) for each in self._keys(level)]
                return Project(
                    self._at(given, level), (*kept, *outputs_mapped(outputs, of_columns))
                )
            case Join():
                return self._joined(node, level)
            case Group():
                return self._grouped(node, level)
            case Filter() | Distinct() | Combined() | Top():
                found = mapped(node, lambda each: self._at(each, level), of_columns)
                if isinstance(found, Top):
                    return replace(found, per=(*self._keys(level), *found.per))
                return found
            case Table() | Asked() | Hop():
                raise AssertionError("subqueries are unnested before, and rows travel after this")
            case _:
                assert_never(node)

    # ---- windows ---------------------------------------------------------------------------------

    def _windowed(self, node: Windowed, level: Level) -> Relation:
        if level == Level.QUERY:
            return self._own_window(node)
        stream, keys = node.stream, [SEEN_FROM]
        if isinstance(stream, StreamOf):
            stream, keys = replace(stream, relation=self._at(stream.relation, level)), [_BIRTH_KEY]
        found = Windowed(stream, _parted(node.window, keys), node.alias)
        names = column_names(node, self.declared)
        return _project(found, names, {_BIRTH_KEY: Column(f"{node.alias}.{keys[0]}")}, first=True)

    def _own_window(self, node: Windowed) -> Relation:
        """Return a window over a stream of each query, with the query's row beside it."""
        stream = self._told(node.stream if isinstance(node.stream, StreamOf) else self._now(node))
        keys = [each for each in self._keys(Level.QUERY) if each != _QUERY_BIRTH]
        window = _parted(node.window, keys)
        window = replace(window, size=_of_query(window.size), slide=_of_query(window.slide))
        names = column_names(node, self.declared)
        key = _prime(_QUERY_KEY)
        found = _project(
            Windowed(stream, window, node.alias), names, {key: Column(f"{node.alias}.{keys[0]}")}
        )
        joined = Join("inner", _leaf(Level.QUERY), found, _equal(_QUERY_KEY, key))
        return _project(joined, [*self._keys(Level.QUERY), *names])

    def _now(self, node: Windowed) -> StreamOf:
        """Return the elements of a declared stream as a stream that queries may be joined with."""
        assert isinstance(node.stream, Source), "it is no stream of a relation"
        name = node.stream.name
        order = [*self.orders.get(name, ())]
        order += [each for each in self.declared.streams[name].names if each not in order]
        values = {each: Column(f"{ELEMENT}.{each}") for each in order}
        return StreamOf("rstream", _project(Windowed(node.stream, _NOW, ELEMENT), (), values))

    # ---- joins and groups ------------------------------------------------------------------------

    def _joined(self, node: Join, level: Level) -> Relation:
        """Raise the sides that depend on the most, and those whose rows are preserved."""
        if node.kind == "inner":
            node = self._later(node)
        own = level_of(node.left), level_of(node.right)
        if node.kind == "inner" and max(own) < level:
            return self._after(node, level)
        left_level = level if node.kind in ("left", "full") else own[0]
        right_level = level if node.kind in ("right", "full") else own[1]
        left, right = self._at(node.left, left_level), self._at(node.right, right_level)
        names = column_names(node, self.declared)
        keys, others = self._keys(left_level), self._keys(right_level)
        if left_level == right_level:
            others = [_prime(each) for each in keys]
            right = _primed(right, keys, column_names(node.right, self.declared))
        pairs = list(self._pairs(keys, others))
        conditions = [] if node.condition is None else [of_columns(node.condition)]
        joined = Join(node.kind, left, right, both([*pairs, *conditions]))
        values = self._keys_of(node.kind, (left_level, keys), (right_level, others), level)
        return _project(joined, names, values, first=True)

    def _later(self, node: Join) -> Join:
        """Ask conditions with parameters about pairs and not about one side, where pairs are few.

        That is where columns of both sides are equal. A column that equals a parameter finds its
        queries at once, and is asked before.
        """
        parts = [] if node.condition is None else conjuncts(node.condition)
        if not any(_equates_columns(each) for each in parts):
            return node
        sides = []
        for side in (node.left, node.right):
            found: Relation = side
            if isinstance(side, Filter) and level_of(side.input) < Level.QUERY:
                asked = conjuncts(side.condition)
                named = [each for each in asked if has_parameter(each)]
                if not any(isinstance(each, Compare) and each.operator == "=" for each in named):
                    rest = both(each for each in asked if not has_parameter(each))
                    found = side.input if rest is None else Filter(side.input, rest)
                    parts += named
            sides.append(found)
        return Join("inner", sides[0], sides[1], both(parts))

    def _after(self, node: Join, level: Level) -> Relation:
        """Ask a condition with parameters about the pairs, which are the same for all queries."""
        assert node.condition is not None, "what depends on parameters is the condition"
        parts = conjuncts(node.condition)
        pairs = replace(node, condition=both(each for each in parts if not has_parameter(each)))
        asked = both(of_columns(each) for each in parts if has_parameter(each))
        return self._raised(pairs, level, asked)

    def _pairs(self, keys: Sequence[str], others: Sequence[str]) -> Iterator[Expression]:
        """Yield that two keys are the same; a query has one birth. Sets are not compared."""
        if len(keys) == len(others):
            types = [pa.int64(), pa.int64(), *self.types]
            for key, other, kind in zip(keys, others, types, strict=False):
                if not pa.types.is_list(kind):
                    yield _equal(key, other)
        elif keys and others:
            yield _equal(_QUERY_BIRTH, _BIRTH_KEY)

    def _keys_of(
        self,
        kind: str,
        left: tuple[Level, Sequence[str]],
        right: tuple[Level, Sequence[str]],
        level: Level,
    ) -> dict[str, Expression]:
        """Return where the key of a pair is found: on the side whose rows are all there."""
        keys = self._keys(level)
        if left[0] == right[0] and kind == "full":
            return {
                key: Case(((IsNull(Column(one)), Column(other)),), Column(one))
                for key, one, other in zip(keys, left[1], right[1], strict=True)
            }
        chosen = right[1] if left[0] < level or kind == "right" else left[1]
        return {key: Column(each) for key, each in zip(keys, chosen, strict=True)}

    def _grouped(self, node: Group, level: Level) -> Relation:
        keys = self._keys(level)
        found = mapped(node, lambda each: self._at(each, level), of_columns)
        assert isinstance(found, Group), "a group stays one"
        kept = tuple(Output(each, Column(each)) for each in keys)
        found = replace(found, keys=(*kept, *found.keys))
        return found if node.keys else self._counted(found, level)

    def _counted(self, found: Group, level: Level) -> Relation:
        """Give each birth or query its row, also if there is nothing: then counts are 0."""
        keys = self._keys(level)
        others = [_prime(each) for each in keys]
        names = [each.name for each in found.aggregates]
        right = _primed(found, keys, names)
        joined = Join("left", _leaf(level), right, both(self._pairs(keys, others)))
        values: dict[str, Expression] = {}
        for each in found.aggregates:
            value: Expression = Column(each.name)
            if each.kind == "count":
                value = Case(((IsNull(value), Literal(0)),), value)
            values[each.name] = value
        return _project(joined, keys, values)


# ---- small plans ---------------------------------------------------------------------------------


def _parted(window: Window, keys: Sequence[str]) -> Window:
    """Return a window in which each key has its own rows, where rows are counted."""
    if window.kind != "rows" or (window.size is None and window.slide is None):
        return window
    return replace(window, by=(*keys, *window.by))


def _of_query(length: int | Expression | None) -> int | Expression | None:
    """Return a length of a window that a query's row says, if it is computed."""
    return length if length is None or isinstance(length, int) else of_columns(length)


def _equates_columns(node: Expression) -> bool:
    sides = (node.left, node.right) if isinstance(node, Compare) and node.operator == "=" else ()
    return bool(sides) and all(isinstance(each, Column) for each in sides)


def _leaf(level: Level) -> Table:
    return Table(QUERIES, QUERIES_AS) if level == Level.QUERY else Table(BIRTHS, BIRTHS_AS)


def _equal(one: str, other: str) -> Expression:
    return Compare("=", Column(one), Column(other))


def _prime(name: str) -> str:
    """Return what a column of the right side is called that the left side has too."""
    return f"{name}~"


def _primed(given: Relation, keys: Iterable[str], names: Iterable[str]) -> Relation:
    return _project(given, names, {_prime(each): Column(each) for each in keys})


def _project(
    given: Relation,
    names: Iterable[str],
    values: Mapping[str, Expression] | None = None,
    *,
    first: bool = False,
) -> Project:
    """Keep some columns, and compute others, behind them or `first`."""
    kept = [Output(each, Column(each)) for each in names]
    computed = [Output(name, each) for name, each in (values or {}).items()]
    return Project(given, tuple([*computed, *kept] if first else [*kept, *computed]))
