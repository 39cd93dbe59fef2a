"""Mapping: a relation with other relations below it, and other expressions in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, assert_never

from millrace.plan.expressions import Expression
from millrace.plan.nodes import Output
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
    Table,
    Top,
    Windowed,
)

OfRelations: TypeAlias = Callable[[Relation], Relation]
OfExpressions: TypeAlias = Callable[[Expression], Expression]


def mapped(node: Relation, below: OfRelations, inside: OfExpressions) -> Relation:
    """Return a relation over others, with its own expressions changed, in their order.

    Streams and subqueries stay as they are: they are not made of the rows around them.
    """
    match node:
        case Windowed() | Table():
            return node
        case Filter(given, condition):
            return Filter(below(given), inside(condition))
        case Project(given, outputs):
            return Project(below(given), outputs_mapped(outputs, inside))
        case Join(kind, left, right, condition):
            on = None if condition is None else inside(condition)
            return Join(kind, below(left), below(right), on)
        case Group(given, keys, aggregates):
            named = outputs_mapped(keys, inside)
            computed = tuple(_aggregate_mapped(each, inside) for each in aggregates)
            return Group(below(given), named, computed)
        case Distinct() | Hop():
            return replace(node, input=below(node.input))
        case Combined(_, left, right):
            return replace(node, left=below(left), right=below(right))
        case Top(given, order):
            ordered = tuple(replace(each, value=inside(each.value)) for each in order)
            return replace(node, input=below(given), order=ordered)
        case Asked(given, _, _, _, operands):
            return replace(node, input=below(given), operands=tuple(map(inside, operands)))
        case _:
            assert_never(node)


def outputs_mapped(outputs: tuple[Output, ...], inside: OfExpressions) -> tuple[Output, ...]:
    """Return columns that are computed otherwise."""
    return tuple(replace(each, value=inside(each.value)) for each in outputs)


def _aggregate_mapped(each: Aggregate, inside: OfExpressions) -> Aggregate:
    def change(value: Expression | None) -> Expression | None:
        return None if value is None else inside(value)

    return replace(each, operand=change(each.operand), where=change(each.where), by=change(each.by))
