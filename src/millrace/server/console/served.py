"""The console's questions, answered by the service of its gateway.

Graphs are read where the gateway is: what SysStream retains is in the root, so no graph asks the
engine for anything. A tenant is told of the engine as a whole and of its own queries.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from millrace.engine.sysstream import NAME
from millrace.errors import PlanError
from millrace.lang.queries import Parsed, query_of
from millrace.lang.relational.context import View
from millrace.lang.relational.once import names_read
from millrace.operators.evaluate import Function
from millrace.reading.adhoc import Timed, ask
from millrace.reading.history import history, newest_time
from millrace.reading.reader import Reader
from millrace.reading.room import Room
from millrace.schema import Schema
from millrace.server.access import Gate
from millrace.server.console.asked import Who
from millrace.server.errors import UnauthorizedError
from millrace.server.metrics import Measured, Requests
from millrace.server.principals import Principal
from millrace.server.service import Service
from millrace.server.told_rows import told_to

THREADS = 2
"""How many questions of pages are answered here at a time; the threads of requests stay free."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who has logged in, and in whose name the service is asked."""

    principal: Principal
    token: str = ""

    @property
    def name(self) -> str:
        """The tenant, or the operator."""
        return self.principal.tenant or "operator"

    @property
    def role(self) -> str:
        """One of reader, writer, admin."""
        return self.principal.role

    @property
    def tenant(self) -> str:
        """Whose queries are seen."""
        return self.principal.tenant


