"""Subscriptions over connections that break: every answer once, in order."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

import httpx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.client.async_client import AsyncClient
from millrace.client.blocking import Wire
from millrace.client.client import Client
from millrace.client.patience import Patience
from millrace.client.request import ARROW, arrow_bytes
from millrace.errors import (
    LostAnswersError,
    PlanError,
    SourceError,
    UnknownNameError,
    UnreachableError,
)

N_EVENTS = 12
SCHEMA = pa.schema({"n": pa.int64()})


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that breaks off after some bytes, or ends."""

    def __init__(self, text: bytes, cut: int | None, *, breaks: bool) -> None:
        self.text, self.breaks = text if cut is None else text[:cut], breaks

    def __iter__(self) -> Iterator[bytes]:
        yield self.text
        if self.breaks:
            raise httpx.ReadError("connection reset")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Server:
    """Sends events 1 to 12 after the cursor; each connection lives for some bytes only."""

    def __init__(self, *lives: int, breaks: bool = True) -> None:
        self.lives, self.breaks, self.cursors = list(lives), breaks, list[str | None]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/queries/q"):
            return httpx.Response(200, json={"name": "q", "id": 1})
        if request.url.path.endswith("/results"):
            empty = arrow_bytes(SCHEMA.empty_table())
            return httpx.Response(200, content=empty, headers={"Content-Type": ARROW})
        if "event-stream" not in request.headers["Accept"]:
            return httpx.Response(200, json={"rows": [], "cursor": "0"})
        cursor = request.url.params.get("cursor")
        self.cursors.append(cursor)
        events = "".join(
            f": alive\n\nid: {n}\ndata: {json.dumps({'rows': [{'n': n}]})}\n\n"
            for n in range(int(cursor or 0) + 1, N_EVENTS + 1)
        )
        life = self.lives.pop(0) if self.lives else None
        return httpx.Response(200, stream=Pieces(events.encode(), life, breaks=self.breaks))


@given(st.lists(st.integers(0, 400), max_size=15), st.booleans())
def test_each_answer_comes_once_wherever_connections_break(lives: list[int], breaks: bool) -> None:  # noqa: FBT001
    transport = httpx.MockTransport(Server(*lives, breaks=breaks))
    patience = Patience(first=0.0)
    with Client(Wire("http://mill.test", None, timeout=5, patience=patience, transport=transport)) as client:  # noqa: E501  # fmt: skip
        query = client.standing("q")

        found = list(islice(query.changes(), N_EVENTS))  # type: ignore[union-attr]

    assert [row["n"] for result in found for row in result] == list(range(1, N_EVENTS + 1))
    assert [result.cursor for result in found] == [str(n) for n in range(1, N_EVENTS + 1)]


def test_the_asynchronous_client_resumes_too(
    async_client_of: Callable[..., AsyncClient],
) -> None:
    server = Server(30, 70, 0, 200)

    async def followed() -> list[int]:
        found: list[int] = []
        async with async_client_of(server) as client:
            query = await client.standing("q")
            changes = query.changes(after="3")  # type: ignore[union-attr]
            async for result in changes:
                found += result["n"].to_pylist()
                if found[-1] == N_EVENTS:
                    break
            await changes.aclose()
        return found

    assert asyncio.run(followed()) == list(range(4, N_EVENTS + 1))
    assert server.cursors[:2] == ["3", "3"]


def test_one_that_begins_now_asks_where_now_is(client_of: Callable[..., Client]) -> None:
    server = Server(0)
    query = client_of(server).standing("q")

    first = next(query.changes())  # type: ignore[union-attr]

    assert first.rows() == [{"n": 1}]
    assert server.cursors == ["0", "0"]


def test_what_is_no_cursor_is_refused_before_anything_is_sent(
    client_of: Callable[..., Client],
) -> None:
    query = client_of(Server()).standing("q")

    with pytest.raises(PlanError, match=r"3\.5 is not a cursor"):
        query.changes(after=3.5)  # type: ignore[arg-type, union-attr]


def test_it_ends_when_nothing_comes(client_of: Callable[..., Client]) -> None:
    query = client_of(Server()).standing("q")

    found = list(query.changes(after="11", timeout=0.05))  # type: ignore[union-attr]

    assert [result.rows() for result in found] == [[{"n": 12}]]


def test_the_time_to_wait_begins_when_the_connection_stands(
    client_of: Callable[..., Client],
) -> None:
    server = Server()

    def slowly(request: httpx.Request) -> httpx.Response:
        if "event-stream" in request.headers["Accept"]:
            time.sleep(0.2)
        return server(request)

    query = client_of(slowly).standing("q")

    found = list(query.changes(after="11", timeout=0.05))  # type: ignore[union-attr]

    assert [result.rows() for result in found] == [[{"n": 12}]]


def test_an_event_that_is_no_json_is_refused_in_words(client_of: Callable[..., Client]) -> None:
    server = Server()

    def answer(request: httpx.Request) -> httpx.Response:
        if "event-stream" in request.headers["Accept"]:
            return httpx.Response(200, content="id: 1\ndata: <html>\n\n")
        return server(request)

    query = client_of(answer).standing("q")

    with pytest.raises(SourceError, match="an event that is not JSON"):
        next(query.changes())  # type: ignore[union-attr]


def test_answers_that_are_gone_are_told(client_of: Callable[..., Client]) -> None:
    server = Server()

    def answer(request: httpx.Request) -> httpx.Response:
        if "event-stream" in request.headers["Accept"]:
            error = {"code": "lost_answers", "message": "no longer kept", "cursor": "7"}
            return httpx.Response(410, json={"error": error})
        return server(request)

    query = client_of(answer).standing("q")

    with pytest.raises(LostAnswersError, match="no longer kept") as refused:
        next(query.changes(after="1"))  # type: ignore[union-attr]
    assert refused.value.oldest == "7"


def test_a_query_that_is_dropped_ends_it_with_an_error(client_of: Callable[..., Client]) -> None:
    server = Server()

    def answer(request: httpx.Request) -> httpx.Response:
        if "event-stream" in request.headers["Accept"]:
            error = {"error": {"code": "unknown_name", "message": "query is dropped"}}
            text = f"event: error\ndata: {json.dumps(error)}\n\n"
            return httpx.Response(200, content=text)
        return server(request)

    query = client_of(answer).standing("q")

    with pytest.raises(UnknownNameError, match="query is dropped"):
        next(query.changes())  # type: ignore[union-attr]


def test_a_server_that_stays_away_is_given_up(client_of: Callable[..., Client]) -> None:
    server = Server()

    def answer(request: httpx.Request) -> httpx.Response:
        if "event-stream" in request.headers["Accept"]:
            raise httpx.ConnectError("connection refused")
        return server(request)

    query = client_of(answer, Patience(first=0.01, longest=0.02, outage=0.1)).standing("q")

    with pytest.raises(UnreachableError):
        next(query.changes())  # type: ignore[union-attr]
