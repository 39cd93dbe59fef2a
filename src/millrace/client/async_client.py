"""The client of `client` for asyncio; what the calls mean is said there.

    async with millrace.connect_async("http://localhost:8642") as client:
        big = await client.query("SELECT symbol FROM trades WHERE price > 100", name="big")
        async for result in big.changes():
            print(result.rows(), result.cursor)

Both forms are made of the same calls; they differ in how they wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Self

from millrace.client import calls
from millrace.client.administration import AsyncAdministration
from millrace.client.async_handles import AsyncRemoteQuery, AsyncRemoteTable, AsyncRemoteTemplate
from millrace.client.calls import PAGE, Document, Duration, Moment, Outcome, Which
from millrace.client.concurrent import AsyncWire
from millrace.client.declarations import (
    columns_of,
    drop_text,
    stream_text,
    template_text,
    view_text,
)
from millrace.client.request import given
from millrace.client.result import Result
from millrace.engine.given_rows import Rows
from millrace.reading.tried import DryRun
from millrace.schema import Schema


class AsyncClient(AsyncAdministration):
    """A server, spoken to by the tasks of one event loop; `millrace.connect_async` makes one.

    Its calls are those of `Client`, to be awaited.
    """

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._wire.url

    # ---- declarations ---------------------------------------------------------------------------

    async def stream(  # noqa: PLR0913  a declaration has as many words as SQL's
        self,
        name: str,
        source: str | Schema | object,
        *,
        time: str,
        schema: str | Schema | None = None,
        delay: Duration | None = None,
        partition: str | None = None,
        order: str | Iterable[str] = (),
        key: str | Iterable[str] = (),
        retain: Duration | None = None,
        idle: Duration | None = None,
    ) -> None:
        """Declare a stream whose rows are pushed; its columns stand for its source."""
        text = stream_text(
            name,
            columns_of(name, source, schema),
            time=time,
            order=order,
            partition=partition,
            key=key,
            delay=delay,
            retain=retain,
            idle=idle,
        )
        await self._wire.do(calls.execute(text))

    async def retain(self, stream: str, duration: Duration) -> None:
        """Keep the history of a stream for another while, from the next epoch on."""
        await self._wire.do(calls.retain(stream, duration))

    async def drop_stream(self, name: str) -> None:
        """Forget a stream, its source and its history; no query may read it any more."""
        await self._wire.do(calls.execute(drop_text("STREAM", name)))

    async def table(
        self, name: str, columns: str | Schema | Rows, *, key: str | Iterable[str] = ()
    ) -> AsyncRemoteTable:
        """Declare a table, whose rows change and which queries may join with streams."""
        await self._wire.do(calls.declare_table(name, columns, key))
        return AsyncRemoteTable(self._wire, name)

    def standing_table(self, name: str) -> AsyncRemoteTable:
        """Return a handle on a table by its name; what is not there is refused when it is used."""
        return AsyncRemoteTable(self._wire, name)

    async def view(self, name: str, text: str, *, columns: Iterable[str] = ()) -> None:
        """Declare a view: a name for a query that others may read."""
        await self._wire.do(calls.execute(view_text(name, text, columns)))

    async def drop_view(self, name: str) -> None:
        """Forget a view; no other view may read it any more."""
        await self._wire.do(calls.execute(drop_text("VIEW", name)))

    # ---- standing queries -----------------------------------------------------------------------

    async def query(  # noqa: PLR0913  a registration has as many words as SQL's
        self,
        asked: object,
        *,
        name: str | None = None,
        into: str | None = None,
        keep: int | None = None,
        retain: Duration | None = None,
        policy: str | None = None,
        history: Duration | None = None,
        partial: bool = False,
        ttl: Duration | None = None,
        unbounded: bool = False,
    ) -> AsyncRemoteQuery:
        """Register a standing query; it is durable on return and runs from the next epoch on."""
        found = await self._wire.do(
            calls.query(
                asked,
                name=name,
                into=into,
                keep=keep,
                retain=retain,
                policy=policy,
                history=history,
                partial=partial or None,
                ttl=ttl,
                unbounded=unbounded or None,
            )
        )
        return AsyncRemoteQuery(self._wire, found)

    async def queries(  # noqa: PLR0913  as many words as SQL's
        self,
        texts: Sequence[object],
        *,
        into: str | None = None,
        names: Sequence[str] | None = None,
        keep: int | None = None,
        retain: Duration | None = None,
        policy: str | None = None,
        history: Duration | None = None,
        partial: bool = False,
        ttl: Duration | None = None,
    ) -> list[int]:
        """Register many queries, all or none; return their ids."""
        return await self._wire.do(
            calls.queries(
                texts,
                names,
                {
                    "into": into,
                    "keep": keep,
                    "retain": retain,
                    "policy": policy,
                    "history": history,
                    "partial": partial or None,
                    "ttl": ttl,
                },
            )
        )

    async def add_queries(self, asked: Sequence[Mapping[str, Any]]) -> list[int]:
        """Register many queries, each with words of its own, all or none; return their ids."""
        return await self._wire.do(calls.add_queries(asked))

    async def find_queries(
        self, search: str | None = None, *, state: str | None = None
    ) -> AsyncIterator[Document]:
        """Yield what is known of each query, page by page as it is asked for."""
        after: str | None = None
        while True:
            page = await self.query_page(search, state=state, after=after)
            for each in page["queries"]:
                yield each
            after = page.get("next")
            if not after:
                return

    async def query_page(
        self,
        search: str | None = None,
        *,
        state: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Document:
        """Return one page of the list of queries: `queries`, `next` (or None), and `total`."""
        return await self._wire.do(calls.query_page(search, state, after, limit))

    async def template(  # noqa: PLR0913  as many words as SQL's
        self,
        name: str,
        text: str,
        parameters: Mapping[str, str] | None = None,
        *,
        keep: int | None = None,
        retain: Duration | None = None,
        policy: str | None = None,
        history: Duration | None = None,
        partial: bool = False,
        ttl: Duration | None = None,
        unbounded: bool = False,
        **more: str,
    ) -> AsyncRemoteTemplate:
        """Declare a query template: `:name` in its text stands for a parameter of that type."""
        options = given(
            keep=keep,
            retain=retain,
            policy=policy,
            history=history,
            partial=partial or None,
            ttl=ttl,
            unbounded=unbounded or None,
        )
        await self._wire.do(
            calls.execute(template_text(name, text, {**(parameters or {}), **more}, options))
        )
        return AsyncRemoteTemplate(self._wire, name)

    async def standing(self, name: str) -> AsyncRemoteQuery | AsyncRemoteTemplate:
        """Return a handle on a query or template by its name."""
        kind, found = await self._wire.do(calls.standing(name))
        if kind == "template":
            return AsyncRemoteTemplate(self._wire, name)
        return AsyncRemoteQuery(self._wire, found)

    async def drop_queries(self, which: Which) -> None:
        """Remove queries by their ids or names, all or none."""
        await self._wire.do(calls.change_queries("drop", which))

    async def pause_queries(self, which: Which) -> None:
        """Pause queries by their ids or names, all or none."""
        await self._wire.do(calls.change_queries("pause", which))

    async def resume_queries(self, which: Which) -> None:
        """Let queries go on, by their ids or names, all or none."""
        await self._wire.do(calls.change_queries("resume", which))

    # ---- rows -----------------------------------------------------------------------------------

    async def push(self, stream: str, rows: Rows, *, key: str | None = None) -> int:
        """Push rows into a stream; return how many, when they are durable."""
        return await self._wire.do(calls.push(stream, rows, key=key))

    async def history(
        self,
        stream: str,
        *,
        begin: Moment | None = None,
        end: Moment | None = None,
        limit: int | None = None,
    ) -> Result:
        """Return the rows of a stream that are within its retention."""
        return await self._wire.do(calls.stream_rows(stream, "rows", begin, end, limit))

    async def dead_letters(self, stream: str | None = None, *, limit: int | None = None) -> Result:
        """Return the rows of a stream, or of all, that could not be read, and why not."""
        return await self._wire.do(calls.dead_letters(stream, limit))

    async def late_rows(self, stream: str, *, limit: int | None = None) -> Result:
        """Return the rows of a stream that came too late."""
        return await self._wire.do(calls.stream_rows(stream, "late", None, None, limit))

    # ---- statements -----------------------------------------------------------------------------

    async def execute(self, text: str) -> list[Outcome]:
        """Do the statements of a script, such as CREATE STREAM, CREATE QUERY, INSERT and SHOW."""
        return await self._wire.do(calls.execute(text))

    async def sql(self, text: str) -> Result:
        """Ask once, over histories, results and tables; return the rows."""
        return await self._wire.do(calls.sql(text))

    async def explain(self, text: str) -> str:
        """Say how a query would run, and what it would share; nothing is registered."""
        return await self._wire.do(calls.explain(text))

    async def dry_run(self, text: str, history: Duration | None = None) -> DryRun:
        """Say how many results a query would have given on history; nothing is registered."""
        return await self._wire.do(calls.dry_run(text, history))

    # ---- the server -----------------------------------------------------------------------------

    async def streams(self) -> list[Document]:
        """Return what is known of each stream."""
        return await self._listed("streams")

    async def tables(self) -> list[Document]:
        """Return what is known of each table."""
        return await self._listed("tables")

    async def templates(self) -> list[Document]:
        """Return what is known of each template."""
        return await self._listed("templates")

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<client of {self.url}>"

    async def _listed(self, what: str) -> list[Document]:
        return await self._wire.do(calls.listed(what))
