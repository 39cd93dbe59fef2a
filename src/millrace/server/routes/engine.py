"""The engine: how it does, which queries take most, its dataflow, its settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, RootModel

from millrace.server.access import Served, Who
from millrace.server.errors import responses
from millrace.server.models import QueryModel

router = APIRouter(prefix="/v1", tags=["engine"])


class Stats(BaseModel):
    """How the engine does; numbers of queries and of state are those of the tenant."""

    epoch: int
    rows: int
    late: int
    dead: int
    results: int
    rows_per_second: float
    results_per_second: float
    rows_by_stream: dict[str, float]
    epoch_seconds_p50: float
    epoch_seconds_p99: float
    watermark_lag_seconds: dict[str, float]
    queries: int
    queries_of_others: int
    families: int
    state_bytes: int
    state_bytes_in_all: int
    sinks: list[dict[str, Any]]
    trouble: str


class Top(BaseModel):
    """The queries that take most of something."""

    by: str
    queries: list[QueryModel]


class Graph(BaseModel):
    """The running dataflow; what is of others is counted."""

    epoch: int
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]


class SettingsModel(BaseModel):
    """The settings of the engine, and which may be changed while it runs."""

    settings: dict[str, Any]
    changeable: list[str]
    about: list[dict[str, Any]]


class SettingsChange(RootModel[dict[str, Any]]):
    """New values of settings."""


@router.get("/stats", responses=responses())
async def stats(who: Who, service: Served) -> Stats:
    """Say how the engine does."""
    return Stats(**await service.stats(who))


@router.get("/stats/top", responses=responses())
async def top(
    who: Who,
    service: Served,
    by: Literal["cost", "state", "results"] = "cost",
    n: Annotated[int, Query(ge=1, le=1_000)] = 10,
) -> Top:
    """Return the queries that take most of the engine's time, of its state, or answer most."""
    found = await service.top(who, by, n)
    return Top(by=by, queries=[QueryModel(**asdict(each)) for each in found])


@router.get("/plan", responses=responses())
async def plan(who: Who, service: Served, find: str = "") -> Graph:
    """Return the running dataflow as nodes and edges: streams, indexes, operators, feeds, sinks.

    With `find`, a query's name or a part of names or texts, what has that alone.
    """
    return Graph(**await service.dataflow(who, find))


@router.get("/settings", responses=responses())
async def settings(who: Who, service: Served) -> SettingsModel:
    """Return the settings."""
    return SettingsModel(**await service.settings(who))


@router.patch("/settings", responses=responses())
async def change_settings(body: SettingsChange, who: Who, service: Served) -> SettingsModel:
    """Change settings; the next epoch follows them. For the operator."""
    who.require_operator("changing a setting")
    return SettingsModel(**await service.change_settings(who, body.root))
