"""Answers of queries: what is kept, what has come since a cursor, and events as they come."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from millrace.server.access import Served, Who, asked_of, gate_of
from millrace.server.answers_http import EVENTS, FORMS, JSON, accepted, table_response
from millrace.server.errors import ErrorBody, responses
from millrace.server.event_stream import EventStream

router = APIRouter(prefix="/v1/queries", tags=["answers"])


class Changes(BaseModel):
    """Answers after a cursor, and the cursor behind them."""

    rows: list[dict[str, Any]]
    cursor: str


_CHANGES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Changes,
        "content": {EVENTS: {"schema": {"type": "string"}}},
        "description": "Answers after a cursor; or, as `text/event-stream`, events as they come.",
    },
    410: {"model": ErrorBody, "description": "What follows the cursor is no longer kept."},
}


@router.get("/{query}/results", responses=responses(404) | {413: {"model": ErrorBody}} | FORMS,
            response_class=Response)  # fmt: skip
async def results(
    request: Request,
    query: str,
    begin: str | None = None,
    end: str | None = None,
    last: Annotated[int | None, Query(ge=0, le=1 << 40)] = None,
) -> Response:
    """Return the answers that are kept of a query, or a template, oldest first.

    `begin` and `end` are instants in ISO 8601, or seen from now: `NOW - 10 minutes`.
    """
    who, service = asked_of(request)
    table = await service.results(who, query, begin=begin, end=end, last=last)
    return await table_response(request, table)


@router.get("/{query}/changes", responses=responses(404) | _CHANGES, response_class=Response)
async def changes(
    request: Request,
    query: str,
    who: Who,
    service: Served,
    cursor: str | None = None,
    wait: Annotated[float, Query(ge=0, le=60)] = 0.0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Return answers after a cursor, waiting up to `wait` seconds if there are none yet.

    With `Accept: text/event-stream`, answers are sent as they come: the id of each event is its
    cursor, by which `Last-Event-ID` resumes. Without a cursor it begins now.
    """
    start = last_event_id or cursor
    if accepted(request, JSON, EVENTS) == EVENTS:
        subscription = await service.subscribe(who, query, start)
        gate = gate_of(request)
        return EventStream(service.fan_out, subscription, lambda: gate.knows(who))
    event = await service.changes(who, query, cursor=start, wait=wait)
    return JSONResponse({"rows": event.rows, "cursor": str(event.cursor)})
