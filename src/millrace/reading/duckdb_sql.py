"""Printing plans for DuckDB: no character of what a user wrote is in the SQL that it gets.

A plan of relations becomes one SELECT over tables l0, l1, ... that hold what its leaves show:

    columns      c0, c1, ...: each name of the plan has a number
    constants    numbers as we spell them; texts and bytes are parameters, $1, $2, ...
    expressions  comparisons of equal types, logic, CASE and IN as they are; what DuckDB computes in
                 another way than we do (x / 0, overflow, casts, functions, mixed types) is a
                 function f0, f1, ... that our own operators evaluate over batches of its columns
    aggregates   counts, least and greatest, sums of whole numbers as they are; what is rounded is
                 a function of the list of a group's values (`exact_lists`)

So every value is one of ours, and DuckDB joins, groups and sorts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

import pyarrow as pa

from millrace.operators.evaluate import Function as Registered
from millrace.plan.aggregate_types import aggregate_type
from millrace.plan.declared import Declared
from millrace.plan.expressions import Cast, Column, Expression, Literal, walk
from millrace.plan.nodes import Output
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import (
    ALL_ROWS,
    Aggregate,
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Order,
    Project,
    Relation,
    Table,
    Top,
    Windowed,
)
from millrace.plan.scopes import own_expressions, relations_in
from millrace.plan.types import common_type, kind_of
from millrace.reading.duckdb_terms import Terms
from millrace.reading.duckdb_types import stored_type, type_word
from millrace.schema import Schema, type_name

Leaf: TypeAlias = Windowed | Table


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table that a leaf of the plan becomes: which of its columns, and what they are called."""

    leaf: Leaf
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ListFunction:
    """A function of the list of a group's values; the result is of type `arrow`."""

    aggregate: Aggregate
    operand: pa.DataType
    arrow: pa.DataType

    @property
    def numbers(self) -> bool:
        """Whether it is of the number of values, and says which of them is meant."""
        return self.aggregate.kind == "percentile_disc"


@dataclass
class Printed:
    """What DuckDB is to run: SQL, the tables to load, and the functions that it may call."""

    declared: Declared
    terms: Terms
    tables: list[Loaded] = field(default_factory=list)
    lists: list[ListFunction] = field(default_factory=list)
    needed: frozenset[str] = frozenset()
    sql: str = ""


def printed(
    plan: Relation, declared: Declared, functions: Mapping[str, Registered] | None = None
) -> Printed:
    """Print a plan over what is declared; `functions` are the registered ones."""
    found = Printed(declared, Terms(declared.functions, functions or {}))
    found.needed = frozenset(_needed(plan, declared))
    found.sql = _Printer(found, declared).relation(plan)
    return found


def _needed(plan: Relation, declared: Declared) -> set[str]:
    """Return the columns of leaves that something reads: by name, or because all are compared."""
    names: set[str] = set(relation_schema(plan, declared).names)
    for node in relations_in(plan):
        for value in own_expressions(node):
            names |= {each.name for each in walk(value) if isinstance(each, Column)}
        if isinstance(node, Distinct | Combined | Top | Asked):
            names |= {f"{each.alias}.*" for each in _bare_leaves(node)}
    return names


def _bare_leaves(node: Relation) -> list[Leaf]:
    """Return the leaves of a relation of which no projection chooses columns."""
    match node:
        case Windowed() | Table():
            return [node]
        case Project() | Group():
            return []
        case Join() | Combined():
            return _bare_leaves(node.left) + _bare_leaves(node.right)
        case Asked():
            return _bare_leaves(node.input) + _bare_leaves(node.subquery)
        case Filter() | Distinct() | Top() | Hop():
            return _bare_leaves(node.input)
        case _:
            assert_never(node)


