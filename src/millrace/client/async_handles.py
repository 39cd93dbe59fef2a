"""The handles of `handles` for asyncio; what the calls mean is said there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pyarrow as pa

from millrace.client import calls
from millrace.client.calls import Document, Ids, Moment, Place
from millrace.client.concurrent import AsyncWire
from millrace.client.declarations import drop_text
from millrace.client.request import Request, get, path_of
from millrace.client.result import Result
from millrace.client.subscription import Subscription
from millrace.engine.given_rows import Rows


class AsyncRemoteQuery:
    """A standing query of a server; `name` is empty if it was not given one."""

    def __init__(self, wire: AsyncWire, known: Document) -> None:
        self._wire = wire
        self.name, self.id = str(known.get("name") or ""), int(known["id"])

    async def info(self) -> Document:
        """Return what the server knows of the query now: state, text, cost and more."""
        return await self._wire.do(calls.document(get(path_of("queries", self._known_as))))

    async def results(
        self,
        last: int | None = None,
        *,
        begin: Moment | None = None,
        end: Moment | None = None,
    ) -> Result:
        """Return the answers that are kept, oldest first, with the epoch of each."""
        return await self._wire.do(calls.results(self._known_as, begin, end, last))

    async def changes(
        self, *, after: Place | None = None, timeout: float | None = None
    ) -> AsyncGenerator[Result, None]:
        """Yield answers as they are committed, each once, also over connections that break."""
        start, schema = await self._wire.do(calls.begin(self._known_as, after))
        followed = Subscription(
            self._known_as, schema, after=start, timeout=timeout, patience=self._wire.patience
        )
        async for result in self._wire.follow(followed):
            yield result

    async def explain(self, *, analyze: bool = False) -> str:
        """Say how the query runs; with `analyze`, what it has done since the engine started."""
        return await self._wire.do(calls.explain_query(self._known_as, analyze=analyze))

    async def pause(self) -> None:
        """Answer nothing from the next epoch on, until `resume`."""
        await self._wire.do(calls.set_state(self._known_as, "paused"))

    async def resume(self) -> None:
        """Answer again from the next epoch on; also ends a suspension."""
        await self._wire.do(calls.set_state(self._known_as, "running"))

    async def set_policy(self, policy: str) -> None:
        """Keep answers that are retained in another way, from the next epoch on."""
        await self._wire.do(calls.set_policy("queries", self._known_as, policy))

    async def drop(self) -> None:
        """Remove the query; answers that wait for a sink are still delivered."""
        await self._wire.do(calls.document(Request("DELETE", path_of("queries", self._known_as))))

    @property
    def _known_as(self) -> str | int:
        return self.name or self.id

    def __repr__(self) -> str:
        return f"<query {self.name or self.id!r} of {self._wire.url}>"


class AsyncRemoteTemplate:
    """A query template of a server: its rows are standing queries."""

    def __init__(self, wire: AsyncWire, name: str) -> None:
        self._wire, self.name = wire, name

    async def info(self) -> Document:
        """Return what the server knows of the template now."""
        return await self._wire.do(calls.document(get(path_of("templates", self.name))))

    async def insert(self, rows: Rows) -> pa.Array:
        """Register a query for each row of parameters, all or none; return their ids."""
        return await self._wire.do(calls.insert_queries(self.name, rows, missing=False))

    async def insert_missing(self, rows: Rows) -> pa.Array:
        """Register a query for each row that none has yet; return the ids of the new ones."""
        return await self._wire.do(calls.insert_queries(self.name, rows, missing=True))

    async def rows(self) -> Result:
        """Return the parameters of all its queries, with their ids in `_query`."""
        return await self._wire.do(calls.template_rows(self.name))

    async def ids(self) -> list[int]:
        """Return the ids of all its queries, ascending."""
        found: list[int] = (await self.rows())["_query"].to_pylist()
        return found

    async def results(
        self,
        last: int | None = None,
        *,
        begin: Moment | None = None,
        end: Moment | None = None,
    ) -> Result:
        """Return the answers of all its queries that are kept, oldest first, as of a query."""
        return await self._wire.do(calls.results(self.name, begin, end, last))

    async def update(self, rows: Rows) -> None:
        """Give queries, named by the column `_query`, other parameters; they keep their ids.

        Columns that are not given keep their values.
        """
        await self._wire.do(calls.update_queries(self.name, rows))

    async def delete(self, ids: Ids) -> None:
        """Remove queries by their ids, all or none."""
        await self._wire.do(calls.delete_queries(self.name, ids))

    async def query(self, qid: int) -> AsyncRemoteQuery:
        """Return a handle on one of its queries."""
        return AsyncRemoteQuery(
            self._wire, await self._wire.do(calls.document(get(path_of("queries", qid))))
        )

    async def set_policy(self, policy: str) -> None:
        """Keep answers that are retained in another way, from the next epoch on."""
        await self._wire.do(calls.set_policy("templates", self.name, policy))

    async def drop(self) -> None:
        """Remove the template and all its queries."""
        await self._wire.do(calls.execute(drop_text("TEMPLATE", self.name)))

    def __repr__(self) -> str:
        return f"<template {self.name!r} of {self._wire.url}>"


class AsyncRemoteTable:
    """A table of a server: rows that change, and that queries join with streams."""

    def __init__(self, wire: AsyncWire, name: str) -> None:
        self._wire, self.name = wire, name

    async def rows(self) -> Result:
        """Return the rows as they are now."""
        return await self._wire.do(calls.table_rows(self.name))

    async def insert(self, rows: Rows) -> int:
        """Add rows, all or none; return how many. A row whose key is there already is refused."""
        return await self._wire.do(calls.insert_rows(self.name, rows, missing=False))

    async def insert_missing(self, rows: Rows) -> int:
        """Add the rows that are not there just so; return how many."""
        return await self._wire.do(calls.insert_rows(self.name, rows, missing=True))

    async def update(self, values: Mapping[str, Any], where: str) -> int:
        """Give columns other values in the rows for which a condition is true; return how many."""
        return await self._wire.do(calls.update_rows(self.name, values, where))

    async def delete(self, where: str) -> int:
        """Remove the rows for which a condition is true; return how many."""
        return await self._wire.do(calls.delete_rows(self.name, where))

    async def drop(self) -> None:
        """Forget the table and its rows; no query may read it any more."""
        await self._wire.do(calls.execute(drop_text("TABLE", self.name)))

    def __repr__(self) -> str:
        return f"<table {self.name!r} of {self._wire.url}>"
