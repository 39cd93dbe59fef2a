"""Binding: check an expression against a schema and say which type it has.

Everything that can be refused is refused here, once, when a query is registered; what runs
later may assume that columns exist and that both sides of a comparison have one type.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from millrace.errors import PlanError, SchemaError, UnknownNameError
from millrace.plan.expressions import (
    Both,
    Call,
    Column,
    Compare,
    Either,
    Expression,
    IsNull,
    Literal,
    Not,
    to_text,
)
from millrace.plan.nodes import Output, Selection
from millrace.schema import Schema, type_name

Functions = Mapping[str, pa.DataType]
"""The registered functions: each one's name and the type of what it returns."""


def bind_selection(selection: Selection, schema: Schema, functions: Functions) -> Selection:
    """Check a selection over a stream of that schema; without outputs it takes every column."""
    outputs = selection.outputs or tuple(Output(each, Column(each)) for each in schema.names)
    names = [each.name for each in outputs]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f'column "{name}" appears twice in the answer', hint="Rename one.")
        if name.startswith("_"):
            raise PlanError(
                f'column name "{name}" is reserved',
                detail='Names that start with "_" belong to millrace.',
            )
    bound = replace(selection, outputs=outputs)
    for each in outputs:
        if type_of(each.value, schema, functions) == pa.null():
            raise PlanError(
                f'column "{each.name}" of the answer has no type',
                detail=f"It is {to_text(each.value)}.",
                hint="Leave the column out.",
            )
    if bound.condition is not None:
        _require_boolean(bound.condition, schema, functions)
    return bound


def output_schema(selection: Selection, schema: Schema, functions: Functions) -> pa.Schema:
    """Return the Arrow schema of a bound selection's answer."""
    return pa.schema(
        [(each.name, type_of(each.value, schema, functions)) for each in selection.outputs]
    )


def type_of(node: Expression, schema: Schema, functions: Functions) -> pa.DataType:
    """Return the type of an expression, or raise a message that says what does not fit."""
    match node:
        case Column(name):
            return _column_type(name, schema)
        case Literal(value):
            return _literal_type(value)
        case Compare(_, left, right):
            _require_comparable(node, schema, functions, left, right)
            return pa.bool_()
        case Both(left, right) | Either(left, right):
            _require_boolean(left, schema, functions)
            _require_boolean(right, schema, functions)
            return pa.bool_()
        case Not(operand):
            _require_boolean(operand, schema, functions)
            return pa.bool_()
        case IsNull(operand):
            type_of(operand, schema, functions)
            return pa.bool_()
        case Call(function, arguments):
            for each in arguments:
                type_of(each, schema, functions)
            return _function_type(function, functions)
        case _:
            assert_never(node)


def nearest(name: str, known: list[str]) -> str:
    """Return a hint that names the known word most like `name`, or nothing."""
    close = difflib.get_close_matches(name, known, n=1)
    return f'Did you mean "{close[0]}"?' if close else ""


def _column_type(name: str, schema: Schema) -> pa.DataType:
    if name not in schema:
        raise SchemaError(
            f'column "{name}" does not exist',
            detail=f"The columns are {', '.join(schema.names)}.",
            hint=nearest(name, list(schema.names)),
        )
    return schema.type_of(name)


def _literal_type(value: object) -> pa.DataType:
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise PlanError(f"{value} is out of the range of bigint", hint="Write it as a double.")
        return pa.int64()
    return pa.float64() if isinstance(value, float) else pa.string()


def _function_type(name: str, functions: Functions) -> pa.DataType:
    if name not in functions:
        raise UnknownNameError(
            f'function "{name}" does not exist',
            detail=f"The registered functions are {', '.join(functions) or 'none'}.",
            hint=nearest(name, list(functions))
            or "Register it with Session.function before the query.",
        )
    return functions[name]


def _require_boolean(node: Expression, schema: Schema, functions: Functions) -> None:
    found = type_of(node, schema, functions)
    if found not in (pa.bool_(), pa.null()):
        raise PlanError(
            f"{to_text(node)} is {type_name(found)} where a condition is needed",
            hint="Compare it with something.",
        )


def _require_comparable(
    node: Compare, schema: Schema, functions: Functions, left: Expression, right: Expression
) -> None:
    kinds = [type_of(left, schema, functions), type_of(right, schema, functions)]
    if pa.null() in kinds or _kind(kinds[0]) == _kind(kinds[1]):
        return
    constants = {_kind(kind) for kind, side in zip(kinds, (left, right), strict=True)
                 if isinstance(side, Literal)}  # fmt: skip
    if constants == {"text"} and {_kind(each) for each in kinds} <= {"text", "time", "day"}:
        _require_instants(left, right)
        return
    raise PlanError(
        f"{to_text(node)} compares {type_name(kinds[0])} with {type_name(kinds[1])}",
        hint="Compare values of one kind.",
    )


def _require_instants(*sides: Expression) -> None:
    for side in sides:
        if isinstance(side, Literal):
            try:
                pa.array([side.value], pa.string()).cast(pa.timestamp("us", tz="UTC"))
            except pa.ArrowInvalid:
                raise PlanError(
                    f"{to_text(side)} is not a timestamp",
                    hint="Write it as in '2024-05-01T12:00:00Z'.",
                ) from None


def _kind(arrow: pa.DataType) -> str:
    if pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow):
        return "number"
    if pa.types.is_timestamp(arrow):
        return "time"
    if pa.types.is_date(arrow):
        return "day"
    if pa.types.is_string(arrow):
        return "text"
    return str(arrow)
