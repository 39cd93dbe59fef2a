"""Undisturbed runs, one for each configuration, and a fast place for what is delivered."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millrace import failpoints
from millrace.testing.configurations import CONFIGURATIONS, Configuration, configuration
from millrace.testing.harness import Record, undisturbed
from millrace.testing.scenario import Scenario

Places = Callable[[], Path]

HERE = Path(__file__).parent
_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def places() -> Iterator[Places]:
    """Make new directories, in memory where the system has one, since a sink syncs its files."""
    base = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
    yield lambda: Path(tempfile.mkdtemp(dir=base))
    shutil.rmtree(base)


# The others take longer than these; they are for `make test`.
QUICK = ("plain",)
WITH_PLANS = ("resharded",)
# Plans take longer, and in so many epochs every point is passed.
PLANNED = Scenario(13, plans=True)
_MARKED = [
    pytest.param(each, id=each.name, marks=() if each.name in QUICK else pytest.mark.slow)
    for each in CONFIGURATIONS
]


@pytest.fixture(scope="session", params=_MARKED)
def record(request: pytest.FixtureRequest, places: Places) -> Record:
    """The undisturbed run of each configuration in turn."""
    how: Configuration = request.param
    return undisturbed(PLANNED if how.name in WITH_PLANS else Scenario(), how, places())


@pytest.fixture(scope="session")
def spread_record(places: Places) -> Record:
    """The undisturbed run of a configuration in which every kind of file is written."""
    return undisturbed(Scenario(), configuration("files"), places())


@pytest.fixture(scope="session")
def planned_record(places: Places) -> Record:
    """The undisturbed run of the scenario with plans, in a configuration that no other has."""
    return undisturbed(PLANNED, configuration("plain"), places())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let threads of processes that are dead, and whose root is gone, end as they may."""
    words = "ignore:Exception in thread millrace-index:pytest.PytestUnhandledThreadExceptionWarning"
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(words))


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    """Leave no failpoint armed behind."""
    yield
    failpoints.disarm()
