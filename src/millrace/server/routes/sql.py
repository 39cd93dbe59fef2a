"""Statements: SQL as a script, and explanations."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from millrace.server.access import Served, Who
from millrace.server.answers_http import (
    ARROW,
    JSON,
    accepted,
    json_response,
    table_json,
    table_response,
)
from millrace.server.errors import ErrorBody, responses
from millrace.server.models import ColumnModel
from millrace.server.outcomes import Outcome

router = APIRouter(tags=["statements"])


class Statements(BaseModel):
    """SQL, one statement or several."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(examples=["SHOW QUERIES"])


class OutcomeModel(BaseModel):
    """What a statement did: a sentence, or a table for one that asks."""

    message: str | None = None
    columns: list[ColumnModel] | None = None
    rows: list[dict[str, Any]] | None = None


class Outcomes(BaseModel):
    """What the statements did, one after the other."""

    outcomes: list[OutcomeModel]


class Trial(BaseModel):
    """A query to be tried, and on how much history: such as "10 minutes", or all that is kept."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(examples=["SELECT symbol FROM trades WHERE price > 100"])
    history: str | None = None


class Tried(BaseModel):
    """What a query would have answered; `partial` if not all history was there, or was tried.

    `less_retained` says that less is retained than was asked for.
    """

    results: int
    columns: list[ColumnModel]
    sample: list[dict[str, Any]]
    seconds: float
    rows: int
    rows_in_all: int
    partial: bool
    less_retained: bool


class Explained(BaseModel):
    """How a query runs."""

    text: str


@router.post(
    "/v1/sql",
    responses=responses(404, 409)
    | {413: {"model": ErrorBody}}
    | {200: {"model": Outcomes, "content": {ARROW: {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def sql(request: Request, body: Statements, who: Who, service: Served) -> Response:
    """Do statements. A single SELECT may be had as an Arrow stream, by `Accept`."""
    outcomes = await service.sql(who, body.sql)
    tables = [each.table for each in outcomes if each.table is not None]
    if len(outcomes) == len(tables) == 1 and accepted(request, JSON, ARROW) == ARROW:
        return await table_response(request, tables[0])
    return await json_response(lambda: {"outcomes": [_told(each) for each in outcomes]})


def _told(outcome: Outcome) -> dict[str, Any]:
    return {"message": outcome.message} if outcome.table is None else table_json(outcome.table)


@router.get("/v1/queries/{query}/explain", responses=responses(404))
async def explain(query: str, who: Who, service: Served, *, analyze: bool = False) -> Explained:
    """Say how a standing query runs; with `analyze`, what it has done since the engine started."""
    return Explained(text=await service.explain(who, query, analyze=analyze))


@router.post("/v1/dry-run", responses=responses())
async def dry_run(body: Trial, who: Who, service: Served) -> Tried:
    """Say how many results a query would have given on history, before it is registered."""
    tried = await service.dry_run(who, body.sql, history=body.history)
    sample = table_json(tried["sample"])
    return Tried(**{**tried, "columns": sample["columns"], "sample": sample["rows"]})


@router.post("/v1/explain", responses=responses())
async def explain_text(body: Statements, who: Who, service: Served) -> Explained:
    """Say how a query would run."""
    return Explained(text=await service.explain(who, sql=body.sql))
