"""The largest body: a request that says, or sends, more is refused before it is kept."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millrace.server.errors import error_response
from millrace.server.quotas import TooLargeError


class BodyLimit:
    """Refuses bodies beyond a limit, also those that do not say how long they are."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self._app, self._largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._largest:
            await error_response(self._refusal(int(told)))(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._largest:
                raise self._refusal(taken)
            return message

        await self._app(scope, counted, send)

    def _refusal(self, size: int) -> TooLargeError:
        return TooLargeError("bytes a body", self._largest, size, hint="Send it in parts.")
