"""Templates: each row of parameters is a standing query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from millrace.server.access import Served, Who
from millrace.server.answers_http import FORMS, table_response
from millrace.server.errors import ErrorBody, responses
from millrace.server.given_rows import BODY, body_table, given_parameters
from millrace.server.models import ColumnModel, GivenIds, Ids, Policy
from millrace.session.template import QUERY

router = APIRouter(prefix="/v1/templates", tags=["templates"])


class TemplateModel(BaseModel):
    """A template, and how many queries it has."""

    name: str = Field(examples=["alert"])
    parameters: list[ColumnModel]
    text: str = Field(examples=["SELECT * FROM trades WHERE symbol = :sym AND price > :low"])
    queries: int
    keep: int
    owner: str
    retain: str | None = Field(None, description="For how long answers are kept, if for a time.")
    policy: Policy | None = Field(None, description="How those are kept.")


class NewPolicy(BaseModel):
    """How the answers of a template's queries are to be kept."""

    model_config = ConfigDict(extra="forbid")

    policy: Policy


class Templates(BaseModel):
    """All templates of a tenant."""

    templates: list[TemplateModel]


@router.get("", responses=responses())
async def templates(who: Who, service: Served) -> Templates:
    """List the templates."""
    return Templates(templates=[TemplateModel(**each) for each in await service.templates(who)])


@router.get("/{template}", responses=responses(404))
async def template(template: str, who: Who, service: Served) -> TemplateModel:
    """Describe a template."""
    return TemplateModel(**await service.template(who, template))


@router.patch("/{template}", responses=responses(404))
async def change(template: str, body: NewPolicy, who: Who, service: Served) -> TemplateModel:
    """Keep the answers of its queries in another way, from the next epoch on."""
    who.require("writer")
    await service.template(who, template)
    await service.set_policy(who, template, body.policy)
    return TemplateModel(**await service.template(who, template))


@router.get("/{template}/rows", responses=responses(404) | FORMS, response_class=Response)
async def rows(
    request: Request,
    template: str,
    who: Who,
    service: Served,
    after: Annotated[int, Query(ge=0, le=(1 << 63) - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000_000)] = 1_000,
) -> Response:
    """Return the parameters of its queries, with their ids, behind an id."""
    table = await service.template_rows(who, template, after=after, limit=limit)
    return await table_response(request, table)


@router.post("/{template}/rows", status_code=201, openapi_extra=BODY,
             responses=responses(404) | {413: {"model": ErrorBody}})  # fmt: skip
async def insert(
    request: Request,
    template: str,
    who: Who,
    service: Served,
    ttl: str | None = None,
    *,
    missing: bool = False,
) -> Ids:
    """Register a query for each row of parameters, all or none; with `missing`, if none has it."""
    who.require("writer")
    described = await service.template(who, template)
    parameters = [(each["name"], each["type"]) for each in described["parameters"]]
    given = await body_table(
        request, service.limits, of_json=lambda rows: given_parameters(rows, parameters)
    )
    if not given.num_rows:
        return Ids(ids=[])
    return Ids(ids=await service.insert_rows(who, template, given, ttl=ttl, missing=missing))


@router.patch("/{template}/rows", openapi_extra=BODY,
              responses=responses(404) | {413: {"model": ErrorBody}})  # fmt: skip
async def update(request: Request, template: str, who: Who, service: Served) -> Ids:
    """Give queries, named by the column `_query`, other parameters, all or none.

    Parameters that are not given keep their values.
    """
    who.require("writer")
    described = await service.template(who, template)
    kinds = {QUERY: "bigint"} | {each["name"]: each["type"] for each in described["parameters"]}
    given = await body_table(
        request, service.limits, of_json=lambda rows: given_parameters(rows, _named(rows, kinds))
    )
    if not given.num_rows:
        return Ids(ids=[])
    done = await service.link.ask("template_update", who, {"template": template}, [given])
    return Ids(ids=done.body["ids"])


def _named(rows: Sequence[Mapping[str, Any]], kinds: dict[str, str]) -> list[tuple[str, str]]:
    """Return the columns that rows have, of those that there are; all if they have others."""
    named = {name for row in rows for name in row}
    return [(name, kind) for name, kind in kinds.items() if name in named or named - {*kinds}]


@router.post("/{template}/drop", responses=responses(404))
async def drop(template: str, body: GivenIds, who: Who, service: Served) -> Ids:
    """Remove queries of a template by their ids, all or none."""
    who.require("writer")
    if body.ids:
        await service.drop_rows(who, template, body.ids)
    return Ids(ids=body.ids)
