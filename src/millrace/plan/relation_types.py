"""Which columns a relation or a stream has, and of which types; what does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

import pyarrow as pa

from millrace.errors import PlanError, UnknownNameError
from millrace.plan.aggregate_types import aggregate_type
from millrace.plan.declared import Declared
from millrace.plan.expressions import Column as ColumnOf
from millrace.plan.nearest import nearest
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
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.plan.types import BOOLEAN, common_type, shown
from millrace.plan.typing import require_boolean
from millrace.plan.window_checks import check_window
from millrace.schema import Column, Schema

__all__ = ["Declared", "aggregate_type", "relation_schema", "stream_schema"]


def stream_schema(stream: Stream, declared: Declared) -> Schema:
    """Return the columns of a stream's elements.

    A stream is the same whoever reads it: in a subquery it does not see the rows around it.
    """
    match stream:
        case Source(name):
            return _declared("stream", name, declared.streams)
        case StreamOf(_, relation, every):
            if every is not None and every < 1:
                raise PlanError(f"a stream is told every {every}", hint="Tell it every 1 or more.")
            return relation_schema(relation, declared.apart())
        case _:
            assert_never(stream)


def relation_schema(node: Relation, declared: Declared) -> Schema:
    """Return the columns of a relation's rows."""
    match node:
        case Windowed() | Table():
            return _leaf(node, declared)
        case Filter(given, condition):
            schema = relation_schema(given, declared)
            require_boolean(condition, declared.type_of(condition, schema))
            return schema
        case Project(given, outputs):
            return _schema(declared, _computed(outputs, relation_schema(given, declared), declared))
        case Join():
            return _joined(node, declared)
        case Group(given, keys, aggregates):
            schema = relation_schema(given, declared)
            computed = [(each.name, aggregate_type(each, schema, declared)) for each in aggregates]
            return _schema(declared, [*_computed(keys, schema, declared), *computed])
        case Distinct(given) | Hop(given):
            return relation_schema(given, declared)
        case Combined():
            return _combined(node, declared)
        case Asked():
            return _asked(node, declared)
        case Top():
            return _top(node, declared)
        case _:
            assert_never(node)


def _leaf(node: Windowed | Table, declared: Declared) -> Schema:
    if isinstance(node, Windowed):
        schema = stream_schema(node.stream, declared)
        check_window(node.window, schema)
    else:
        schema = _declared("table", node.name, declared.tables)
    return _schema(declared, ((f"{node.alias}.{each.name}", each.type) for each in schema))


def _computed(
    outputs: tuple[Output, ...], schema: Schema, declared: Declared
) -> list[tuple[str, pa.DataType]]:
    """Return names and types; a column is passed on whatever it is, also a list."""
    known = declared.visible(schema)
    return [
        (name, known.type_of(value.name))
        if isinstance(value, ColumnOf) and value.name in known
        else (name, declared.type_of(value, schema))
        for name, value in ((each.name, each.value) for each in outputs)
    ]


def _joined(node: Join, declared: Declared) -> Schema:
    left, right = relation_schema(node.left, declared), relation_schema(node.right, declared)
    schema = _schema(declared, ((each.name, each.type) for each in (*left, *right)))
    if node.condition is not None:
        require_boolean(node.condition, declared.type_of(node.condition, schema))
    return schema


def _combined(node: Combined, declared: Declared) -> Schema:
    left, right = relation_schema(node.left, declared), relation_schema(node.right, declared)
    if len(left.names) != len(right.names):
        raise PlanError(
            f"{node.kind.upper()} has {len(left.names)} columns on the left and "
            f"{len(right.names)} on the right",
            hint="Select as many columns on both sides.",
        )
    columns = []
    for one, other in zip(left, right, strict=True):
        found = _common(one.type, other.type)
        if found is None:
            raise PlanError(
                f'column "{one.name}" is {_shown(one.type)} on the left of {node.kind.upper()} and '
                f"{_shown(other.type)} on the right",
                hint="Cast one of them.",
            )
        columns.append((one.name, found))
    return _schema(declared, columns)


def _asked(node: Asked, declared: Declared) -> Schema:
    schema = relation_schema(node.input, declared)
    answers = relation_schema(node.subquery, declared.about(schema))
    if node.operands and node.kind != "in":
        raise PlanError(f"{node.kind} compares nothing", hint="Only IN has operands.")
    match node.kind:
        case "exists":
            found = BOOLEAN
        case "in":
            _check_in(node, answers, schema, declared)
            found = BOOLEAN
        case "scalar":
            _require_columns(1, answers)
            found = answers.columns[0].type
        case _:
            assert_never(node.kind)
    return _schema(declared, [*((each.name, each.type) for each in schema), (node.name, found)])


def _check_in(node: Asked, answers: Schema, schema: Schema, declared: Declared) -> None:
    _require_columns(len(node.operands), answers)
    for operand, column in zip(node.operands, answers, strict=True):
        given = declared.type_of(operand, schema)
        if _common(given, column.type) is None:
            raise PlanError(
                f'IN compares {_shown(given)} with column "{column.name}" of the subquery, which '
                f"is {_shown(column.type)}",
                hint="Cast one of them.",
                node=operand,
            )


def _require_columns(n_columns: int, answers: Schema) -> None:
    if len(answers) != n_columns:
        raise PlanError(
            f"a subquery has {len(answers)} columns where {n_columns} are compared"
            if n_columns != 1
            else f"a subquery has {len(answers)} columns where one value is needed",
            detail=f"The columns are {', '.join(answers.names)}.",
        )


def _top(node: Top, declared: Declared) -> Schema:
    schema = relation_schema(node.input, declared)
    for what, number in (("LIMIT", node.limit), ("OFFSET", node.offset)):
        if number < 0:
            raise PlanError(f"{what} is {number}", hint="Choose 0 or more.")
    for each in node.order:
        declared.type_of(each.value, schema)
    return schema


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pa.types.is_list(one) or pa.types.is_list(other):
        return one if one == other else None
    return common_type([one, other])


def _shown(arrow: pa.DataType) -> str:
    return f"a list of {shown(arrow.value_type)}" if pa.types.is_list(arrow) else shown(arrow)


def _schema(declared: Declared, columns: Iterable[tuple[str, pa.DataType]]) -> Schema:
    return declared.schema(Column(name, found) for name, found in columns)


def _declared(what: str, name: str, known: Mapping[str, Schema]) -> Schema:
    if name not in known:
        raise UnknownNameError(
            f'{what} "{name}" does not exist',
            detail=f"There are {', '.join(known)}." if known else f"There is no {what} yet.",
            hint=nearest(name, list(known)),
        )
    return known[name]
