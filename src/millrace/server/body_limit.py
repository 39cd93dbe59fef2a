"""The largest body: a request that says, or sends, more is refused before it is kept.

Rows, and many queries at once, may be large; nothing else that is sent has to be.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace.server.errors import error_response
from millrace.server.quotas import TooLargeError

SMALL_BYTES = 10 << 20
_LARGE = ("/rows", "/bulk")


class BodyLimit:
    """Refuses bodies beyond a limit, also those that do not say how long they are."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self._app, self._largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(receive, send, self._most(scope))
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit():
            body.require(int(told))
        if body.refusal is None:
            try:
                await self._app(scope, body.receive, body.send)
            except TooLargeError:
                if body.refusal is None:
                    raise
        if body.refusal is not None and not body.answered:
            await error_response(body.refusal)(scope, receive, send)

    def _most(self, scope: Scope) -> int:
        large = scope["method"] == "POST" and scope["path"].endswith(_LARGE)
        return self._largest if large else min(self._largest, SMALL_BYTES)


class _Body:
    """The body of one request, counted as it comes, and whether it was answered."""

    def __init__(self, receive: Receive, send: Send, most: int) -> None:
        self._receive, self._send, self._most = receive, send, most
        self._taken = 0
        self.answered = False
        self.refusal: TooLargeError | None = None

    def require(self, size: int) -> None:
        """Refuse a body of that size if it is too large."""
        if size > self._most:
            self.refusal = TooLargeError("bytes a body", self._most, size, hint="Send it in parts.")

    async def receive(self) -> Message:
        """Return the next part."""
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        self.require(self._taken)
        if self.refusal is not None:
            raise self.refusal
        return message

    async def send(self, message: Message) -> None:
        """Send an answer, unless it is about a body that was cut off."""
        if self.refusal is None or self.answered:
            self.answered = True
            await self._send(message)
