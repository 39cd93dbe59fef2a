"""Rows in a body, in JSON or Arrow, brought into declared columns before they travel on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from fastapi import Request

from millrace.connectors.decode import decode_json_column
from millrace.engine.parameters import SET, set_or_type
from millrace.errors import SchemaError
from millrace.schema import MISFITS, Column, Schema, type_named
from millrace.server.answers_http import ARROW, JSON
from millrace.server.arrow_checks import read_arrow, require_few
from millrace.server.limits import Limits
from millrace.server.pushing import BadRowsError

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"type": "array", "items": {"type": "object"}}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
"""What a route that takes rows says of its body."""

OfJson: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], pa.Table]


async def body_table(request: Request, limits: Limits, *, of_json: OfJson) -> pa.Table:
    """Read the rows of a request, beside the event loop: a million of them take a while."""
    most_rows = limits.push_rows
    body = await request.body()
    kind = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    if kind == ARROW:
        return await asyncio.to_thread(
            read_arrow, body, most_rows=most_rows, body_bytes=limits.body_bytes
        )
    return await asyncio.to_thread(lambda: of_json(_listed(body, most_rows)))


def _listed(body: bytes, most_rows: int) -> list[dict[str, Any]]:
    try:
        rows: Any = json.loads(body)
    except (ValueError, RecursionError) as cause:
        raise SchemaError("the body is not JSON", detail=f"{cause}.") from cause
    if isinstance(rows, list):
        require_few(len(rows), most_rows)
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise SchemaError("the body is not an array of rows", hint='Send [{"column": value}, …].')
    return rows


def given_table(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pa.Table:
    """Return rows as a table of those columns; columns that no row has are left out."""
    _require_known(rows, schema.names)
    named = {name for row in rows for name in row}
    kept = Schema(tuple(each for each in schema if each.name in named) or schema.columns)
    texts = pa.array([json.dumps(each) for each in rows], pa.string())
    decoded = decode_json_column(texts, kept)
    if decoded.rejects.num_rows:
        raise BadRowsError(decoded)
    return pa.Table.from_batches([decoded.rows], kept.to_arrow())


def given_parameters(
    rows: Sequence[Mapping[str, Any]], parameters: Sequence[tuple[str, str]]
) -> pa.Table:
    """Return rows of parameters as a table; sets are lists."""
    _require_known(rows, [name for name, _ in parameters])
    plain = [(name, kind) for name, kind in parameters if not kind.endswith(SET)]
    columns: dict[str, Any] = {}
    if plain:
        schema = Schema(tuple(Column(name, type_named(kind)) for name, kind in plain))
        texts = [{name: row.get(name) for name, _ in plain} for row in rows]
        decoded = decode_json_column(pa.array([json.dumps(each) for each in texts]), schema)
        if decoded.rejects.num_rows:
            raise BadRowsError(decoded)
        columns = dict(zip(schema.names, decoded.rows.columns, strict=True))
    for name, kind in parameters:
        if kind.endswith(SET):
            try:
                columns[name] = pa.array([row.get(name) for row in rows], set_or_type(kind))
            except (*MISFITS, TypeError) as cause:
                raise SchemaError(
                    f'parameter "{name}" is not a set of {kind.removesuffix(SET)}',
                    detail=f"Arrow says: {cause}.",
                ) from cause
    return pa.table({name: columns[name] for name, _ in parameters})


def _require_known(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    for number, row in enumerate(rows):
        strange = [each for each in row if each not in names]
        if strange:
            raise SchemaError(
                f'column "{strange[0]}" of row {number} does not exist',
                detail=f"There are {', '.join(names)}.",
            )
