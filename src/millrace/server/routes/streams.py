"""Streams: what is declared, what they keep, and rows pushed into them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field

from millrace.server.access import Served, Who
from millrace.server.answers_http import ARROW, FORMS, JSON, NDJSON, instant, table_response
from millrace.server.errors import ErrorBody, responses
from millrace.server.models import ColumnModel

router = APIRouter(prefix="/v1/streams", tags=["streams"])

Limit = Annotated[int, Query(ge=1, le=1_000_000)]


class StreamModel(BaseModel):
    """A stream as it was declared, and how far it is complete."""

    name: str = Field(examples=["trades"])
    columns: list[ColumnModel]
    time: str = Field(description="The column of the event time.", examples=["ts"])
    delay: str
    retain: str | None
    key: list[str]
    watermark: str | None


class Streams(BaseModel):
    """All streams."""

    streams: list[StreamModel]


class NewRetention(BaseModel):
    """For how long the history of a stream is kept."""

    retain: str = Field(examples=["2 hours"])


class PushedModel(BaseModel):
    """What became of a push: it is durable."""

    rows: int
    batch: str
    set_aside: int = 0


_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {"type": "array", "items": {"type": "object"}},
                "example": [{"symbol": "ACME", "price": 101.5, "ts": "2026-01-31T12:00:00Z"}],
            },
            NDJSON: {"schema": {"type": "string"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.get("", responses=responses())
async def streams(who: Who, service: Served) -> Streams:
    """List the streams."""
    return Streams(streams=[StreamModel(**each) for each in await service.streams(who)])


@router.get("/{stream}", responses=responses(404))
async def stream(stream: str, who: Who, service: Served) -> StreamModel:
    """Describe a stream."""
    return StreamModel(**await service.stream(who, stream))


@router.patch("/{stream}", responses=responses(404))
async def retain(stream: str, body: NewRetention, who: Who, service: Served) -> StreamModel:
    """Keep the history of a stream for another while, from the next epoch on. For the operator."""
    await service.stream(who, stream)
    await service.retain(who, stream, body.retain)
    return StreamModel(**await service.stream(who, stream))


@router.get("/{stream}/rows", responses=responses(404) | FORMS, response_class=Response)
async def rows(
    request: Request,
    stream: str,
    who: Who,
    service: Served,
    begin: str | None = None,
    end: str | None = None,
    limit: Limit = 1_000,
) -> Response:
    """Return retained rows, the newest of a window of time, oldest first."""
    table = await service.stream_rows(
        who, stream, begin=instant(begin, "begin"), end=instant(end, "end"), limit=limit
    )
    return await table_response(request, table)


@router.get("/{stream}/dead-letters", responses=responses(404) | FORMS, response_class=Response)
async def dead_letters(
    request: Request, stream: str, who: Who, service: Served, limit: Limit = 1_000
) -> Response:
    """Return rows that could not be read; a tenant sees those that it pushed."""
    return await table_response(request, await service.dead_letters(who, stream, limit=limit))


@router.get("/{stream}/late", responses=responses(404) | FORMS, response_class=Response)
async def late(
    request: Request, stream: str, who: Who, service: Served, limit: Limit = 1_000
) -> Response:
    """Return rows that came too late; a tenant sees those that it pushed."""
    return await table_response(request, await service.late_rows(who, stream, limit=limit))


@router.post(
    "/{stream}/rows",
    responses=responses(404) | {413: {"model": ErrorBody}},
    openapi_extra=_BODY,
)
async def push(
    request: Request,
    stream: str,
    who: Who,
    service: Served,
    bad: Literal["refuse", "dead-letter"] = "refuse",
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> PushedModel:
    """Push rows; they are durable when the call returns.

    If a row does not fit the stream none is taken, unless `bad=dead-letter` sets such rows aside.
    Batches with the same `Idempotency-Key` count once.
    """
    who.require("writer")
    kind = request.headers.get("content-type", JSON).split(";")[0].strip().lower()
    done = await service.push(
        who,
        stream,
        await request.body(),
        kind,
        key=idempotency_key or "",
        dead_letter=bad == "dead-letter",
    )
    request.app.state.measured.pushed.labels(stream).inc(done.rows)
    return PushedModel(rows=done.rows, batch=done.batch, set_aside=done.set_aside)
