"""One server for all tests that do it no harm, and others to be maltreated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millrace
from millrace.testing.served import Line, Served


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that many tests share; they choose names of their own."""
    running = Served(tmp_path_factory.mktemp("served") / "root", "--demo").start()
    yield running
    running.stop()


@pytest.fixture
def client(served: Served) -> Iterator[millrace.Client]:
    with millrace.connect(served.url) as made:
        yield made


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start a server of one's own."""
    started: list[Served] = []

    def start(*options: str) -> Served:
        started.append(Served(tmp_path / f"root{len(started)}", *(options or ("--demo",))).start())
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def line(served: Served) -> Iterator[Line]:
    made = Line(served.port)
    yield made
    made.close()
