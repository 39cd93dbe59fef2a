"""Health: whoever has no token learns that a server is there, and nothing of who uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.testing.serving import STREAM, Served


@pytest.mark.parametrize("path", ["/v1/health", "/v1/ready"])
def test_without_a_token_nobody_learns_of_tenants(tmp_path: Path, path: str) -> None:
    with Served(tmp_path / "root", demo=False) as served:
        operator, acme = served.tokens.add("admin")[0], served.tokens.add("writer", "acme")[0]
        served.sql(STREAM, operator)
        before = served.get(path).json()
        served.sql("CREATE QUERY secret AS SELECT price FROM trades", acme)
        after = served.get(path).json()

    assert after.keys() == {"status", "engine", "epoch"}
    assert {**after, "epoch": 0} == {**before, "epoch": 0}