@dataclass
class _Printer:
    """Prints relations in one scope: within a subquery more is visible."""

    out: Printed
    declared: Declared

    def relation(self, node: Relation) -> str:  # noqa: C901  a case for each node
        """Print a relation as a query."""
        match node:
            case Windowed() | Table():
                return self._leaf(node)
            case Filter(given, condition):
                where = self._value(condition, given)
                return f"SELECT * FROM ({self.relation(given)}) WHERE {where}"
            case Project(given, outputs):
                items = self._items([(each.name, each.value) for each in outputs], given)
                return f"SELECT {items} FROM ({self.relation(given)})"
            case Join(kind, left, right, condition):
                on = "TRUE" if condition is None else self._value(condition, node)
                sides = f"({self.relation(left)}) {kind.upper()} JOIN ({self.relation(right)})"
                return f"SELECT * FROM {sides} ON {on}"
            case Group():
                return self._group(node)
            case Distinct(given):
                return f"SELECT DISTINCT * FROM ({self.relation(given)})"
            case Combined():
                return self._combined(node)
            case Asked(given, name):
                answer = f"{self._answer(node)} AS {self._column(name)}"
                return f"SELECT *, {answer} FROM ({self.relation(given)})"
            case Hop(given):
                return self.relation(given)
            case Top():
                return self._top(node)
            case _:
                assert_never(node)

    # ---- parts -----------------------------------------------------------------------------------

    def _schema(self, node: Relation) -> Schema:
        return relation_schema(node, self.declared)

    def _column(self, name: str) -> str:
        return self.out.terms.column(name)

    def _value(self, node: Expression, given: Relation) -> str:
        return self.out.terms.text(node, self.declared.visible(self._schema(given)))

    def _items(self, values: Sequence[tuple[str, Expression]], given: Relation) -> str:
        schema = self.declared.visible(self._schema(given))
        terms = self.out.terms
        return ", ".join(f"{terms.text(each, schema)} AS {terms.column(name)}"
                         for name, each in values)  # fmt: skip

    def _leaf(self, node: Leaf) -> str:
        names = self._schema(node).names
        needed = self.out.needed
        kept = [each for each in names if each in needed or f"{node.alias}.*" in needed]
        kept = kept or [names[0]]  # of rows that are only counted
        pairs = tuple((name.removeprefix(f"{node.alias}."), self._column(name)) for name in kept)
        self.out.tables.append(Loaded(node, pairs))
        columns = ", ".join(column for _, column in pairs)
        return f"SELECT {columns} FROM l{len(self.out.tables) - 1}"

    def _as(self, node: Relation, types: Sequence[pa.DataType]) -> str:
        """Print a relation with its columns cast to other types."""
        columns = list(zip(self._schema(node), types, strict=True))
        if all(each.type == wanted for each, wanted in columns):
            return self.relation(node)
        outputs = tuple(
            Output(each.name, Column(each.name) if each.type == wanted
                   else Cast(Column(each.name), type_name(wanted)))
            for each, wanted in columns
        )  # fmt: skip
        return self.relation(Project(node, outputs))

    def _combined(self, node: Combined) -> str:
        types = [each.type for each in self._schema(node)]
        left, right = self._as(node.left, types), self._as(node.right, types)
        columns = [self._column(each) for each in self._schema(node.left).names]
        named = f"SELECT * FROM ({right}) AS r({', '.join(columns)})"
        return f"({left}) {node.kind.upper()} {'ALL' if node.keep_all else ''} ({named})"

    def _top(self, node: Top) -> str:
        assert not node.per, "the first rows of each value are of families alone"
        given_order = [each for each in node.order if not isinstance(each.value, Literal)]
        order = [self._ordered(each, node.input) for each in given_order]
        order += [
            f"{self._column(each)} ASC NULLS FIRST" for each in self._schema(node.input).names
        ]
        limit = "" if node.limit == ALL_ROWS else f" LIMIT {node.limit}"
        offset = f" OFFSET {node.offset}" if node.offset else ""
        given = self.relation(node.input)
        return f"SELECT * FROM ({given}) ORDER BY {', '.join(order)}{limit}{offset}"

    def _ordered(self, order: Order, given: Relation) -> str:
        value = self._value(order.value, given)
        way = "DESC" if order.descending else "ASC"
        return f"{value} {way} NULLS {'FIRST' if order.nulls_first else 'LAST'}"

    # ---- subqueries ------------------------------------------------------------------------------

    def _answer(self, node: Asked) -> str:
        inside = replace(self, declared=self.declared.about(self._schema(node.input)))
        match node.kind:
            case "exists":
                return f"EXISTS ({inside.relation(node.subquery)})"
            case "scalar":
                return f"({inside.relation(node.subquery)})"
            case "in":
                return self._contains(node, inside)
            case _:
                assert_never(node.kind)

    def _contains(self, node: Asked, inside: _Printer) -> str:
        """Print IN; of several columns by what it means, which DuckDB does not do if correlated."""
        schema = self._schema(node.input)
        found = inside._schema(node.subquery)
        types = []
        for operand, column in zip(node.operands, found, strict=True):
            both = common_type([self.declared.type_of(operand, schema), column.type])
            assert both is not None, "the binder lets only types through that mix"
            types.append(both)
        operands = [
            self._value(self._cast(each, arrow, schema), node.input)
            for each, arrow in zip(node.operands, types, strict=True)
        ]
        answers = inside._as(node.subquery, types)
        if len(operands) == 1:
            return f"({operands[0]} {node.operator} ANY ({answers}))"
        columns = map(self._column, found.names)
        pairs = zip(operands, columns, strict=True)
        equal = " AND ".join(f"{operand} = {column}" for operand, column in pairs)
        again = inside._as(node.subquery, types)
        return (
            f"CASE WHEN EXISTS (SELECT * FROM ({answers}) WHERE {equal}) THEN TRUE "
            f"WHEN EXISTS (SELECT * FROM ({again}) WHERE ({equal}) IS NULL) THEN NULL "
            "ELSE FALSE END"
        )

    def _cast(self, node: Expression, arrow: pa.DataType, schema: Schema) -> Expression:
        given = self.declared.type_of(node, schema)
        return node if arrow in (given, pa.null()) else Cast(node, type_name(arrow))

    # ---- groups ----------------------------------------------------------------------------------

    def _group(self, node: Group) -> str:
        """Print a group over computed columns: sum(x) would be taken to where x is from."""
        schema = self._schema(node.input)
        parts = [(each.name, each.value) for each in node.keys]
        for each in node.aggregates:
            found = {"of": each.operand, "by": each.by, "where": each.where}
            parts += [(f"{each.name}.{what}", value) for what, value in found.items() if value]
        computed = self._items(parts, node.input) or "1 AS one"
        keys = [self._column(each.name) for each in node.keys]
        calls = [
            f"{self._call(each, schema)} AS {self._column(each.name)}" for each in node.aggregates
        ]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        given = f"SELECT {computed} FROM ({self.relation(node.input)})"
        return f"SELECT {', '.join([*keys, *calls]) or '1 AS one'} FROM ({given}){by}"

    def _call(self, each: Aggregate, schema: Schema) -> str:
        """Print an aggregate over the computed columns."""
        conditions = [] if each.where is None else [self._column(f"{each.name}.where")]
        if each.operand is None:
            return f"count(*){_filter(conditions)}"
        operand, distinct = self._column(f"{each.name}.of"), "DISTINCT " if each.distinct else ""
        given = self.declared.type_of(each.operand, schema)
        match each.kind:
            case "count" | "min" | "max" | "bit_and" | "bit_or" | "bit_xor":
                return f"{each.kind}({distinct}{operand}){_filter(conditions)}"
            case "first" | "last":  # of ties the least or the greatest
                way, by = "ASC" if each.kind == "first" else "DESC", self._column(f"{each.name}.by")
                conditions += [f"{operand} IS NOT NULL", f"{by} IS NOT NULL"]
                order = f"ORDER BY {by} {way}, {operand} {way}"
                return f"(list({operand} {order}){_filter(conditions)})[1]"
            case "array_agg" | "string_agg":
                return self._listed(each, operand, conditions)
            case "mode":
                where = _filter([*conditions, f"{operand} IS NOT NULL"])
                values = f"list({operand} ORDER BY {operand}){where}"
                number = self._list_function(ListFunction(each, stored_type(given), pa.int64()))
                return f"({values})[{number}({values})]"
            case "covar_pop" | "covar_samp" | "corr":
                return self._paired(each, schema, conditions)
            case "sum" if kind_of(given) != "floating":
                total = f"sum({distinct}{operand}){_filter(conditions)}"
                arrow = aggregate_type(each, schema, self.declared)
                return f"CAST({total} AS {type_word(arrow)})"
            case "percentile_disc":
                return self._reaching(each, operand, conditions, distinct)
            case _:
                return self._of_list(each, schema, given, (operand, distinct, conditions))

    def _listed(self, each: Aggregate, operand: str, conditions: list[str]) -> str:
        """Print a list in its order, or the texts in it, joined."""
        if each.kind == "string_agg":
            conditions = [*conditions, f"{operand} IS NOT NULL"]
        order = f"{operand} ASC NULLS FIRST"
        if each.by is not None:
            way = "DESC" if each.descending else "ASC"
            nulls = "FIRST" if each.nulls_first else "LAST"
            by = operand if each.distinct else self._column(f"{each.name}.by")
            order = f"{by} {way} NULLS {nulls}" + ("" if each.distinct else f", {order}")
        distinct = "DISTINCT " if each.distinct else ""
        values = f"list({distinct}{operand} ORDER BY {order}){_filter(conditions)}"
        if each.separator is None:
            return values
        separator = self.out.terms.constant(each.separator, pa.string())
        return f"array_to_string({values}, {separator})"

    def _paired(self, each: Aggregate, schema: Schema, conditions: list[str]) -> str:
        """Print an aggregate of two numbers of each row, which are listed together."""
        assert each.operand is not None, "it is of two numbers"
        assert each.by is not None, "it is of two numbers"
        operands = [self._column(f"{each.name}.{what}") for what in ("of", "by")]
        fields = [
            pa.field(name, stored_type(self.declared.type_of(value, schema)))
            for name, value in zip(("a", "b"), (each.operand, each.by), strict=True)
        ]
        where = _filter([*conditions, *(f"{operand} IS NOT NULL" for operand in operands)])
        name = self._list_function(ListFunction(each, pa.struct(fields), pa.float64()))
        return f"{name}(list(struct_pack(a := {operands[0]}, b := {operands[1]})){where})"

    def _reaching(self, each: Aggregate, operand: str, conditions: list[str], distinct: str) -> str:
        """Print the first value up to which the share of values is the fraction or more."""
        where = _filter([*conditions, f"{operand} IS NOT NULL"])
        way = "DESC" if each.descending else "ASC"
        number = self._list_function(ListFunction(each, pa.int64(), pa.int64()))
        values = f"list({distinct}{operand} ORDER BY {operand} {way}){where}"
        return f"({values})[{number}(count({distinct}{operand}){where})]"

    def _of_list(
        self,
        each: Aggregate,
        schema: Schema,
        given: pa.DataType,
        written: tuple[str, str, list[str]],
    ) -> str:
        operand, distinct, conditions = written
        where = _filter([*conditions, f"{operand} IS NOT NULL"])
        arrow, order = aggregate_type(each, schema, self.declared), ""
        if each.kind == "percentile_cont":
            order = f" ORDER BY {operand}"
        name = self._list_function(ListFunction(each, stored_type(given), arrow))
        return f"{name}(list({distinct}{operand}{order}){where})"

    def _list_function(self, function: ListFunction) -> str:
        self.out.lists.append(function)
        return f"g{len(self.out.lists) - 1}"


def _filter(conditions: Sequence[str]) -> str:
    return f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
