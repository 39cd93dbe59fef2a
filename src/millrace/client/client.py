"""A client: the API of a session, over HTTP.

    client = millrace.connect("http://localhost:8642", token="...")
client.push("trades", [{"symbol": "ACME", "price": 120.0, "ts": now}])
big = client.query("SELECT symbol, price FROM trades WHERE price > 100", name="big")
big.results(last=10).to_pandas()
for result in big.changes():
    print(result.rows(), result.cursor)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from millrace.client import calls
from millrace.client.administration import Administration
from millrace.client.blocking import Wire
from millrace.client.calls import PAGE, Document, Duration, Moment, Outcome, Which
from millrace.client.declarations import (
    columns_of,
    drop_text,
    stream_text,
    template_text,
    view_text,
)
from millrace.client.handles import RemoteQuery, RemoteTable, RemoteTemplate
from millrace.client.request import given
from millrace.client.result import Result
from millrace.engine.given_rows import Rows
from millrace.reading.tried import DryRun
from millrace.schema import Schema


class Client(Administration):
    """A server, spoken to by blocking calls. Threads may share it; close it at the end.

    `millrace.connect` makes one. Calls have the names that they have on a `Session`, and raise
    the same errors.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._wire.url

    # ---- declarations ---------------------------------------------------------------------------

    def stream(  # noqa: PLR0913  a declaration has as many words as SQL's
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
        """Declare a stream whose rows are pushed; its columns stand for its source.

        Declaring the same stream again changes nothing.
        """
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
        self._wire.do(calls.execute(text))

    def retain(self, stream: str, duration: Duration) -> None:
        """Keep the history of a stream for another while, from the next epoch on."""
        self._wire.do(calls.retain(stream, duration))

    def drop_stream(self, name: str) -> None:
        """Forget a stream, its source and its history; no query may read it any more."""
        self._wire.do(calls.execute(drop_text("STREAM", name)))

    def table(
        self, name: str, columns: str | Schema | Rows, *, key: str | Iterable[str] = ()
    ) -> RemoteTable:
        """Declare a table, whose rows change and which queries may join with streams.

        Declaring the same table again changes nothing, not its rows either.
        """
        self._wire.do(calls.declare_table(name, columns, key))
        return RemoteTable(self._wire, name)

    def standing_table(self, name: str) -> RemoteTable:
        """Return a handle on a table by its name; what is not there is refused when it is used."""
        return RemoteTable(self._wire, name)

    def view(self, name: str, text: str, *, columns: Iterable[str] = ()) -> None:
        """Declare a view: a name for a query that others may read."""
        self._wire.do(calls.execute(view_text(name, text, columns)))

    def drop_view(self, name: str) -> None:
        """Forget a view; no other view may read it any more."""
        self._wire.do(calls.execute(drop_text("VIEW", name)))

    # ---- standing queries -----------------------------------------------------------------------

    def query(  # noqa: PLR0913  a registration has as many words as SQL's
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
    ) -> RemoteQuery:
        """Register a standing query; it is durable on return and runs from the next epoch on.

        Registering the same query under the same name again changes nothing, so a name makes it
        safe to try again when a connection breaks; the client then does by itself.

        Parameters
        ----------
        name
            What to call it; a number is chosen otherwise.
        into
            A feed to share with other queries whose answers have the same columns.
        keep, retain, policy
            How many rows of answers are kept for `results`, or for how long, and how: `"lazy"`,
            `"eager"` or `"none"`; the answers are the same.
        history, partial
            How far back it sees what its streams retain, such as `"1 hour"`; less than that is
            refused, unless it may be partial.
        ttl
            After how long it is dropped by itself.
        unbounded
            Whether it may remember more and more for as long as it runs.
        """
        found = self._wire.do(
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
        return RemoteQuery(self._wire, found)

    def queries(  # noqa: PLR0913  as many words as SQL's
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
        return self._wire.do(
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

    def add_queries(self, asked: Sequence[Mapping[str, Any]]) -> list[int]:
        """Register many queries, each with words of its own, all or none; return their ids.

        Parameters
        ----------
        asked
            For each its `sql`, and as wanted `name`, `into`, `keep`, `ttl` and the other words
            of `query`.
        """
        return self._wire.do(calls.add_queries(asked))

    def find_queries(
        self, search: str | None = None, *, state: str | None = None
    ) -> Iterator[Document]:
        """Yield what is known of each query, page by page as it is asked for.

        Parameters
        ----------
        search
            A part of the name or of the text.
        state
            Only those that are `running`, `paused` or `suspended`.
        """
        after: str | None = None
        while True:
            page = self.query_page(search, state=state, after=after)
            yield from page["queries"]
            after = page.get("next")
            if not after:
                return

    def query_page(
        self,
        search: str | None = None,
        *,
        state: str | None = None,
        after: str | None = None,
        limit: int = PAGE,
    ) -> Document:
        """Return one page of the list of queries: `queries`, `next` (or None), and `total`."""
        return self._wire.do(calls.query_page(search, state, after, limit))

    def template(  # noqa: PLR0913  as many words as SQL's
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
    ) -> RemoteTemplate:
        """Declare a query template: `:name` in its text stands for a parameter of that type.

        Declaring the same template again changes nothing.
        """
        options = given(
            keep=keep,
            retain=retain,
            policy=policy,
            history=history,
            partial=partial or None,
            ttl=ttl,
            unbounded=unbounded or None,
        )
        self._wire.do(
            calls.execute(template_text(name, text, {**(parameters or {}), **more}, options))
        )
        return RemoteTemplate(self._wire, name)

    def standing(self, name: str) -> RemoteQuery | RemoteTemplate:
        """Return a handle on a query or template by its name."""
        kind, found = self._wire.do(calls.standing(name))
        if kind == "template":
            return RemoteTemplate(self._wire, name)
        return RemoteQuery(self._wire, found)

    def drop_queries(self, which: Which) -> None:
        """Remove queries by their ids or names, all or none."""
        self._wire.do(calls.change_queries("drop", which))

    def pause_queries(self, which: Which) -> None:
        """Pause queries by their ids or names, all or none."""
        self._wire.do(calls.change_queries("pause", which))

    def resume_queries(self, which: Which) -> None:
        """Let queries go on, by their ids or names, all or none."""
        self._wire.do(calls.change_queries("resume", which))

    # ---- rows -----------------------------------------------------------------------------------

    def push(self, stream: str, rows: Rows, *, key: str | None = None) -> int:
        """Push rows into a stream; return how many, when they are durable.

        They are sent in batches, each under a key that the server remembers, so that a batch
        that is sent again after a broken connection counts once.

        Parameters
        ----------
        rows
            An Arrow table or batch, a pandas or polars frame, columns by name, or dictionaries.
        key
            A key of your own, if the same rows may be pushed again by another process: rows
            pushed under a key that is known are not taken a second time.
        """
        return self._wire.do(calls.push(stream, rows, key=key))

    def history(
        self,
        stream: str,
        *,
        begin: Moment | None = None,
        end: Moment | None = None,
        limit: int | None = None,
    ) -> Result:
        """Return the rows of a stream that are within its retention."""
        return self._wire.do(calls.stream_rows(stream, "rows", begin, end, limit))

    def dead_letters(self, stream: str | None = None, *, limit: int | None = None) -> Result:
        """Return the rows of a stream, or of all, that could not be read, and why not."""
        return self._wire.do(calls.dead_letters(stream, limit))

    def late_rows(self, stream: str, *, limit: int | None = None) -> Result:
        """Return the rows of a stream that came too late."""
        return self._wire.do(calls.stream_rows(stream, "late", None, None, limit))

    # ---- statements -----------------------------------------------------------------------------

    def execute(self, text: str) -> list[Outcome]:
        """Do the statements of a script, such as CREATE STREAM, CREATE QUERY, INSERT and SHOW."""
        return self._wire.do(calls.execute(text))

    def sql(self, text: str) -> Result:
        """Ask once, over histories, results and tables; return the rows."""
        return self._wire.do(calls.sql(text))

    def explain(self, text: str) -> str:
        """Say how a query would run, and what it would share; nothing is registered."""
        return self._wire.do(calls.explain(text))

    def dry_run(self, text: str, history: Duration | None = None) -> DryRun:
        """Say how many results a query would have given on history; nothing is registered."""
        return self._wire.do(calls.dry_run(text, history))

    # ---- the server -----------------------------------------------------------------------------

    def streams(self) -> list[Document]:
        """Return what is known of each stream."""
        return self._listed("streams")

    def tables(self) -> list[Document]:
        """Return what is known of each table."""
        return self._listed("tables")

    def templates(self) -> list[Document]:
        """Return what is known of each template."""
        return self._listed("templates")

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<client of {self.url}>"

    def _listed(self, what: str) -> list[Document]:
        return self._wire.do(calls.listed(what))
