"""What is sent again, when, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pyarrow as pa
import pytest

import millrace
from millrace.client.async_client import AsyncClient
from millrace.client.client import Client
from millrace.client.patience import Patience
from millrace.errors import MillraceError, PlanError, UnreachableError

Made = Callable[..., Client]


class Server:
    """Fails some times, then answers; remembers what it was asked."""

    def __init__(self, *first: httpx.Response | Exception) -> None:
        self.first, self.seen = list(first), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if self.first:
            failure = self.first.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return failure
        answer = {"status": "ok", "rows": 1, "id": 1, "name": "q", "outcomes": []}
        return httpx.Response(200, json=answer)


def busy(**headers: str) -> httpx.Response:
    error = {"code": "rate", "message": "too many requests"}
    return httpx.Response(429, json={"error": error}, headers=headers)


CUT = httpx.ReadError("connection reset")
AWAY = httpx.ConnectError("connection refused")


@pytest.mark.parametrize("failure", [CUT, AWAY, httpx.Response(503), httpx.ReadTimeout("slow")])
def test_a_read_is_repeated(client_of: Made, failure: httpx.Response | Exception) -> None:
    server = Server(failure, failure)

    assert client_of(server).health()["status"] == "ok"
    assert len(server.seen) == 3


def test_a_statement_that_may_have_taken_effect_is_not_repeated(client_of: Made) -> None:
    server = Server(CUT)

    with pytest.raises(UnreachableError, match="did not answer") as refused:
        client_of(server).execute("INSERT INTO t VALUES (1)")

    assert len(server.seen) == 1
    assert "may have taken effect" in refused.value.detail


def test_a_statement_that_never_arrived_is_repeated(client_of: Made) -> None:
    server = Server(AWAY)

    assert client_of(server).execute("INSERT INTO t VALUES (1)") == []
    assert len(server.seen) == 2


def test_a_push_is_repeated_under_the_same_key(client_of: Made) -> None:
    server = Server(CUT, httpx.Response(503), CUT)

    assert client_of(server).push("trades", {"x": [1]}) == 1

    assert len({each.headers["Idempotency-Key"] for each in server.seen}) == 1
    assert len({each.content for each in server.seen}) == 1
    assert len(server.seen) == 4


def test_two_pushes_have_two_keys(client_of: Made) -> None:
    server = Server()
    client = client_of(server)

    client.push("trades", {"x": [1]})
    client.push("trades", {"x": [1]})

    assert len({each.headers["Idempotency-Key"] for each in server.seen}) == 2


@pytest.mark.parametrize(("name", "n_sent"), [("q", 2), (None, 1)])
def test_a_registration_is_repeated_if_it_has_a_name(
    client_of: Made, name: str | None, n_sent: int
) -> None:
    server = Server(CUT)

    if name is None:
        with pytest.raises(UnreachableError):
            client_of(server).query("SELECT 1", name=name)
    else:
        client_of(server).query("SELECT 1", name=name)

    assert len(server.seen) == n_sent


def test_too_many_requests_wait_for_as_long_as_the_server_says(
    client_of: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("millrace.client.blocking.time.sleep", waited.append)
    server = Server(busy(**{"Retry-After": "3"}), busy())

    client_of(server, Patience(first=0.5, chance=lambda: 0.0)).execute("SELECT 1")

    assert waited == [3.5, 1.0]


def test_a_server_that_is_busy_for_long_is_not_waited_for(client_of: Made) -> None:
    server = Server(busy(**{"Retry-After": "3600"}))

    with pytest.raises(MillraceError, match="too many requests") as refused:
        client_of(server).health()

    assert refused.value.code == "rate"
    assert len(server.seen) == 1


def test_it_gives_up_after_some_attempts(client_of: Made) -> None:
    server = Server(*[AWAY] * 9)

    with pytest.raises(UnreachableError, match=r'server "http://mill\.test" cannot be reached'):
        client_of(server).health()

    assert len(server.seen) == Patience().attempts


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500])
def test_a_refusal_is_not_repeated(client_of: Made, status: int) -> None:
    server = Server(httpx.Response(status, json={"error": {"code": "plan", "message": "no"}}))

    with pytest.raises(PlanError, match="no"):
        client_of(server).health()

    assert len(server.seen) == 1


def test_the_asynchronous_client_does_the_same(
    async_client_of: Callable[..., AsyncClient],
) -> None:
    server = Server(CUT, httpx.Response(503), busy())

    async def pushed() -> int:
        async with async_client_of(server) as client:
            return await client.push("trades", {"x": [1]})

    assert asyncio.run(pushed()) == 1
    assert len({each.headers["Idempotency-Key"] for each in server.seen}) == 1
    assert len(server.seen) == 4


def test_the_token_is_sent(client_of: Made) -> None:
    server = Server()

    client_of(server, token="secret").health()

    assert server.seen[0].headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("url", ["localhost:8642", "ftp://x", "http://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(PlanError, match="is not the address of a server"):
        millrace.connect(url)


def test_a_push_is_cut_by_rows_and_by_bytes(
    client_of: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.client.calls.PUSHED_ROWS", 4)
    server = Server()

    assert client_of(server).push("trades", {"x": range(10)}, key="mine") == 3  # one for each
    monkeypatch.setattr("millrace.client.calls.PUSHED_BYTES", 20)
    client_of(server).push("trades", {"x": range(5)}, key="other")

    keys = [each.headers["Idempotency-Key"] for each in server.seen]
    assert keys == ["mine-0", "mine-1", "mine-2", "other-0", "other-1", "other-2"]
    rows = [pa.ipc.open_stream(each.content).read_all()["x"].to_pylist() for each in server.seen]
    assert rows == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1], [2, 3], [4]]


def test_no_rows_are_no_request(client_of: Made) -> None:
    server = Server()

    assert client_of(server).push("trades", []) == 0
    assert server.seen == []


def test_a_slice_is_sent_without_what_it_is_cut_from(client_of: Made) -> None:
    server = Server()

    client_of(server).push("trades", pa.table({"x": range(100_000)}).slice(5, 2))

    assert len(server.seen[0].content) < 1_000


def test_a_client_that_is_closed_says_so(client_of: Made) -> None:
    client = client_of(Server())
    client.close()

    with pytest.raises(PlanError, match="the client is closed"):
        client.health()