class Served:
    """Answers pages from a service."""

    def __init__(self, service: Service, gate: Gate, measured: Measured) -> None:
        self._service, self._gate = service, gate
        self._requests = Requests(measured, service)
        self._last = _Last()
        self._asking = ThreadPoolExecutor(THREADS, thread_name_prefix="millrace-console")

    async def who(self, token: str) -> Visitor | None:
        """Return whose token it is; an empty one is for a demonstration on loopback."""
        try:
            return Visitor(self._gate.admit(None, token), token)
        except UnauthorizedError:
            return None

    async def stats(self, who: Who) -> dict[str, Any]:
        """Return the state of the engine."""
        told = await self._service.stats(self._of(who))
        pieces = self._service.reader.manifest.pieces()
        return {
            **told,
            "epoch_p50": told["epoch_seconds_p50"],
            "epoch_p99": told["epoch_seconds_p99"],
            "lag": _without_itself(told["watermark_lag_seconds"]),
            "state_bytes": told["state_bytes_in_all"] if not who.tenant else told["state_bytes"],
            "state_rows": None if who.tenant else sum(each.rows for each in pieces),
        }

    async def streams(self, who: Who) -> list[dict[str, Any]]:
        """Return the streams, with their rates."""
        principal = self._of(who)
        streams, stats = await asyncio.gather(
            self._service.streams(principal), self._service.stats(principal)
        )
        rates = stats["rows_by_stream"]
        return [{**each, "rows_per_second": rates.get(each["name"], 0.0)} for each in streams]

    async def queries(
        self, who: Who, *, search: str, state: str, after: str, limit: int
    ) -> dict[str, Any]:
        """Return a page of queries."""
        page = await self._service.queries(
            self._of(who),
            search=search,
            state=state or None,  # type: ignore[arg-type]  # a choice of the page's own
            after=after or None,
            limit=limit,
        )
        return {
            "queries": [asdict(each) for each in page.queries],
            "next": page.next,
            "total": page.total,
        }

    async def top(self, who: Who, by: str, n: int) -> list[dict[str, Any]]:
        """Return the queries that take most."""
        found = await self._service.top(self._of(who), by, n)  # type: ignore[arg-type]  # a choice of the page's own
        return [asdict(each) for each in found]

    async def query(self, who: Who, name: str) -> dict[str, Any]:
        """Return all that is known of one query."""
        return asdict(await self._service.query(self._of(who), name))

    async def register(self, who: Who, sql: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Register a query."""
        return asdict(await self._service.register(self._of(who), sql, **options))

    async def pause(self, who: Who, name: str) -> None:
        """Let a query tell nothing until it is resumed."""
        await self._service.pause(self._of(who), name)

    async def resume(self, who: Who, name: str) -> None:
        """Let a query go on."""
        await self._service.resume(self._of(who), name)

    async def set_policy(self, who: Who, name: str, policy: str) -> None:
        """Keep retained answers in another way."""
        await self._service.set_policy(self._of(who), name, policy)

    async def drop(self, who: Who, name: str) -> None:
        """Drop a query."""
        await self._service.drop(self._of(who), name)

    async def results(self, who: Who, name: str, last: int) -> pa.Table:
        """Return the newest answers of a query that are kept."""
        return await self._service.results(self._of(who), name, last=last)

    async def explain(self, who: Who, sql: str) -> str:
        """Say how a query would run."""
        return await self._service.explain(self._of(who), sql=sql)

    async def expanded(self, who: Who, name: str) -> str:
        """Return the text of a standing query as it was understood."""
        return await self._service.expanded(self._of(who), name)

    async def explain_query(self, who: Who, name: str, *, analyze: bool) -> str:
        """Say how a standing query runs."""
        return await self._service.explain(self._of(who), query=name, analyze=analyze)

    async def dry_run(self, who: Who, sql: str, history: str) -> dict[str, Any]:
        """Return how many results a query would have given, and some of them."""
        return await self._service.dry_run(self._of(who), sql, history=history)

    async def sql(self, who: Who, text: str, *, since: int | None = None) -> pa.Table:
        """Answer one SELECT; what reads only SysStream is answered here."""
        principal, parsed = self._in_time(who), query_of(text)
        if {each.name for each in names_read(parsed)} == {NAME}:
            held = _TellingHeld(self._service.reader, principal, since, self._last)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._asking, _answered, parsed, held)
        outcomes = await self._service.sql(principal, text)
        if len(outcomes) != 1 or outcomes[0].table is None:
            raise PlanError("this is not one question", hint="Write one SELECT.")
        return outcomes[0].table

    async def watch(self, who: Who) -> None:
        """Let the engine tell of itself for the next hour, and of this gateway."""
        name, told = f"gateway {os.getpid()}", self._requests.since_last()
        await self._service.watch(self._of(who), name, told)

    async def plan(self, who: Who, find: str = "") -> dict[str, Any]:
        """Return the running dataflow, or what of it has a word in it."""
        return await self._service.dataflow(self._of(who), find)

    async def settings(self, who: Who) -> list[dict[str, Any]]:
        """Return the settings that can be changed."""
        found: list[dict[str, Any]] = (await self._service.settings(self._of(who)))["about"]
        return found

    async def change_settings(self, who: Who, changes: Mapping[str, Any]) -> None:
        """Change settings from the next epoch on."""
        await self._service.change_settings(self._of(who), dict(changes))

    async def retain(self, who: Who, stream: str, duration: str) -> None:
        """Keep the history of a stream for another while."""
        await self._service.retain(self._of(who), stream, duration)

    def _of(self, who: Who) -> Principal:
        """Return in whose name is asked; a page that stays open does not outlive its token."""
        assert isinstance(who, Visitor), "whoever asks has been let in here"
        if who.token and self._gate.tokens.principal(who.token) != who.principal:
            raise UnauthorizedError(
                "the token is not known any more", hint="Log in again with another one."
            )
        return who.principal

    def _in_time(self, who: Who) -> Principal:
        """Return in whose name is asked, unless they ask faster than their token may."""
        principal = self._of(who)
        assert isinstance(who, Visitor), "whoever asks has been let in here"
        return self._gate.admit(None, who.token) if who.token else principal


class _Last:
    """The rows that were last read: the graphs of a page mostly ask for the same."""

    def __init__(self) -> None:
        self._kept: tuple[object, pa.Table] | None = None

    def read(self, key: object, read: Callable[[], pa.Table]) -> pa.Table:
        """Return what was read for this key, or read it now."""
        kept = self._kept  # once: others may read beside us
        if kept is None or kept[0] != key:
            kept = self._kept = key, read()
        return kept[1]


class _TellingHeld:
    """What SysStream retains, as far as somebody may know it, and nothing else."""

    views: Mapping[str, View] = {}
    functions: Mapping[str, Function] = {}
    function_types: Mapping[str, pa.DataType] = {}

    def __init__(self, reader: Reader, who: Principal, since: int | None, last: _Last) -> None:
        self._manifest, self._catalog = reader.manifest, reader.catalog
        self._root, self._who, self._since, self._last = reader.root, who, since, last

    def columns(self, name: str) -> Schema | None:
        """Return the columns of the stream."""
        stream = self._catalog.streams.get(name)
        return None if stream is None or name != NAME else stream.schema

    def time(self, name: str) -> Timed | None:
        """Return the stream's column of time, and its newest instant."""
        return Timed("ts", newest_time((name,), self._manifest, self._catalog))

    def rows(
        self,
        name: str,
        begin: int | None,
        end: int | None,
        columns: Sequence[str],  # noqa: ARG002  all are read once, for all graphs
        room: Room,
    ) -> pa.Table:
        """Return its rows of [begin, end), after the instant that is known already."""
        if self._since is not None:
            begin = max(self._since + 1, self._since + 1 if begin is None else begin)
        rows = self._last.read(
            (self._manifest.epoch, begin, end),
            lambda: history(self._root, self._manifest, self._catalog, name, begin, end, room=room),
        )
        return told_to(self._who, name, rows)

    def unknown(self, name: str) -> tuple[str, str, str]:
        """Say why the stream is not there."""
        return f'"{name}" does not exist', "The engine of this server does not tell of itself.", ""


def _answered(parsed: Parsed, held: _TellingHeld) -> pa.Table:
    return ask(parsed, held)


def _without_itself(lags: Mapping[str, float]) -> dict[str, float]:
    return {name: lag for name, lag in lags.items() if name != NAME}
