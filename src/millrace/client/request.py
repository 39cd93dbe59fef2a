"""What is asked of a server, as a value: built here, sent by whoever drives the connection.

Nothing in this module, nor in `calls`, opens a connection or waits. So the blocking client and
the asynchronous one say the same things, and tests read what would be sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Parameters
    ----------
    repeatable
        Whether it may be sent again when it is not known whether the first one arrived.
    text
        The statement that it carries, to show the place that an error is about.
    """

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    repeatable: bool = False
    text: str = ""


def path_of(*parts: str | int) -> str:
    """Return the path of a thing; names may hold any character.

    >>> path_of("queries", "a/b c", "results")
    '/v1/queries/a%2Fb%20c/results'
    """
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def get(path: str, *, accept: str = JSON, **params: object) -> Request:
    """Ask for something; parameters that are None are left out."""
    return Request("GET", path, _params(params), (("Accept", accept),), repeatable=True)


def send(
    method: str,
    path: str,
    document: Any,  # noqa: ANN401  whatever JSON can hold
    *,
    repeatable: bool = False,
    accept: str = JSON,
    text: str = "",
) -> Request:
    """Send a JSON document."""
    headers = (("Accept", accept), ("Content-Type", JSON))
    body = json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    return Request(method, path, (), headers, body, repeatable, text)


def send_rows(
    path: str,
    rows: pa.Table,
    *,
    repeatable: bool,
    key: str = "",
    method: str = "POST",
    **params: object,
) -> Request:
    """Send rows in Arrow's form; under a key, which the server remembers, they count once."""
    keyed = (("Idempotency-Key", key),) if key else ()
    headers = (("Accept", JSON), ("Content-Type", ARROW), *keyed)
    return Request(method, path, _params(params), headers, arrow_bytes(rows), repeatable)


def arrow_bytes(rows: pa.Table) -> bytes:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def given(**fields: object) -> dict[str, Any]:
    """Return the fields that are not None: the server knows its own defaults."""
    return {name: value for name, value in fields.items() if value is not None}


def _params(params: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple((name, _spelt(value)) for name, value in params.items() if value is not None)


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
