"""A server in a process of its own, for the tests of clients and commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millrace.testing.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that tests share which do it no harm; they choose names of their own."""
    running = ServerProcess(tmp_path_factory.mktemp("served") / "root", "--demo").start()
    yield running
    running.stop()
