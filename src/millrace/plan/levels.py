"""What the plan of a family may name beside streams and tables, and what its relations depend on.

    #queries   qid   birth   p0   p1 ...      the queries that stand, a row of parameters each
    #births    birth                          those that began together
    elements   ...   #birth                   the birth that sees the element

A relation depends on nothing but tables, on elements of streams, or on parameters. That is its
*level*: there is one such relation for all queries, one for each birth, or one for each query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Literal, NamedTuple, TypeAlias

import pyarrow as pa

from millrace.plan.declared import Declared
from millrace.plan.expressions import (
    Arithmetic,
    Column,
    Expression,
    Parameter,
    walk,
)
from millrace.plan.expressions import Literal as Constant
from millrace.plan.fold import fold, rebuilt
from millrace.plan.relations import Relation, Source, Stream, Windowed
from millrace.plan.scopes import inputs, own_expressions, relations_in
from millrace.schema import Column as Field
from millrace.schema import Schema

QUERIES, BIRTHS = "#queries", "#births"
"""The tables of a family: its queries with their parameters, and their births."""
QUERY, BIRTH = "qid", "birth"
SEEN_FROM = "#birth"
"""The column of an element that says for which birth it is."""
CAME = "#came"
"""The column of an element that says in which epoch it has come, where queries look at that."""
BIRTHS_SCHEMA = Schema((Field(BIRTH, pa.int64()),))
QUERIES_AS, BIRTHS_AS, ELEMENT = "#q", "#b", "#e"
"""What the tables are called in plans, and an element that is joined with queries by itself."""
GREATEST_SIZE = 2**60
"""How large a window may be by a parameter, so that instants stay within 64 bits."""


class Level(IntEnum):
    """What a relation depends on."""

    ALL = 0
    BIRTH = 1
    QUERY = 2


Types: TypeAlias = Sequence[pa.DataType]


def family_declared(declared: Declared, types: Types) -> Declared:
    """Return what the plan of a family with parameters of these types may name."""
    seen = Field(SEEN_FROM, pa.int64())
    streams = {name: Schema((*each, seen)) for name, each in declared.streams.items()}
    tables = {**declared.tables, QUERIES: queries_schema(types), BIRTHS: BIRTHS_SCHEMA}
    return replace(declared, streams=streams, tables=tables)


def queries_schema(types: Types) -> Schema:
    """Return the columns of a family's queries: the id, the birth, and the parameters."""
    parameters = (Field(f"p{at}", each) for at, each in enumerate(types))
    return Schema((Field(QUERY, pa.int64()), Field(BIRTH, pa.int64()), *parameters))


def level_of(node: Relation) -> Level:
    """Say what a relation depends on."""
    if any(map(has_parameter, own_expressions(node))):
        return Level.QUERY
    if isinstance(node, Windowed):
        return _level_of_window(node)
    return max((level_of(each) for each in inputs(node)), default=Level.ALL)


def _level_of_window(node: Windowed) -> Level:
    if node.window.computed:
        return Level.QUERY
    if isinstance(node.stream, Source):
        return Level.BIRTH
    return max(Level.BIRTH, level_of(node.stream.relation))


def has_parameter(node: Expression) -> bool:
    """Say whether an expression depends on a parameter."""
    return any(isinstance(each, Parameter) for each in walk(node))


def of_columns(node: Expression) -> Expression:
    """Return an expression over a query's row of parameters."""

    def column(each: Expression, operands: list[Expression]) -> Expression:
        if isinstance(each, Parameter):
            return Column(f"{QUERIES_AS}.p{each.number}")
        return rebuilt(each, operands)

    return fold(node, column)


def parameters_in(plan: Relation | Stream) -> Iterator[int]:
    """Yield the numbers of the parameters that a plan names."""
    for node in relations_in(plan):
        lengths = node.window.computed if isinstance(node, Windowed) else []
        for value in (*own_expressions(node), *lengths):
            yield from (each.number for each in walk(value) if isinstance(each, Parameter))


class Length(NamedTuple):
    """A parameter of a family's plan that is a length of a window; the bounds are included.

    It is named by its column in the table of queries, or by what stands for that.
    """

    name: str
    what: Literal["size", "slide"]
    least: int
    greatest: int


def lengths_in(plan: Relation | Stream) -> Iterator[Length]:
    """Yield the parameters of a family's plan that are sizes and slides of windows."""
    for node in relations_in(plan):
        if isinstance(node, Windowed):
            window = node.window
            if (found := _length(window.size)) is not None:
                least = int(window.kind == "rows")
                yield Length(found[0], "size", least, GREATEST_SIZE // found[1])
            if (found := _length(window.slide)) is not None:
                yield Length(found[0], "slide", 1, GREATEST_SIZE // found[1])


def _length(value: int | Expression | None) -> tuple[str, int] | None:
    """Return the parameter that a length is computed by, and the unit that it counts."""
    match value:
        case Arithmetic("*", Column() | Parameter() as named, Constant(int(unit))):
            pass
        case Column() | Parameter() as named:
            unit = 1
        case _:
            return None
    name = f"p{named.number}" if isinstance(named, Parameter) else named.name
    return name.removeprefix(f"{QUERIES_AS}."), unit
