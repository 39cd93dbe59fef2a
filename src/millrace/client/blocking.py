"""The driver that blocks: sends what calls ask for, and waits in this thread."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Self

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


class Wire:
    """A server, spoken to by threads; any number of them may share it."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        timeout: float,
        patience: Patience,
        ca: Path | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url, self.patience = checked_url(url), patience
        options = http_options(self.url, token, timeout, ca)
        self._http = httpx.Client(**options, transport=transport)

    def do(self, call: Call[Given]) -> Given:
        """Do a call to its end."""
        try:
            request = next(call)
            while True:
                try:
                    reply = self._exchange(request)
                except MillraceError as error:
                    request = call.throw(error)
                else:
                    request = call.send(reply)
        except StopIteration as ended:
            found: Given = ended.value
            return found

    def follow(self, subscription: Subscription) -> Iterator[Result]:
        """Yield what a subscription gives, over as many connections as it takes."""
        while not (subscription.is_over() or self._http.is_closed):
            try:
                wait = yield from self._listen(subscription)
            except LOST as cause:
                wait = 0.0 if subscription.is_over() else subscription.lost(self.url, cause)
            if not subscription.is_over():
                time.sleep(wait)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, request: Request) -> Reply:
        """Send a request, again if that is safe and helps; return a reply that is no refusal."""
        require_open(closed=self._http.is_closed)
        attempts = Attempts(request, self.url, self.patience)
        while True:
            try:
                reply = self._sent(request)
            except LOST as cause:
                wait = attempts.failed(cause)
            else:
                if reply.status < 400:
                    return reply
                wait = attempts.refused(reply)
            time.sleep(wait)

    def _sent(self, request: Request) -> Reply:
        body = Received()
        with self._http.stream(**request_options(request)) as response:
            for piece in response.iter_bytes():
                body.feed(piece)
            return Reply(response.status_code, response.headers, body)

    def _listen(self, subscription: Subscription) -> Generator[Result, None, float]:
        """Yield what comes over one connection; return how long to wait before the next."""
        with self._http.stream(**request_options(subscription.request())) as response:
            if response.status_code >= 400:
                body = Received(response.read())
                return subscription.refused(Reply(response.status_code, response.headers, body))
            subscription.opened()
            wait_for_bytes(response, subscription.read_timeout)
            events = Events()
            for piece in response.iter_bytes():
                for event in events.feed(piece):
                    given = subscription.take(event)
                    if given is not None:
                        yield given
                if subscription.is_over():
                    break
        return subscription.ended()
