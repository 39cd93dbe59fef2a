"""Queries: list, search, register, pause, drop, one by one or many at once."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from millrace.server.access import Served, Who
from millrace.server.errors import ErrorBody, responses
from millrace.server.models import MOST_AT_ONCE, Ids, Policy, QueryModel

router = APIRouter(prefix="/v1/queries", tags=["queries"])


class QueryPageModel(BaseModel):
    """A page of queries; `next` is the token of the next page, null on the last."""

    queries: list[QueryModel]
    next: str | None
    total: int


class Asked(BaseModel):
    """A query to register."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(examples=["SELECT symbol FROM trades WHERE price > 100"])
    name: str | None = Field(None, examples=["big"])
    into: str | None = Field(None, description="A feed to share with queries of the same columns.")
    keep: int | None = Field(None, ge=0, le=1 << 40, description="How many rows are kept.")
    retain: str | None = Field(
        None, description="For how long all answers are kept.", examples=["1 hour"]
    )
    ttl: str | float | None = Field(
        None, description='After how long it is dropped: "1 hour", or seconds.', examples=["1 hour"]
    )
    history: str | None = Field(None, description="How much of the past it is to see.")
    partial: bool = Field(False, description="Whether it may see less of it than that.")
    policy: Policy | None = Field(None, description="How answers that are retained are kept ready.")
    unbounded: bool = Field(False, description="Whether it may remember more and more.")


class Bulk(BaseModel):
    """One thing to be done to many queries, all or none."""

    model_config = ConfigDict(extra="forbid")

    add: list[Asked] | None = Field(None, max_length=MOST_AT_ONCE)
    pause: list[str | int] | None = Field(None, max_length=MOST_AT_ONCE)
    resume: list[str | int] | None = Field(None, max_length=MOST_AT_ONCE)
    drop: list[str | int] | None = Field(None, max_length=MOST_AT_ONCE)
    ttl: str | float | None = Field(None, description="For those that are added.")


class Changed(BaseModel):
    """What is to become of a query: its state, how its answers are kept, or both."""

    model_config = ConfigDict(extra="forbid")

    state: Literal["paused", "running"] | None = None
    policy: Policy | None = Field(
        None, description="How answers that are retained are kept, from the next epoch on."
    )


@router.get("", responses=responses())
async def queries(
    who: Who,
    service: Served,
    search: Annotated[str, Query(max_length=1_000)] = "",
    state: Literal["running", "paused", "suspended"] | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> QueryPageModel:
    """List queries whose name or text holds a word, whatever its case."""
    page = await service.queries(who, search=search, state=state, after=after, limit=limit)
    found = [QueryModel(**asdict(each)) for each in page.queries]
    return QueryPageModel(queries=found, next=page.next, total=page.total)


@router.post("", status_code=201, responses=responses(404, 409) | {413: {"model": ErrorBody}})
async def register(body: Asked, who: Who, service: Served) -> QueryModel:
    """Register a query; it is durable when the call returns."""
    info = await service.register(who, body.sql, **body.model_dump(exclude={"sql"}))
    return QueryModel(**asdict(info))


@router.post("/bulk", responses=responses(404, 409) | {413: {"model": ErrorBody}})
async def bulk(body: Bulk, who: Who, service: Served) -> Ids:
    """Add, pause, resume or drop many queries, all or none, by names or ids."""
    add = None if body.add is None else [each.model_dump() for each in body.add]
    others = body.model_dump(include={"pause", "resume", "drop", "ttl"})
    return Ids(ids=await service.bulk(who, add=add, **others))


@router.get("/{query}", responses=responses(404))
async def query(query: str, who: Who, service: Served) -> QueryModel:
    """Describe a query, by its name, its id, or as template#id."""
    return QueryModel(**asdict(await service.query(who, query)))


@router.patch("/{query}", responses=responses(404))
async def change(query: str, body: Changed, who: Who, service: Served) -> QueryModel:
    """Pause a query, or let it go on; keep its answers in another way."""
    who.require("writer")
    await service.query(who, query)  # a template is none, and must not be changed by mistake
    if body.policy is not None:
        await service.set_policy(who, query, body.policy)
    if body.state is not None:
        await (service.pause if body.state == "paused" else service.resume)(who, query)
    return QueryModel(**asdict(await service.query(who, query)))


@router.delete("/{query}", status_code=204, responses=responses(404), response_class=Response)
async def drop(query: str, who: Who, service: Served) -> Response:
    """Remove a query, or a template with all its queries."""
    await service.drop(who, query)
    return Response(status_code=204)
