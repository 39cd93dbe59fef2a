"""What the tests of the run store share: roots of every kind, and roots that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace import failpoints
from millrace.state.memory_root import MemoryRoot
from millrace.state.posix_root import PosixRoot
from millrace.state.root import Root

CHANGING = ("put_if_absent", "put", "delete")


class FaultyRoot:
    """A root that fails at its n-th change: before it is done, or right after."""

    def __init__(self, root: Root, error: BaseException, *, countdown: int, after: bool) -> None:
        self._root = root
        self._error = error
        self._countdown = countdown
        self._after = after

    @property
    def exhausted(self) -> bool:
        return self._countdown <= 0

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._root, name)
        if name not in CHANGING:
            return attribute

        def change(*arguments: Any) -> Any:
            self._countdown -= 1
            if self._countdown == 0 and not self._after:
                raise self._error
            outcome = attribute(*arguments)
            if self._countdown == 0:
                raise self._error
            return outcome

        return change


@pytest.fixture
def faulty() -> type[FaultyRoot]:
    return FaultyRoot


@pytest.fixture(params=["posix", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    return PosixRoot(tmp_path / "root", durable=False) if request.param == "posix" else MemoryRoot()


@pytest.fixture
def posix(tmp_path: Path) -> PosixRoot:
    return PosixRoot(tmp_path / "root", durable=False)


@pytest.fixture
def armed() -> Iterator[Callable[..., None]]:
    yield failpoints.arm
    failpoints.disarm()
