"""What the pages ask of the service, in the name of somebody.

Answers are plain values, as the routes of the API give them; tables are Arrow. Refusals are
`MillraceError`: a page shows their message, detail and hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa


class Who(Protocol):
    """Somebody who has logged in."""

    @property
    def name(self) -> str:
        """What they are called."""

    @property
    def role(self) -> str:
        """One of reader, writer, admin."""

    @property
    def tenant(self) -> str:
        """Whose queries are seen; empty for the operator."""


class Asked(Protocol):
    """The service, as far as pages need it."""

    async def who(self, token: str) -> Who | None:
        """Return whose token it is; an empty one is for the demonstration on loopback."""

    async def stats(self, who: Who) -> dict[str, Any]:
        """Return the state of the engine: rates, latencies, counts, sinks, troubles."""

    async def streams(self, who: Who) -> list[dict[str, Any]]:
        """Return the streams: name, columns, time, delay, retain, rate, lag."""

    async def queries(
        self, who: Who, *, search: str, state: str, after: str, limit: int
    ) -> dict[str, Any]:
        """Return a page of queries, the cursor of the next one, and how many there are."""

    async def top(self, who: Who, by: str, n: int) -> list[dict[str, Any]]:
        """Return the queries that take most: by `cost`, `state` or `results`."""

    async def query(self, who: Who, name: str) -> dict[str, Any]:
        """Return all that is known of one query."""

    async def register(self, who: Who, sql: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401
        """Register a query."""

    async def pause(self, who: Who, name: str) -> None:
        """Let a query tell nothing until it is resumed."""

    async def resume(self, who: Who, name: str) -> None:
        """Let a query go on."""

    async def set_policy(self, who: Who, name: str, policy: str) -> None:
        """Keep retained answers of a query, or of a template, in another way."""

    async def drop(self, who: Who, name: str) -> None:
        """Drop a query."""

    async def results(self, who: Who, name: str, last: int) -> pa.Table:
        """Return the newest answers of a query that are kept, oldest first."""

    async def explain(self, who: Who, sql: str) -> str:
        """Say how a query would run."""

    async def expanded(self, who: Who, name: str) -> str:
        """Return the text of a standing query with everything written out that was left out."""

    async def explain_query(self, who: Who, name: str, *, analyze: bool) -> str:
        """Say how a standing query runs."""

    async def dry_run(self, who: Who, sql: str, history: str) -> dict[str, Any]:
        """Return how many results a query would have given, and some of them."""

    async def sql(self, who: Who, text: str, *, since: int | None = None) -> pa.Table:
        """Answer one SELECT over what is kept, of rows after an instant if that is given."""

    async def watch(self, who: Who) -> None:
        """Let the engine tell of itself for the next hour."""

    async def plan(self, who: Who, find: str = "") -> dict[str, Any]:
        """Return the running dataflow, or what of it has a word in it: nodes and edges."""

    async def settings(self, who: Who) -> list[dict[str, Any]]:
        """Return the settings that can be changed, with what holds now."""

    async def change_settings(self, who: Who, changes: Mapping[str, Any]) -> None:
        """Change settings from the next epoch on."""

    async def retain(self, who: Who, stream: str, duration: str) -> None:
        """Keep the history of a stream for another while."""
