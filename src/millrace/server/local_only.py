"""Before a demo: only this machine's own pages and programs come in.

Without tokens everybody who reaches the server is the operator, and a browser on this machine
reaches it on behalf of any page that it shows. Such a page is known by its origin; one whose name
was made to lead here, by the name that it asks for.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from millrace.server.errors import error_response
from millrace.server.principals import ForbiddenError

REFUSED = 4403
_OPEN = "Without tokens everybody who reaches the server may do everything."


class LocalOnly:
    """Refuses requests for other hosts than this machine, and those of pages from elsewhere."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the beginning of a web socket."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        error = refusal(headers.get("host", ""), headers.get("origin"))
        if error is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await error_response(error)(scope, receive, send)
        else:  # before it is accepted, which is answered with 403
            await send({"type": "websocket.close", "code": REFUSED, "reason": error.message})


def refusal(host: str, origin: str | None) -> ForbiddenError | None:
    """Say why a request is not this machine's own; None if it is.

    >>> refusal("localhost:8642", "http://localhost:8642"), refusal("[::1]:8642", None)
    (None, None)
    >>> refusal("localhost:8642", "http://example.org").message
    'a demo is not for pages of "http://example.org"'
    """
    if not _is_local(host):
        return ForbiddenError(
            f'a demo is not served as "{host}"',
            detail=_OPEN,
            hint="Call it localhost or 127.0.0.1, or leave --demo away and make tokens.",
        )
    if origin is not None and origin.lower().partition("://")[2] != host.lower():
        return ForbiddenError(
            f'a demo is not for pages of "{origin}"',
            detail=_OPEN,
            hint="Open the console of this server, or leave --demo away and make tokens.",
        )
    return None


@lru_cache(maxsize=64)
def _is_local(host: str) -> bool:
    """Say whether a host is this machine, by its name alone: nobody is asked where it leads."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
