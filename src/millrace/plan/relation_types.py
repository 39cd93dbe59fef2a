"""Which columns a relation or a stream has, and of which types; what does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import pyarrow as pa

from millrace.errors import PlanError, UnknownNameError
from millrace.plan.bind import type_of
from millrace.plan.calls import Functions
from millrace.plan.nearest import nearest
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
    Windowed,
)
from millrace.plan.types import common_type, kind_of, scale_of, shown
from millrace.plan.typing import require_boolean
from millrace.schema import Column, Schema

_NUMBERS = ("integer", "decimal", "floating")


@dataclass(frozen=True, slots=True)
class Declared:
    """The streams, tables and functions that a plan may name."""

    streams: Mapping[str, Schema]
    tables: Mapping[str, Schema] = field(default_factory=dict)
    functions: Functions = field(default_factory=dict)


def stream_schema(stream: Stream, declared: Declared) -> Schema:
    """Return the columns of a stream's elements."""
    match stream:
        case Source(name):
            return _declared("stream", name, declared.streams)
        case StreamOf(_, relation, _):
            return relation_schema(relation, declared)
        case _:
            assert_never(stream)


def relation_schema(node: Relation, declared: Declared) -> Schema:
    """Return the columns of a relation's rows."""
    match node:
        case Windowed(stream, window, alias):
            schema = stream_schema(stream, declared)
            for name in window.by:
                _require_column(name, schema)
            return _aliased(schema, alias)
        case Table(name, alias):
            return _aliased(_declared("table", name, declared.tables), alias)
        case Filter(given, condition):
            schema = relation_schema(given, declared)
            require_boolean(condition, type_of(condition, schema, declared.functions))
            return schema
        case Project(given, outputs):
            schema = relation_schema(given, declared)
            return _schema(
                (each.name, type_of(each.value, schema, declared.functions)) for each in outputs
            )
        case Join():
            return _joined(node, declared)
        case Group(given, keys, aggregates):
            schema = relation_schema(given, declared)
            grouped = [
                (each.name, type_of(each.value, schema, declared.functions)) for each in keys
            ]
            computed = [(each.name, aggregate_type(each, schema, declared)) for each in aggregates]
            return _schema([*grouped, *computed])
        case Distinct(given):
            return relation_schema(given, declared)
        case Combined():
            return _combined(node, declared)
        case _:
            assert_never(node)


def aggregate_type(aggregate: Aggregate, schema: Schema, declared: Declared) -> pa.DataType:
    """Return the type of an aggregate over rows of these columns."""
    if aggregate.where is not None:
        require_boolean(aggregate.where, type_of(aggregate.where, schema, declared.functions))
    if aggregate.operand is None:
        return pa.int64()
    given = type_of(aggregate.operand, schema, declared.functions)
    match aggregate.kind:
        case "count":
            return pa.int64()
        case "min" | "max":
            return given
        case "sum" | "avg":
            if kind_of(given) not in _NUMBERS:
                raise PlanError(
                    f"{aggregate.kind} of {shown(given)}",
                    hint=f"{aggregate.kind} takes numbers.",
                    node=aggregate.operand,
                )
            return _sum_type(given) if aggregate.kind == "sum" else pa.float64()
        case _:
            assert_never(aggregate.kind)


def _sum_type(given: pa.DataType) -> pa.DataType:
    match kind_of(given):
        case "integer":
            return pa.int64()
        case "decimal":
            return pa.decimal128(38, scale_of(given))
        case _:
            return pa.float64()


def _joined(node: Join, declared: Declared) -> Schema:
    left, right = relation_schema(node.left, declared), relation_schema(node.right, declared)
    schema = _schema((each.name, each.type) for each in (*left, *right))
    if node.condition is not None:
        require_boolean(node.condition, type_of(node.condition, schema, declared.functions))
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
        found = common_type([one.type, other.type])
        if found is None:
            raise PlanError(
                f'column "{one.name}" is {shown(one.type)} on the left of {node.kind.upper()} and '
                f"{shown(other.type)} on the right",
                hint="Cast one of them.",
            )
        columns.append((one.name, found))
    return _schema(columns)


def _aliased(schema: Schema, alias: str) -> Schema:
    return _schema((f"{alias}.{each.name}", each.type) for each in schema)


def _schema(columns: Iterable[tuple[str, pa.DataType]]) -> Schema:
    return Schema(tuple(Column(name, found) for name, found in columns))


def _declared(what: str, name: str, known: Mapping[str, Schema]) -> Schema:
    if name not in known:
        raise UnknownNameError(
            f'{what} "{name}" does not exist',
            detail=f"There are {', '.join(known)}." if known else f"There is no {what} yet.",
            hint=nearest(name, list(known)),
        )
    return known[name]


def _require_column(name: str, schema: Schema) -> None:
    if name not in schema:
        raise PlanError(
            f'column "{name}" does not exist',
            detail=f"The columns are {', '.join(schema.names)}.",
            hint=nearest(name, schema.names),
        )
