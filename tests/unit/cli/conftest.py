"""A small root that an engine without Spark has written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

import millrace
from millrace.engine.local import LocalRun

SCHEMA = "symbol text, price double, ts timestamp"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def make_trades(first_second: int, *prices: float | None) -> pa.Table:
    """One trade a second; a price of None stands for a row without a time."""
    times = [
        None if price is None else NOON + timedelta(seconds=first_second + second)
        for second, price in enumerate(prices)
    ]
    return pa.table(
        {
            "symbol": ["ACME"] * len(prices),
            "price": pa.array(prices, pa.float64()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def declare(session: millrace.Session, answers: Path) -> LocalRun:
    session.stream(
        "trades",
        millrace.Feed(SCHEMA),
        time="ts",
        delay="2 seconds",
        key="symbol",
        retain="1 hour",
        partition="symbol",
        order="ts",
    )
    dear = millrace.select("trades", "symbol", "price", where=millrace.col("price") > 100)
    session.query(dear, name="dear")
    session.sink(millrace.ParquetSink(answers, roll_epochs=1))
    return cast("LocalRun", session.start())


@pytest.fixture
def trades() -> Callable[..., pa.Table]:
    """Make rows, one trade a second."""
    return make_trades


@pytest.fixture
def declared_in() -> Callable[[millrace.Session, Path], LocalRun]:
    """Declare what the root holds, once more, and start."""
    return declare


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A root after three epochs, with the engine still there: a late row and a dead letter."""
    place = tmp_path / "root"
    with millrace.Session(place) as session:
        run = declare(session, tmp_path / "answers")
        run.feed(trades=make_trades(0, 99.0, 101.0, 102.0))
        run.feed(trades=make_trades(60, 103.0, None, 50.0))
        run.feed(trades=make_trades(1, 104.0))
        yield place


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The same root after the engine has ended."""
    place = tmp_path / "root"
    with millrace.Session(place) as session:
        run = declare(session, tmp_path / "answers")
        run.feed(trades=make_trades(0, *(float(price) for price in range(90, 110))))
        run.feed(trades=make_trades(60, 103.0, None, 50.0))
        run.feed(trades=make_trades(1, 104.0))
    return place
