"""A server that is a function, for both forms of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from millrace.client.async_client import AsyncClient
from millrace.client.blocking import Wire
from millrace.client.client import Client
from millrace.client.concurrent import AsyncWire
from millrace.client.patience import Patience

Answer = Callable[[httpx.Request], httpx.Response]

AT_ONCE = Patience(first=0.0)
URL = "http://mill.test"


@pytest.fixture
def client_of() -> Iterator[Callable[..., Client]]:
    """Make a client whose server is a function from request to response."""
    made: list[Client] = []

    def make(answer: Answer, patience: Patience = AT_ONCE, token: str | None = None) -> Client:
        transport = httpx.MockTransport(answer)
        made.append(Client(Wire(URL, token, timeout=5, patience=patience, transport=transport)))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def async_client_of() -> Callable[..., AsyncClient]:
    """Make an asynchronous client whose server is a function from request to response."""

    def make(answer: Answer, patience: Patience = AT_ONCE) -> AsyncClient:
        transport = httpx.MockTransport(answer)
        return AsyncClient(AsyncWire(URL, None, timeout=5, patience=patience, transport=transport))

    return make
