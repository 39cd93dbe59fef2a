"""The bodies that several routes share."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Policy = Literal["eager", "lazy", "none"]
MOST_AT_ONCE = 100_000
"""How many queries one request may name."""


class ColumnModel(BaseModel):
    """A column: its name and its type in SQL."""

    name: str = Field(examples=["price"])
    type: str = Field(examples=["double"])


class Rows(BaseModel):
    """A table: its columns, and a dictionary for each row."""

    columns: list[ColumnModel]
    rows: list[dict[str, Any]] = Field(examples=[[{"symbol": "ACME", "price": 101.5}]])


class QueryModel(BaseModel):
    """A standing query."""

    name: str = Field(examples=["big"])
    id: int
    state: str = Field(examples=["running"])
    kind: str = Field(examples=["query"])
    text: str = Field(examples=["SELECT symbol FROM trades WHERE price > 100"])
    feed: str
    owner: str = ""
    created: str | None = None
    expires: str | None = None
    results: int = 0
    cost: float = 0.0
    state_bytes: int = 0
    reason: str = ""
    retain: str | None = Field(None, description="For how long answers are kept, if for a time.")
    policy: Policy | None = Field(None, description="How those are kept.")


class Ids(BaseModel):
    """Ids of queries."""

    ids: list[int]


class GivenIds(BaseModel):
    """Ids of queries that a client names."""

    ids: list[int] = Field(max_length=MOST_AT_ONCE)
