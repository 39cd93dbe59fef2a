"""Connecting to a server: the one place where a client begins.

httpx is imported here, when somebody connects, so that `import millrace` does without it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from millrace.client.patience import Patience
from millrace.errors import MachineError

if TYPE_CHECKING:
    from millrace.client.async_client import AsyncClient
    from millrace.client.client import Client

SECONDS = 30.0


def connect(
    url: str,
    token: str | None = None,
    *,
    timeout: float = SECONDS,
    patience: Patience | None = None,
    ca: str | Path | None = None,
) -> Client:
    """Return a client of the server at an address; nothing is sent yet.

    Parameters
    ----------
    url
        Where `millrace serve` listens, such as `http://localhost:8642`.
    token
        The token that the operator gave; none for a server that asks for none.
    timeout
        For how many seconds a call waits for an answer.
    patience
        How often and when a call is tried again.
    ca
        A file in PEM with the certificates to trust, for https to a server whose certificate is
        issued by nobody that the world knows; by default those that come with httpx.
    """
    client, wire = _loaded("client", "Client"), _loaded("blocking", "Wire")
    made: Client = client(wire(url, token, **_options(timeout, patience, ca)))
    return made


def connect_async(
    url: str,
    token: str | None = None,
    *,
    timeout: float = SECONDS,
    patience: Patience | None = None,
    ca: str | Path | None = None,
) -> AsyncClient:
    """Return a client for asyncio of the server at an address; as `connect`."""
    client, wire = _loaded("async_client", "AsyncClient"), _loaded("concurrent", "AsyncWire")
    made: AsyncClient = client(wire(url, token, **_options(timeout, patience, ca)))
    return made


def _options(timeout: float, patience: Patience | None, ca: str | Path | None) -> dict[str, Any]:
    trusted = None if ca is None else Path(ca)
    return {"timeout": timeout, "patience": patience or Patience(), "ca": trusted}


def _loaded(module: str, name: str) -> Any:  # noqa: ANN401  a class, whose module needs httpx
    try:
        return getattr(importlib.import_module(f"millrace.client.{module}"), name)
    except ImportError as cause:
        if cause.name != "httpx":
            raise
        raise MachineError(
            "httpx is not installed", hint="Install it with: pip install 'millrace[client]'"
        ) from cause
