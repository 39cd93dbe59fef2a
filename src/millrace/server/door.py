"""The door: whoever shows no good token is refused before anything of their body is read.

Routes read a body as a whole, and bodies of JSON into objects, before they ask whose it is.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from millrace.errors import MillraceError
from millrace.server.access import ADMITTED, Gate
from millrace.server.errors import error_response

OPEN = ("/v1/health", "/v1/ready")
"""What is answered to everybody."""


class Door:
    """Lets requests to the API in by their token, and says who they are."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http" and _closed(scope["path"]):
            try:
                who = self._gate.admit(Headers(scope=scope).get("authorization"))
            except MillraceError as error:
                await error_response(error)(scope, receive, send)
                return
            scope[ADMITTED] = who
        await self._app(scope, receive, send)


def _closed(path: str) -> bool:
    return path.startswith("/v1/") and path.rstrip("/") not in OPEN
