"""Tables over HTTP: as JSON, a row a line, or an Arrow stream, as the client accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from millrace.errors import PlanError
from millrace.schema import type_name
from millrace.server.json_rows import json_rows, ndjson
from millrace.server.wire import arrow_stream
from millrace.time import to_instant

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
JSON = "application/json"
EVENTS = "text/event-stream"
FEW_CELLS = 2_000
"""So many are spelt sooner than a thread is woken, and has handed over what it did."""

FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Rows, in the form that `Accept` asks for.",
        "content": {
            JSON: {"schema": {"$ref": "#/components/schemas/Rows"}},
            NDJSON: {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def accepted(request: Request, *forms: str) -> str:
    """Return the first form that a client accepts, the first of all if it says nothing of them."""
    wanted = request.headers.get("accept", "*/*").lower()
    named = [each.split(";")[0].strip() for each in wanted.split(",")]
    return next((each for each in named if each in forms), forms[0])


async def table_response(request: Request, table: pa.Table) -> Response:
    """Send a table in the form that the client accepts."""
    match accepted(request, JSON, NDJSON, ARROW):
        case "application/vnd.apache.arrow.stream":
            data = await asyncio.to_thread(lambda: arrow_stream(table).to_pybytes())
            return Response(data, media_type=ARROW)
        case "application/x-ndjson":
            return StreamingResponse(_lines(table), media_type=NDJSON)
        case _ if table.num_rows * table.num_columns <= FEW_CELLS:
            return JSONResponse(table_json(table))
        case _:
            return await json_response(lambda: table_json(table))


async def json_response(content: Callable[[], Any]) -> Response:
    """Make and spell an answer in a thread: others are served meanwhile."""
    return await asyncio.to_thread(lambda: JSONResponse(content()))


def table_json(table: pa.Table) -> dict[str, Any]:
    """Spell a table as JSON."""
    columns = [{"name": each.name, "type": _type(each.type)} for each in table.schema]
    return {"columns": columns, "rows": json_rows(table)}


def instant(text: str | None, what: str) -> int | None:
    """Read an instant of a request: ISO 8601."""
    if text is None:
        return None
    try:
        return to_instant(text)
    except (ValueError, PlanError) as cause:
        raise PlanError(
            f'{what} "{text[:40]}" is not an instant', hint="Write 2026-01-31T12:00:00Z."
        ) from cause


def _type(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"{_type(arrow.value_type)}[]"
    try:
        return type_name(arrow)
    except KeyError:
        return str(arrow)


def _lines(table: pa.Table) -> Iterator[bytes]:
    yield from ndjson(table)
