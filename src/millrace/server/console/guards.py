"""What stands before the console: headers that keep it to itself, and a signpost to its port.

They are plain ASGI: what is not for the console passes them untouched, and streams of events do.
"""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'self' data: blob:; "
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Nothing is loaded from elsewhere, and nobody may frame it. Vue makes functions of templates."""


class Guarded:
    """Adds headers to what is answered under a path."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app, self._base = app, base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not scope["path"].startswith(self._base):
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, sent)


class Signpost:
    """Leads whoever looks for the console on another port to its own."""

    def __init__(self, app: ASGIApp, base: str, port: int) -> None:
        self._app, self._base, self._port = app, base, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        wanted = scope["type"] == "http" and (
            scope["path"] == "/" or scope["path"].startswith(self._base)
        )
        if not wanted or scope["server"][1] == self._port:
            await self._app(scope, receive, send)
            return
        place = Request(scope).url.replace(port=self._port)
        await RedirectResponse(str(place), status_code=307)(scope, receive, send)
