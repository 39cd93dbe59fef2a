"""A server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.testing.serving import STREAM, Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server with one stream, open to the test."""
    with Served(tmp_path / "root") as server:
        server.sql(STREAM)
        yield server
