"""The service: everything that routes and the console do, on behalf of somebody.

It reads from the root by itself (`Reader`) and asks the engine for whatever changes something
(`EngineLink`). Every method takes the principal first, shows only what is theirs, and speaks in
the names that they write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from millrace.connectors.decode import warm_decoders
from millrace.connectors.pushed import Batch
from millrace.engine.feeds import FeedSpec
from millrace.engine.streams import StreamSpec
from millrace.engine.warm import warm_reading
from millrace.errors import PlanError, ReadLimitError, UnknownNameError
from millrace.operators.typed_function import TypedFunction
from millrace.reading.reader import Reader
from millrace.reading.window import Instant
from millrace.server import audit, catalog_views, stream_reads
from millrace.server.cursors import Cursor
from millrace.server.engine_link import EngineLink
from millrace.server.events import Event
from millrace.server.fan_out import FanOut, Subscription
from millrace.server.follower import Follower
from millrace.server.limits import Limits
from millrace.server.outcomes import Found, Outcome, Pushed
from millrace.server.principals import Principal
from millrace.server.pushing import BadRowsError, Pushing, read_body, require_pushed
from millrace.server.query_views import QueryInfo, QueryPage, find, info_of, is_id, page_of
from millrace.server.questions import Questions
from millrace.server.quotas import TooLargeError
from millrace.server.told_rows import require_not_told, told_to
from millrace.server.work_views import Costs
from millrace.state.root import open_root

State = Literal["running", "paused", "suspended"]


class Service:
    """One gateway's view of a root."""

    def __init__(
        self,
        root: Path,
        limits: Limits | None = None,
        functions: Mapping[str, TypedFunction] | None = None,
    ) -> None:
        self.path, self.limits = root, limits or Limits()
        self.reader = Reader(open_root(root), functions)
        self.link = EngineLink(root, self._hear)
        self.pushing = Pushing(self.reader.root, backlog=self.limits.backlog_bytes)
        self.fan_out = FanOut(self.reader, queued=self.limits.queued_events)
        self.costs = Costs(self.reader)
        self.follower = Follower(self.reader, self.fan_out, self.costs)
        self.questions = Questions(self.reader, self.link)

    async def start(self) -> None:
        """Read the root, begin to follow it, and look for the engine."""
        await self.follower.start()
        self.link.start()
        kernels = (asyncio.to_thread(each) for each in (warm_reading, warm_decoders))
        self._warming = asyncio.gather(*kernels)

    async def stop(self) -> None:
        """Tell subscribers, and let go of the root."""
        self.fan_out.end("stopping")
        await self._warming
        await self.link.stop()
        await self.follower.stop()
        self.questions.close()

    async def _hear(self, event: dict[str, Any]) -> None:
        await self.follower.hear(event)

    # ---- streams and tables ---------------------------------------------------------------------

    async def streams(self, who: Principal) -> list[dict[str, Any]]:
        """List the streams."""
        del who  # all may see them
        return catalog_views.streams(self.reader)

    async def stream(self, who: Principal, name: str) -> dict[str, Any]:
        """Describe one stream."""
        self._stream(name)
        return next(each for each in await self.streams(who) if each["name"] == name)

    async def stream_rows(
        self,
        who: Principal,
        name: str,
        *,
        begin: int | None = None,
        end: int | None = None,
        limit: int = 1_000,
    ) -> pa.Table:
        """Return retained rows of a stream, the newest `limit` of a window of time."""
        spec, most = self._stream(name), self._most(limit)
        rows = await asyncio.to_thread(
            stream_reads.history, self.reader, spec, begin=begin, end=end, limit=most
        )
        return told_to(who, name, rows)

    async def dead_letters(self, who: Principal, name: str, *, limit: int = 1_000) -> pa.Table:
        """Return the newest dead letters of a stream; a tenant sees those of rows it pushed."""
        spec, most = self._stream(name), self._most(limit)
        return await asyncio.to_thread(stream_reads.dead_letters, self.reader, spec, who, most)

    async def late_rows(self, who: Principal, name: str, *, limit: int = 1_000) -> pa.Table:
        """Return the newest late rows of a stream; a tenant sees those that it pushed."""
        spec, most = self._stream(name), self._most(limit)
        return await asyncio.to_thread(stream_reads.late_rows, self.reader, spec, who, most)

    async def push(
        self,
        who: Principal,
        name: str,
        body: bytes,
        kind: str,
        *,
        key: str = "",
        dead_letter: bool = False,
    ) -> Pushed:
        """Append rows to a stream; they are durable on return.

        Parameters
        ----------
        kind
            The content type: JSON, NDJSON or an Arrow stream.
        key
            Batches of one tenant with the same key count once.
        dead_letter
            Whether rows that do not fit are set aside; otherwise none is taken if one is bad.
        """
        who.require("writer")
        require_not_told(name)
        spec = self._stream(name)
        require_pushed(spec)
        decoded = await asyncio.to_thread(read_body, body, kind, spec.schema, self.limits)
        if decoded.rejects.num_rows and not dead_letter:
            raise BadRowsError(decoded)
        stored_key = f"{who.tenant}/{key}" if key else ""
        batch = Batch(decoded.rows, stream_reads.source_of(who), stored_key, decoded.rejects)
        written = await self.pushing.push(spec, batch)
        return Pushed(decoded.rows.num_rows, written, decoded.rejects.num_rows)

    async def tables(self, who: Principal) -> list[dict[str, Any]]:
        """List the tables."""
        del who
        return catalog_views.tables(self.reader)

    async def table_rows(self, who: Principal, name: str, *, limit: int = 1_000) -> pa.Table:
        """Return rows of a table."""
        del who
        most = self._most(limit)
        return await asyncio.to_thread(catalog_views.table_rows, self.reader, name, most)

    async def change_table(
        self,
        who: Principal,
        name: str,
        how: Literal["insert", "insert missing", "update", "delete"],
        *,
        rows: pa.Table | None = None,
        values: dict[str, Any] | None = None,
        where: str = "",
    ) -> int:
        """Insert, update or delete rows of a table; return how many."""
        body = {"table": name, "how": how, "values": values, "where": where}
        done = await self.link.ask("table_change", who, body, [] if rows is None else [rows])
        return int(done.body["rows"])

    # ---- templates ------------------------------------------------------------------------------

    async def templates(self, who: Principal) -> list[dict[str, Any]]:
        """List the templates."""
        return await asyncio.to_thread(catalog_views.templates, self.reader, who)

    async def template(self, who: Principal, name: str) -> dict[str, Any]:
        """Describe one template."""
        self._feed(who, name, "template")
        return next(each for each in await self.templates(who) if each["name"] == name)

    async def template_rows(
        self, who: Principal, name: str, *, after: int = 0, limit: int = 1_000
    ) -> pa.Table:
        """Return the parameters of a template's queries, with their ids, by id."""
        feed, most = self._feed(who, name, "template"), self._most(limit)
        return await asyncio.to_thread(catalog_views.template_rows, self.reader, feed, after, most)

    async def insert_rows(
        self,
        who: Principal,
        name: str,
        rows: pa.Table,
        *,
        ttl: str | float | None = None,
        missing: bool = False,
    ) -> list[int]:
        """Insert rows of parameters, or those that are missing; return the ids of new queries."""
        who.require("writer")
        body = {"template": name, "ttl": ttl, "missing": missing}
        done = await self.link.ask("template_insert", who, body, [rows])
        return list(done.body["ids"])

    async def drop_rows(self, who: Principal, name: str, ids: Sequence[int]) -> None:
        """Remove queries of a template."""
        who.require("writer")
        await self.link.ask("template_drop", who, {"template": name, "ids": list(ids)})

    # ---- queries --------------------------------------------------------------------------------

    async def queries(
        self,
        who: Principal,
        *,
        search: str = "",
        state: State | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> QueryPage:
        """List queries whose name or text holds a word, a page at a time."""
        return await asyncio.to_thread(
            page_of, self.reader, self.costs, who, search, state, after, min(limit, 10_000)
        )

    async def query(self, who: Principal, name: str) -> QueryInfo:
        """Describe a query by its name, its id, or as template#id."""
        return await asyncio.to_thread(info_of, self.reader, self.costs, who, name)

    async def register(  # noqa: PLR0913  a registration has as many words as SQL's
        self,
        who: Principal,
        sql: str,
        *,
        name: str | None = None,
        into: str | None = None,
        keep: int | None = None,
        retain: str | None = None,
        ttl: str | float | None = None,
        history: str | None = None,
        partial: bool = False,
        policy: str | None = None,
        unbounded: bool = False,
    ) -> QueryInfo:
        """Register a query; it is durable on return."""
        who.require("writer")
        asked = {
            "sql": sql,
            "name": name,
            "into": into,
            "keep": keep,
            "retain": retain,
            "ttl": ttl,
            "history": history,
            "partial": partial,
            "policy": policy,
            "unbounded": unbounded or None,
        }
        done = await self.link.ask("register", who, asked)
        return await self.query(who, str(done.body["id"]))

    async def drop(self, who: Principal, name: str) -> None:
        """Remove a query, or a template with all its queries."""
        who.require("writer")
        await self.link.ask("drop", who, {"query": name})

    async def pause(self, who: Principal, name: str) -> QueryInfo:
        """Let a query answer nothing until it is resumed."""
        return await self._set_state(who, name, "paused")

    async def resume(self, who: Principal, name: str) -> QueryInfo:
        """Let a query answer again; also ends a suspension."""
        return await self._set_state(who, name, "running")

    async def set_policy(self, who: Principal, name: str, policy: str) -> None:
        """Keep retained answers of a query, or of a template, in another way."""
        who.require("writer")
        await self.link.ask("policy", who, {"query": name, "policy": policy})

    async def bulk(
        self,
        who: Principal,
        *,
        add: Sequence[dict[str, Any]] | None = None,
        pause: Sequence[str | int] | None = None,
        resume: Sequence[str | int] | None = None,
        drop: Sequence[str | int] | None = None,
        ttl: str | float | None = None,
    ) -> list[int]:
        """Add, pause, resume or drop queries, all or none; return their ids."""
        who.require("writer")
        asked = {"add": add, "pause": pause, "resume": resume, "drop": drop}
        given = [each for each in asked.values() if each is not None]
        if len(given) != 1:
            raise PlanError("a bulk does one thing", hint="Give add, pause, resume or drop.")
        if len(given[0]) > self.limits.bulk:
            raise TooLargeError("queries a bulk", self.limits.bulk, len(given[0]))
        if not given[0]:
            return []
        body = {key: list(value) for key, value in asked.items() if value is not None}
        done = await self.link.ask("bulk", who, {**body, "ttl": ttl})
        return list(done.body["ids"])

    # ---- answers --------------------------------------------------------------------------------

    async def results(
        self,
        who: Principal,
        name: str,
        *,
        begin: Instant | None = None,
        end: Instant | None = None,
        last: int | None = None,
    ) -> pa.Table:
        """Return the answers that are kept of a query, or of a template, oldest first."""
        found, most = self.found(who, name), self.limits.result_rows
        read = partial(self.reader.answers, found.feed, found.qid, begin=begin, end=end, last=last)
        if self.costs.few_answers(found.feed, found.qid, most):
            return read()
        try:
            return await asyncio.to_thread(read, most=most)
        except ReadLimitError as error:
            hint = "Ask for a window with begin and end, or for the last."
            raise TooLargeError("rows a result", most, error.now, hint=hint) from error

    async def changes(
        self, who: Principal, name: str, *, cursor: str | None = None, wait: float = 0.0
    ) -> Event:
        """Return what was told after a cursor, waiting for it if there is nothing yet."""
        found = self.found(who, name)
        start = None if not cursor else Cursor.read(cursor, found.feed.number)
        if start is None and not wait:
            return Event(Cursor(self.reader.manifest.epoch, 0, found.feed.number))
        if wait:
            self._require_room()
        subscription = await self.fan_out.subscribe(found.feed, found.qid, start)
        try:
            event = await subscription.next(wait)
        finally:
            self.fan_out.leave(subscription)
        if event is not None or subscription.ended:
            return event or Event(subscription.cursor)
        return Event(max(subscription.cursor, Cursor(subscription.position, 0, found.feed.number)))

    async def subscribe(self, who: Principal, name: str, cursor: str | None = None) -> Subscription:
        """Follow a query, from a cursor on or from now; `fan_out.leave` ends it."""
        found = self.found(who, name)
        start = None if not cursor else Cursor.read(cursor, found.feed.number)
        if not found.feed.kept:
            raise PlanError(
                f'no answers of "{name}" are kept',
                hint='Register it with keep, such as 10000, or with retain, such as "1 hour".',
            )
        self._require_room()
        return await self.fan_out.subscribe(found.feed, found.qid, start)

    def _require_room(self) -> None:
        if len(self.fan_out) >= self.limits.subscribers:
            raise TooLargeError("subscribers", self.limits.subscribers, len(self.fan_out))

    # ---- statements -----------------------------------------------------------------------------

    async def explain(
        self, who: Principal, query: str | None = None, *, sql: str | None = None,
        analyze: bool = False,
    ) -> str:  # fmt: skip
        """Explain a standing query, or a text."""
        body = {"query": query, "sql": sql, "analyze": analyze}
        done = await self.link.ask("explain", who, body)
        return str(done.body["text"])

    async def expanded(self, who: Principal, query: str) -> str:
        """Return the text of a standing query with everything written out that was left out."""
        asked = {"query": query, "text": (await self.query(who, query)).text}
        return str((await self.link.ask("expand", who, asked)).body["text"])

    async def dry_run(
        self, who: Principal, sql: str, *, history: str | None = None
    ) -> dict[str, Any]:
        """Return how many results a query would have given on history, and some of them."""
        tried = await self.questions.dry_run(who, sql, history)
        return {
            "results": tried.results,
            "seconds": round(tried.seconds, 6),
            "rows": tried.rows,
            "rows_in_all": tried.n_rows,
            "partial": tried.partial or tried.at_least,
            "less_retained": tried.partial,
            "sample": tried.sample,
        }

    async def sql(self, who: Principal, text: str) -> list[Outcome]:
        """Do statements; those that ask return tables."""
        return await self.questions.sql(who, text)

    # ---- the engine -----------------------------------------------------------------------------

    async def stats(self, who: Principal) -> dict[str, Any]:
        """Say how the engine does: rows, results, epochs, lags, state."""
        return await asyncio.to_thread(self.costs.stats, who)

    async def top(
        self, who: Principal, by: Literal["cost", "state", "results"] = "cost", n: int = 10
    ) -> list[QueryInfo]:
        """Return the queries that take most of something."""
        return await asyncio.to_thread(self.costs.top, who, by, n)

    async def dataflow(self, who: Principal, find: str = "") -> dict[str, Any]:
        """Return the running dataflow operator by operator, or what of it has a word in it."""
        return (await self.link.ask("dataflow", who, {"find": find})).body

    async def watch(self, who: Principal, gateway: str, told: Mapping[str, float]) -> None:
        """Let the engine tell of itself, and of this gateway, on `sysstream` for the next hour."""
        await self.link.ask("watch", who, {"gateway": gateway, "told": dict(told)})

    async def retain(self, who: Principal, stream: str, duration: str) -> None:
        """Keep the history of a stream for another while, from the next epoch on."""
        await self.link.ask("retain", who, {"stream": stream, "duration": duration})

    async def settings(self, who: Principal) -> dict[str, Any]:
        """Return the settings, and which of them may be changed."""
        return (await self.link.ask("settings", who, {})).body

    async def change_settings(self, who: Principal, changes: dict[str, Any]) -> dict[str, Any]:
        """Change settings; the next epoch follows them."""
        return (await self.link.ask("settings", who, {"change": changes})).body

    async def audit(self, who: Principal, *, last: int = 100) -> list[dict[str, Any]]:
        """Return the newest entries of the audit log; a tenant's of its own."""
        who.require("admin")
        tenant = None if who.operator else who.tenant
        return await asyncio.to_thread(audit.entries, self.path, tenant=tenant, last=last)

    def health(self) -> dict[str, Any]:
        """Say whether the gateway reads, and whether the engine is there; of tenants nothing."""
        return {
            "status": "ok",
            "engine": "up" if self.link.up else "down",
            "epoch": self.reader.manifest.epoch,
        }

    # ---- finding --------------------------------------------------------------------------------

    def found(self, who: Principal, name: str) -> Found:
        """Find a query by its name, its id, or as template#id; or a template, all of it."""
        with self.reader.registered() as (catalog, population, queries):
            if is_id(name.rpartition("#")[2]):
                listed = find(who, name, population, queries)
                if listed is None:
                    raise _unknown(name)
                return Found(catalog.feeds[listed.feed], listed.qid)
            stored = who.found(name)
            feed = catalog.feeds.get(stored)
            if feed is not None and feed.kind in ("template", "shared") and who.sees(stored):
                return Found(feed, None)
            listed = queries.find(population.names.get(stored, 0))
            if listed is None or not who.sees(listed.feed):
                raise _unknown(name)
            return Found(catalog.feeds[listed.feed], listed.qid)

    async def _set_state(self, who: Principal, name: str, state: str) -> QueryInfo:
        who.require("writer")
        await self.link.ask("state", who, {"query": name, "state": state})
        return await self.query(who, name)

    def _stream(self, name: str) -> StreamSpec:
        return self.reader.catalog.stream(name)

    def _feed(self, who: Principal, name: str, kind: str) -> FeedSpec:
        feed = self.reader.catalog.feeds.get(who.found(name, kind))
        if feed is None or feed.kind != kind or not who.sees(feed.name):
            raise UnknownNameError(f'{kind} "{name}" does not exist')
        return feed

    def _most(self, limit: int) -> int:
        return min(limit, self.limits.result_rows)


def _unknown(name: str) -> UnknownNameError:
    return UnknownNameError(f'query "{name}" does not exist')


__all__ = [
    "Event",
    "Found",
    "Outcome",
    "Pushed",
    "QueryInfo",
    "QueryPage",
    "Service",
]
