"""The driver for asyncio: the same as `blocking`, but it awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path

import httpx

from millrace.client.attempts import (
    LOST,
    Attempts,
    checked_url,
    http_options,
    request_options,
    require_open,
    wait_for_bytes,
)
from millrace.client.calls import Call, Given
from millrace.client.events import Events
from millrace.client.patience import Patience
from millrace.client.reply import Received, Reply
from millrace.client.request import Request
from millrace.client.result import Result
from millrace.client.subscription import Subscription
from millrace.errors import MillraceError


class AsyncWire:
    """A server, spoken to by the tasks of one event loop."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout: float,
        patience: Patience,
        ca: Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url, self.patience = checked_url(url), patience
        options = http_options(self.url, token, timeout, ca)
        self._http = httpx.AsyncClient(**options, transport=transport)

    async def do(self, call: Call[Given]) -> Given:
        """Do a call to its end."""
        try:
            request = next(call)
            while True:
                try:
                    reply = await self._exchange(request)
                except MillraceError as error:
                    request = call.throw(error)
                else:
                    request = call.send(reply)
        except StopIteration as ended:
            found: Given = ended.value
            return found

    async def follow(self, subscription: Subscription) -> AsyncGenerator[Result, None]:
        """Yield what a subscription gives, over as many connections as it takes."""
        while not (subscription.is_over() or self._http.is_closed):
            wait = 0.0
            try:
                async with self._opened(subscription) as response:
                    if response.status_code >= 400:
                        body = Received(await response.aread())
                        reply = Reply(response.status_code, response.headers, body)
                        wait = subscription.refused(reply)
                    else:
                        async with aclosing(_events(response, subscription)) as events:
                            async for given in events:
                                yield given
                        wait = subscription.ended()
            except LOST as cause:
                wait = 0.0 if subscription.is_over() else subscription.lost(self.url, cause)
            if not subscription.is_over():
                await asyncio.sleep(wait)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _exchange(self, request: Request) -> Reply:
        """Send a request, again if that is safe and helps; return a reply that is no refusal."""
        require_open(closed=self._http.is_closed)
        attempts = Attempts(request, self.url, self.patience)
        while True:
            try:
                reply = await self._sent(request)
            except LOST as cause:
                wait = attempts.failed(cause)
            else:
                if reply.status < 400:
                    return reply
                wait = attempts.refused(reply)
            await asyncio.sleep(wait)

    async def _sent(self, request: Request) -> Reply:
        body = Received()
        async with self._http.stream(**request_options(request)) as response:
            async for piece in response.aiter_bytes():
                body.feed(piece)
            return Reply(response.status_code, response.headers, body)

    def _opened(self, subscription: Subscription) -> AbstractAsyncContextManager[httpx.Response]:
        return self._http.stream(**request_options(subscription.request()))


async def _events(
    response: httpx.Response, subscription: Subscription
) -> AsyncGenerator[Result, None]:
    """Yield what comes over one connection."""
    subscription.opened()
    wait_for_bytes(response, subscription.read_timeout)
    events = Events()
    async for piece in response.aiter_bytes():
        for event in events.feed(piece):
            given = subscription.take(event)
            if given is not None:
                yield given
        if subscription.is_over():
            return
