"""Server-sent events: answers as they come, until the client or the server has had enough.

    id: CURSOR
    data: {"rows": […], "cursor": "CURSOR"}

A comment is sent when nothing has happened for a while. A client that takes nothing for long is cut
off; one that is too slow is told so, with its cursor, and may come back with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from millrace.server.fan_out import Event, FanOut, Subscription

HEARTBEAT_SECONDS = 15.0
SEND_SECONDS = 30.0


class EventStream(Response):
    """Sends the events of one subscription."""

    media_type = "text/event-stream"

    def __init__(self, fan_out: FanOut, subscription: Subscription) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self._fan_out, self._subscription = fan_out, subscription

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
            event = await self._subscription.next(HEARTBEAT_SECONDS * random.uniform(0.5, 1.0))
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


def event_text(event: Event) -> str:
    """Spell an event; its text is JSON, so it has no line ends."""
    return f"id: {event.cursor}\ndata: {event.text}\n\n"


async def _part(send: Send, text: str) -> None:
    message = {"type": "http.response.body", "body": text.encode(), "more_body": True}
    await asyncio.wait_for(send(message), SEND_SECONDS)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
