"""Too many rows are refused before any is made of them."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.schema import Schema
from millrace.server import pushing
from millrace.server.answers_http import JSON, NDJSON
from millrace.server.limits import Limits
from millrace.server.quotas import TooLargeError

SCHEMA = Schema.of("symbol text")
LIMITS = Limits(push_rows=3)


def fail(*_: Any, **__: Any) -> None:
    raise AssertionError("rows were made")


@pytest.mark.parametrize(
    ("kind", "body"),
    [(JSON, b'[{"symbol": "A"}, {}, {}, {}]'), (NDJSON, b'{"symbol": "A"}\n{}\n{}\n{}\n')],
)
def test_too_many_rows_are_not_begun(
    monkeypatch: pytest.MonkeyPatch, kind: str, body: bytes
) -> None:
    monkeypatch.setattr(pushing, "decode_json_column", fail)
    monkeypatch.setattr(pushing, "read_ndjson", fail)

    with pytest.raises(TooLargeError, match="limit 3 rows a request, now 4"):
        pushing.read_body(body, kind, SCHEMA, LIMITS)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_as_many_lines_as_may_come_are_taken(end: bytes) -> None:
    decoded = pushing.read_body(b'{"symbol": "A"}\n{}\n{}' + end, NDJSON, SCHEMA, LIMITS)

    assert decoded.rows.num_rows == 3
    with pytest.raises(TooLargeError):
        pushing.read_body(b"{}\n{}\n{}\n{}", NDJSON, SCHEMA, LIMITS)
