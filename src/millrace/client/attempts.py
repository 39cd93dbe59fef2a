"""One request, sent until it is answered or there is no point any more; and what httpx needs.

This is what the blocking driver and the asynchronous one share of sending: they differ in how
they wait, and in nothing else.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

import millrace
from millrace.client.faults import refusal, unreachable
from millrace.client.patience import Patience
from millrace.client.reply import Reply
from millrace.client.request import Request
from millrace.errors import PlanError

NEVER_SENT = httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout
LOST = httpx.TransportError
CONNECT_SECONDS = 5.0


@dataclass(slots=True)
class Attempts:
    """How often a request was sent, and what became of it."""

    request: Request
    url: str
    patience: Patience
    n_sent: int = 1

    def failed(self, cause: httpx.TransportError) -> float:
        """Return how long to wait before it is sent again, or raise that nobody answers."""
        sent = not isinstance(cause, NEVER_SENT)
        wait = self.patience.after_failure(
            self.n_sent, repeatable=self.request.repeatable, sent=sent
        )
        if wait is None:
            effect = sent and not self.request.repeatable
            raise unreachable(self.url, cause, sent=effect) from cause
        self.n_sent += 1
        return wait

    def refused(self, reply: Reply) -> float:
        """Return how long to wait before it is sent again, or raise the refusal."""
        wait = self.patience.after_refusal(
            reply.status,
            reply.headers.get("retry-after"),
            self.n_sent,
            repeatable=self.request.repeatable,
        )
        if wait is None:
            raise refusal(reply, self.request)
        self.n_sent += 1
        return wait


def require_open(*, closed: bool) -> None:
    """Refuse to use a client that was closed."""
    if closed:
        raise PlanError("the client is closed", hint="Connect again.")


def wait_for_bytes(response: httpx.Response, seconds: float) -> None:
    """Say how long to wait for each piece of a body; until now it was for the headers."""
    response.request.extensions["timeout"]["read"] = seconds


def checked_url(url: str) -> str:
    """Return the address of a server, or say what is wrong with it.

    >>> checked_url("http://localhost:8642/")
    'http://localhost:8642'
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PlanError(
            f'"{url}" is not the address of a server',
            hint="Write it as in http://localhost:8642, with http or https.",
        )
    return url.rstrip("/")


def http_options(url: str, token: str | None, timeout: float, ca: Path | None) -> dict[str, Any]:
    """Return what an httpx client, of either form, is made with."""
    headers = {"User-Agent": f"millrace/{millrace.__version__}"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return {
        "base_url": url,
        "headers": headers,
        "timeout": httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
        **({} if ca is None else {"verify": _trusting(ca)}),
    }


def _trusting(ca: Path) -> ssl.SSLContext:
    """Return what checks that a server's certificate was issued by somebody in a file."""
    try:
        return ssl.create_default_context(cafile=str(ca))
    except OSError as cause:  # an error of ssl is one
        raise PlanError(
            f'certificates cannot be read from "{ca}"',
            detail=f"{cause}.",
            hint="Name a file in PEM that holds the certificate of whoever issued the server's.",
        ) from cause


def request_options(request: Request) -> dict[str, Any]:
    """Return a request as httpx builds it."""
    return {
        "method": request.method,
        "url": request.path,
        "params": list(request.params) or None,
        "headers": dict(request.headers),
        "content": request.body,
    }
