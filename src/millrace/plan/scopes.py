"""Scopes of plans: which columns a relation has, and which it names that are not its own.

Inside a subquery expressions may name columns of the rows that it is asked about. A column of the
same name within hides them; case does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never

from millrace.plan.declared import Declared
from millrace.plan.expressions import Column, Expression, walk
from millrace.plan.fold import fold, rebuilt
from millrace.plan.mapping import mapped
from millrace.plan.relation_types import stream_schema
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


def column_names(node: Relation, declared: Declared) -> list[str]:
    """Return the names of a relation's columns; it may be part of a subquery."""
    match node:
        case Windowed(stream, _, alias):
            return [f"{alias}.{each}" for each in _stream_names(stream, declared)]
        case Table(name, alias):
            return [f"{alias}.{each}" for each in declared.tables[name].names]
        case Filter(given) | Distinct(given) | Top(given) | Hop(given):
            return column_names(given, declared)
        case Project(_, outputs):
            return [each.name for each in outputs]
        case Join(_, left, right):
            return [*column_names(left, declared), *column_names(right, declared)]
        case Group(_, keys, aggregates):
            return [*(each.name for each in keys), *(each.name for each in aggregates)]
        case Combined(_, left):
            return column_names(left, declared)
        case Asked(given, name):
            return [*column_names(given, declared), name]
        case _:
            assert_never(node)


def _stream_names(stream: Stream, declared: Declared) -> list[str]:
    if isinstance(stream, Source):
        return list(stream_schema(stream, declared).names)
    return column_names(stream.relation, declared)


def _near(node: Relation, declared: Declared) -> set[str]:
    """Return the columns that a relation's own expressions are about."""
    return {each.casefold() for given in inputs(node) for each in column_names(given, declared)}


def expressions_within(node: Relation) -> Iterator[Expression]:
    """Yield the expressions of a relation and of those below; streams name nothing around them."""
    yield from own_expressions(node)
    for each in inputs(node):
        yield from expressions_within(each)
    if isinstance(node, Asked):
        yield from expressions_within(node.subquery)


def inputs(node: Relation) -> tuple[Relation, ...]:
    """Return the relations that a relation is made of, but for subqueries."""
    match node:
        case Windowed() | Table():
            return ()
        case Join() | Combined():
            return node.left, node.right
        case Filter() | Project() | Group() | Distinct() | Top() | Asked() | Hop():
            return (node.input,)
        case _:
            assert_never(node)


def below(node: Relation) -> tuple[Relation, ...]:
    """Return the relations that a relation is made of, also by a stream that is told of one."""
    if isinstance(node, Windowed) and isinstance(node.stream, StreamOf):
        return (node.stream.relation,)
    return inputs(node)


def with_below(node: Relation, given: Sequence[Relation]) -> Relation:
    """Return a relation that is made of others in the same way."""
    match node:
        case Windowed(StreamOf() as stream):
            return replace(node, stream=replace(stream, relation=given[0]))
        case Windowed() | Table():
            return node
        case Join() | Combined():
            return replace(node, left=given[0], right=given[1])
        case Filter() | Project() | Group() | Distinct() | Top() | Asked() | Hop():
            return replace(node, input=given[0])
        case _:
            assert_never(node)


def relations_in(plan: Relation | Stream) -> Iterator[Relation]:
    """Yield all relations that a plan is made of, also those of its streams and subqueries."""
    waiting = [plan]
    while waiting:
        node = waiting.pop(0)
        match node:
            case Source():
                continue
            case StreamOf():
                waiting.append(node.relation)
                continue
            case Windowed():
                waiting.append(node.stream)
            case Asked():
                waiting.append(node.subquery)
        yield node
        waiting.extend(inputs(node))


def upwards(node: Relation) -> Iterator[Relation]:
    """Yield a relation and those below, each behind what it is made of."""
    for each in below(node):
        yield from upwards(each)
    yield node


def own_expressions(node: Relation) -> Iterator[Expression]:
    """Yield the expressions of a relation, over rows of what it is made of."""
    match node:
        case Filter():
            yield node.condition
        case Project():
            yield from (each.value for each in node.outputs)
        case Join():
            if node.condition is not None:
                yield node.condition
        case Group():
            yield from (each.value for each in node.keys)
            for aggregate in node.aggregates:
                parts = (aggregate.operand, aggregate.where, aggregate.by)
                yield from (part for part in parts if part is not None)
        case Asked():
            yield from node.operands
        case Top():
            yield from (each.value for each in node.order)


def free(node: Relation, declared: Declared) -> set[str]:
    """Return the columns that a relation names and that are of rows around it."""
    near = _near(node, declared)
    found = {
        each.name
        for value in own_expressions(node)
        for each in walk(value)
        if isinstance(each, Column) and each.name.casefold() not in near
    }
    for given in inputs(node):
        found |= free(given, declared)
    if isinstance(node, Asked):
        inside = free(node.subquery, declared)
        found |= {each for each in inside if each.casefold() not in near}
    return found


def renamed(node: Relation, names: Mapping[str, str], declared: Declared) -> Relation:
    """Call columns of rows around a relation by other names, wherever it names them."""
    if not names:
        return node
    near = _near(node, declared)
    seen = {name: other for name, other in names.items() if name.casefold() not in near}
    again = partial(renamed, names=names, declared=declared)
    found = mapped(node, again, partial(swapped, names=seen))
    if isinstance(found, Asked):
        return replace(found, subquery=renamed(found.subquery, seen, declared))
    return found


def swapped(node: Expression, names: Mapping[str, str]) -> Expression:
    """Call columns of an expression by other names."""

    def rename(each: Expression, operands: list[Expression]) -> Expression:
        if isinstance(each, Column):
            return Column(names.get(each.name, each.name))
        return rebuilt(each, operands)

    return fold(node, rename)
