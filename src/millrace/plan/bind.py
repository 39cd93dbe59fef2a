"""Binding: check an expression against a schema and say which type it has.

Everything that can be refused is refused here, once, when a query is registered; what runs
later may assume that columns exist and that operands have types that mix. An error carries the
node that was refused (`error.node`), so that whoever knows the text can point at it.

A bound expression is also brought into a form that is easier to work with: a text constant
beside a date or a timestamp becomes one, and very long chains of AND or OR become flat trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from millrace.errors import MillraceError, PlanError
from millrace.plan.calls import Functions
from millrace.plan.expressions import Column, Compare, Expression, In, Literal, Parameter
from millrace.plan.fold import balanced, depth, fold, rebuilt
from millrace.plan.instants import read_date, read_timestamp
from millrace.plan.nearest import nearest
from millrace.plan.nodes import Output, Selection
from millrace.plan.spelling import to_text
from millrace.plan.types import INSTANTS, kind_of, literal_type
from millrace.plan.typing import Scope, brief, node_type, require_boolean
from millrace.schema import TIMESTAMP, Schema

__all__ = [
    "DEEPEST",
    "Functions",
    "bind_condition",
    "bind_expression",
    "bind_selection",
    "nearest",
    "output_schema",
    "type_of",
]

DEEPEST = 10_000
"""On how many levels an expression may nest."""

_Bound: TypeAlias = tuple[Expression, pa.DataType]


def bind_selection(selection: Selection, schema: Schema, functions: Functions) -> Selection:
    """Check a selection over a stream of that schema; without outputs it takes every column."""
    outputs = selection.outputs or tuple(Output(each, Column(each)) for each in schema.names)
    _check_names([each.name for each in outputs])
    bound = tuple(Output(each.name, _bind_output(each, schema, functions)) for each in outputs)
    condition = selection.condition
    if condition is not None:
        condition = bind_condition(condition, schema, functions)
    return replace(selection, outputs=bound, condition=condition)


def _check_names(names: Sequence[str]) -> None:
    seen = set[str]()
    for name in names:
        if name in seen:
            raise PlanError(f'column "{name}" appears twice in the answer', hint="Rename one.")
        if name.startswith("_"):
            raise PlanError(
                f'column name "{name}" is reserved',
                detail='Names that start with "_" belong to millrace.',
            )
        seen.add(name)


def _bind_output(output: Output, schema: Schema, functions: Functions) -> Expression:
    node, found = bind_expression(output.value, schema, functions)
    if found == pa.null():
        raise PlanError(
            f'column "{output.name}" of the answer has no type',
            detail=f"It is {to_text(output.value)}.",
            hint="Leave the column out.",
            node=output.value,
        )
    return node


def output_schema(selection: Selection, schema: Schema, functions: Functions) -> pa.Schema:
    """Return the Arrow schema of a bound selection's answer."""
    return pa.schema(
        [(each.name, type_of(each.value, schema, functions)) for each in selection.outputs]
    )


def type_of(node: Expression, schema: Schema, functions: Functions) -> pa.DataType:
    """Return the type of an expression, or raise a message that says what does not fit."""
    return _bind(node, schema, functions)[1]


def bind_condition(node: Expression, schema: Schema, functions: Functions) -> Expression:
    """Check a condition, and return it in the form in which it is run."""
    bound, found = bind_expression(node, schema, functions)
    require_boolean(node, found)
    return bound


def bind_expression(
    node: Expression, schema: Schema, functions: Functions
) -> tuple[Expression, pa.DataType]:
    """Check an expression, and return it in the form in which it is run, and its type."""
    bound, found = _bind(node, schema, functions)
    return balanced(bound), found


def _bind(node: Expression, schema: Schema, functions: Functions) -> _Bound:
    n_levels = depth(node)
    if n_levels > DEEPEST:
        raise PlanError(
            "the expression is nested too deeply",
            detail=f"It has {n_levels} levels; {DEEPEST} are allowed.",
            hint="Write a list of values with IN.",
            node=node,
        )
    scope = Scope(schema, functions)
    bound, found = fold(node, lambda each, operands: _bind_node(each, operands, scope))
    if pa.types.is_list(found):
        raise _misplaced(bound)
    return bound, found


def _bind_node(node: Expression, operands: list[_Bound], scope: Scope) -> _Bound:
    try:
        _refuse_sets(operands[:1] if isinstance(node, In) else operands)
        if isinstance(node, Compare | In):
            operands = _with_instants(operands)
        found = node_type(node, [each for _, each in operands], scope)
    except MillraceError as refused:
        refused.node = node if refused.node is None else refused.node
        raise
    return rebuilt(node, [each for each, _ in operands]), found


def _refuse_sets(operands: list[_Bound]) -> None:
    for node, found in operands:
        if pa.types.is_list(found):
            raise _misplaced(node)


def _misplaced(node: Expression) -> PlanError:
    return PlanError(f"{brief(node)} is a set, which only IN takes", node=node)


def _with_instants(operands: list[_Bound]) -> list[_Bound]:
    """Read text constants as dates or timestamps where they are compared with such."""
    kinds = {kind_of(_member(each)) for _, each in operands} - {"null"}
    if "text" not in kinds or not kinds & INSTANTS or not kinds <= INSTANTS | {"text"}:
        return operands
    daily = kinds == {"text", "date"}
    return [
        _instant(node, found, daily=daily) if kind_of(_member(found)) == "text" else (node, found)
        for node, found in operands
    ]


def _member(arrow: pa.DataType) -> pa.DataType:
    return arrow.value_type if pa.types.is_list(arrow) else arrow


def _instant(node: Expression, found: pa.DataType, *, daily: bool) -> _Bound:
    if isinstance(node, Parameter):  # its values are read when it runs
        return node, pa.list_(TIMESTAMP) if node.many else TIMESTAMP
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        return node, found
    value = read_date(node.value) if daily else None
    if value is None:
        value = read_timestamp(node.value)
    if value is None:
        raise PlanError(
            f"{brief(node)} is not a timestamp",
            hint="Write it as in '2024-05-01T12:00:00Z'.",
            node=node,
        )
    return Literal(value), literal_type(value)
