"""A client of the server that tests share, and servers of one's own to be maltreated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millrace
from millrace.testing.server_process import Line, ServerProcess


@pytest.fixture
def client(server: ServerProcess) -> Iterator[millrace.Client]:
    with millrace.connect(server.url) as made:
        yield made


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start a server of one's own."""
    started: list[ServerProcess] = []

    def start(*options: str) -> ServerProcess:
        started.append(
            ServerProcess(tmp_path / f"root{len(started)}", *(options or ("--demo",))).start()
        )
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def line(server: ServerProcess) -> Iterator[Line]:
    made = Line(server.port)
    yield made
    made.close()
