"""Tables: rows that change, and that queries join with streams."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from millrace.server.access import Served, Who
from millrace.server.answers_http import FORMS, table_response
from millrace.server.errors import ErrorBody, responses
from millrace.server.given_rows import BODY, body_table, given_table
from millrace.server.models import ColumnModel

router = APIRouter(prefix="/v1/tables", tags=["tables"])


class TableModel(BaseModel):
    """A table as it was declared."""

    name: str = Field(examples=["limits"])
    columns: list[ColumnModel]
    key: list[str]


class Tables(BaseModel):
    """All tables."""

    tables: list[TableModel]


class Update(BaseModel):
    """Other values for the rows for which a condition is true."""

    values: dict[str, Any] = Field(examples=[{"most": 120.0}])
    where: str = Field(examples=["symbol = 'ACME'"])


class Delete(BaseModel):
    """The rows to remove, by a condition."""

    where: str = Field(examples=["most < 20"])


class Changed(BaseModel):
    """How many rows were changed."""

    rows: int


@router.get("", responses=responses())
async def tables(who: Who, service: Served) -> Tables:
    """List the tables."""
    return Tables(tables=[TableModel(**each) for each in await service.tables(who)])


@router.get("/{table}/rows", responses=responses(404) | FORMS, response_class=Response)
async def rows(
    request: Request,
    table: str,
    who: Who,
    service: Served,
    limit: Annotated[int, Query(ge=1, le=1_000_000)] = 1_000,
) -> Response:
    """Return rows of a table."""
    return await table_response(request, await service.table_rows(who, table, limit=limit))


@router.post("/{table}/rows", openapi_extra=BODY,
             responses=responses(404, 409) | {413: {"model": ErrorBody}})  # fmt: skip
async def insert(
    request: Request, table: str, who: Who, service: Served, *, missing: bool = False
) -> Changed:
    """Insert rows, all or none; with `missing`, those that are not there just so."""
    who.require_operator("changing a table")
    schema = service.reader.catalog.table(table).schema
    given = await body_table(
        request, service.limits, of_json=lambda rows: given_table(rows, schema)
    )
    how: Literal["insert", "insert missing"] = "insert missing" if missing else "insert"
    return Changed(rows=await service.change_table(who, table, how, rows=given))


@router.patch("/{table}/rows", responses=responses(404, 409))
async def update(table: str, body: Update, who: Who, service: Served) -> Changed:
    """Give rows other values, all or none."""
    who.require_operator("changing a table")
    service.reader.catalog.table(table)
    n_rows = await service.change_table(who, table, "update", values=body.values, where=body.where)
    return Changed(rows=n_rows)


@router.delete("/{table}/rows", responses=responses(404))
async def delete(table: str, body: Delete, who: Who, service: Served) -> Changed:
    """Remove rows, all or none."""
    who.require_operator("changing a table")
    service.reader.catalog.table(table)
    return Changed(rows=await service.change_table(who, table, "delete", where=body.where))
