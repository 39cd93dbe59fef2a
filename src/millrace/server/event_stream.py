"""Server-sent events: answers as they come, until the client or the server has had enough.

    id: CURSOR
    data: {"rows": […], "cursor": "CURSOR"}

A comment is sent when nothing has happened for a while. A client that takes nothing for long is cut
off; one that is too slow is told so, with its cursor, and may come back with it. One whose token is
forgotten is told that instead of the next event.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from millrace.server.events import Event
from millrace.server.fan_out import FanOut, Subscription

HEARTBEAT_SECONDS = 15.0
REVOKED = "revoked"
SEND_SECONDS = 30.0


class EventStream(Response):
    """Sends the events of one subscription, for as long as whoever follows is `known`."""

    media_type = "text/event-stream"

    def __init__(
        self, fan_out: FanOut, subscription: Subscription, known: Callable[[], bool]
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self._fan_out, self._subscription, self._known = fan_out, subscription, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until one of both ends."""
        del scope
        gone = asyncio.create_task(_gone(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._fan_out.leave(self._subscription)
            for task in (gone, sending):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError, TimeoutError):
                    await task

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await _part(send, f": from {self._subscription.cursor}\n\n")
        while True:
            # Those who came together are not to be told together that nothing is new.
            pause = HEARTBEAT_SECONDS * random.uniform(0.5, 1.0)
            event = await next_if_known(self._subscription, pause, self._known)
            if event is not None:
                await _part(send, event_text(event))
            elif self._subscription.ended:
                break
            else:
                await _part(send, ": nothing new\n\n")
        told = json.dumps({"cursor": str(self._subscription.cursor),
                           "reason": self._subscription.ended})  # fmt: skip
        await _part(send, f"event: detached\ndata: {told}\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def next_if_known(
    subscription: Subscription, timeout: float, known: Callable[[], bool]
) -> Event | None:
    """Wait for the next event; whoever is not known any more gets none, and it ends there."""
    cursor = subscription.cursor
    event = await subscription.next(timeout)
    if known():
        return event
    subscription.cursor = cursor  # what was not sent has not been taken
    subscription.end(REVOKED)
    return None


def event_text(event: Event) -> str:
    """Spell an event; its text is JSON, so it has no line ends."""
    return f"id: {event.cursor}\ndata: {event.text}\n\n"


async def _part(send: Send, text: str) -> None:
    message = {"type": "http.response.body", "body": text.encode(), "more_body": True}
    async with asyncio.timeout(SEND_SECONDS):
        await send(message)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
