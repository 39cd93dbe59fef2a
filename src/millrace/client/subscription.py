"""A subscription: the answers of a query as they come, each once, over connections that break.

The caller is given an event, and only then is its cursor remembered; a connection that is lost is
opened again with the cursor of the last event that was given. The server sends what comes after a
cursor, so nothing is lost within its retention, and nothing is given twice. Half an event is
dropped by `events`, an event that is sent a second time is known by its cursor.

    opened ──event──► given ──event──► given ──connection lost──► wait ──► opened (last cursor)
       ▲                                                           │
       └────────────── refused for now, or not there ──────────────┘   for at most `outage` seconds
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from millrace.client.events import Event
from millrace.client.faults import refusal, unreachable
from millrace.client.json_rows import table_of_rows
from millrace.client.patience import TOO_MANY, UNAVAILABLE, Patience, seconds_of
from millrace.client.reply import Received, Reply
from millrace.client.request import EVENTS, Request, get, path_of
from millrace.client.result import Result
from millrace.errors import MillraceError, SourceError

SILENCE_SECONDS = 45.0
"""A server says at least every 15 seconds that it lives; after three the connection is dead."""


class Subscription:
    """What is known between two events. Whoever drives it opens connections and waits.

    Parameters
    ----------
    schema
        The columns of the answers.
    timeout
        End when no answer has come for so many seconds; None waits for ever.
    """

    def __init__(
        self,
        query: str | int,
        schema: pa.Schema,
        *,
        after: str | None,
        timeout: float | None,
        patience: Patience,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cursor = after
        self._query, self._schema = query, schema
        self._timeout, self._patience, self._now = timeout, patience, now
        self._heard = self._given = now()
        self._failures = 0
        self._begun = False

    @property
    def read_timeout(self) -> float:
        """How long to wait for the next byte."""
        return SILENCE_SECONDS if self._timeout is None else min(SILENCE_SECONDS, self._timeout)

    def is_over(self) -> bool:
        """Whether no answer has come for as long as the caller wants to wait."""
        waited = self._now() - self._given
        return self._begun and self._timeout is not None and waited >= self._timeout

    def opened(self) -> None:
        """Take note that a connection stands: what the caller waits for are answers, not it."""
        self._heard = self._now()
        if not self._begun:
            self._begun, self._given = True, self._heard

    def request(self) -> Request:
        """Ask for what comes after the last cursor."""
        asked = get(path_of("queries", self._query, "changes"), accept=EVENTS, cursor=self.cursor)
        known = (("Last-Event-ID", self.cursor),) if self.cursor else ()
        return Request(asked.method, asked.path, asked.params, (*asked.headers, *known))

    def take(self, event: Event) -> Result | None:
        """Take an event; return the rows to give to the caller, if it has some that are new."""
        self._heard, self._failures = self._now(), 0
        if event.kind in ("comment", "detached"):
            return None  # whoever is detached is let in again with its cursor
        found = _data(event)
        if event.kind == "error" or "error" in found:
            raise refusal(_as_reply(found), self.request())
        if event.id and event.id == self.cursor:
            return None  # sent twice
        self.cursor = event.id or found.get("cursor") or self.cursor
        rows = found.get("rows") or []
        if not rows:
            return None
        self._given = self._now()
        return Result(table_of_rows(rows, self._schema), cursor=self.cursor)

    def refused(self, reply: Reply) -> float:
        """Return how long to wait after a refusal, or raise it if waiting does not help."""
        error = refusal(reply, self.request())
        if reply.status != TOO_MANY and reply.status not in UNAVAILABLE:
            raise error
        return self._wait(seconds_of(reply.headers.get("retry-after")), error)

    def lost(self, url: str, cause: Exception) -> float:
        """Return how long to wait after a connection was lost or could not be opened."""
        return self._wait(None, unreachable(url, cause, sent=False))

    def ended(self) -> float:
        """Return how long to wait after the server closed the connection in order."""
        return self._patience.pause(1)

    def _wait(self, asked: float | None, error: MillraceError) -> float:
        if self._now() - self._heard > self._patience.outage:
            raise error
        self._failures += 1
        return self._patience.pause(self._failures) if asked is None else asked


def _data(event: Event) -> Mapping[str, Any]:
    try:
        found = json.loads(event.data)
        return {"rows": found} if isinstance(found, list) else {**found}
    except (ValueError, TypeError) as cause:
        raise SourceError(
            "the server sent an event that is not JSON", detail=f"It begins {event.data[:80]!r}."
        ) from cause


def _as_reply(found: Mapping[str, Any]) -> Reply:
    body = found if "error" in found else {"error": found}
    status = 410 if body["error"].get("cursor") else 400
    return Reply(status, {}, Received(json.dumps(body).encode()))
