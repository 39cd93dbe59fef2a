"""What the tests on Spark share: sessions that are always closed, and waiting for rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import millrace
from millrace.testing.spark_rows import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sessions:
    """Opens sessions on roots of one test, and closes what the test left open."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark, self.root = spark, directory / "root"
        self._open: list[millrace.Session] = []

    def open(self, root: Path | None = None, **settings: Any) -> millrace.Session:
        """Open a session on Spark; settings as in `millrace.Settings`."""
        chosen = millrace.Settings(**{"backoff": 20_000, **settings})
        session = millrace.Session(root or self.root, spark=self.spark, settings=chosen)
        self._open.append(session)
        return session

    def close(self) -> None:
        """Close everything, quickly."""
        for session in self._open:
            session.close(drain=0)


@pytest.fixture
def sessions(spark: SparkSession, tmp_path: Path) -> Iterator[Sessions]:
    """Sessions on the shared Spark, in a directory of the test's own."""
    made = Sessions(spark, tmp_path)
    yield made
    made.close()


def count_of(session: millrace.Session, what: str) -> int:
    """Return a total of the root: rows, late, dead or results."""
    return int(session.engine.manifest.facts.get("counts", {}).get(what, 0))


@pytest.fixture
def await_rows() -> Callable[[millrace.Session, int], None]:
    """Wait until epochs have taken that many rows in all."""

    def awaited(session: millrace.Session, n_rows: int) -> None:
        wait_until(
            lambda: count_of(session, "rows") >= n_rows,
            describe=lambda: (session.engine.manifest.facts.get("counts"), session._run),
        )
        assert count_of(session, "rows") == n_rows

    return awaited
