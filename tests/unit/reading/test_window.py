"""Windows at invocation: instants, and those that are seen from now."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from millrace.engine.feeds import FeedSpec
from millrace.errors import PlanError
from millrace.reading.window import EVERYTHING, FIRST_TIME, instant_of, now, times_of
from millrace.state.manifest import Manifest
from millrace.state.merge import LAST_TIME

FEED = FeedSpec("q", "s", pa.schema([("x", pa.int64())]), keep=0, retain=30)


def after(clocks: dict[str, int], watermark: int | None = None) -> Manifest:
    marks = {} if watermark is None else {"s": watermark}
    return Manifest(facts={"clocks": {"s": clocks}, "watermarks": marks})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (7, 7),
        (-7, -7),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1_000_000),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("NOW", 100),
        ("now - 10 us", 90),
        (" Now-1 ms ", -900),
        ("- 1 minute 1 us", 100 - 60_000_001),
    ],
)
def test_an_instant_is_absolute_or_seen_from_now(
    given: datetime | str | int, expected: int
) -> None:
    assert instant_of(given, 100) == expected


@pytest.mark.parametrize("given", ["NOW + 1 s", "yesterday", "NOW - lots", True, 1.5, b"x"])
def test_what_is_no_instant_is_refused(given: str) -> None:
    with pytest.raises(PlanError, match=r"is not an? (instant|timestamp|duration)"):
        instant_of(given, 100)


def test_now_is_behind_the_newest_row_of_any_partition_and_behind_the_watermark() -> None:
    assert now(after({"a": 50, "b": 70}, 45), FEED) == 71
    assert now(after({"a": 50}, 90), FEED) == 91
    assert now(after({}), FEED) is None


def test_before_the_first_row_a_window_admits_all() -> None:
    assert times_of(after({}), FEED) == EVERYTHING
    assert times_of(after({}), FEED, begin="NOW - 5 us") == (FIRST_TIME, LAST_TIME)


def test_retention_cuts_a_window_off() -> None:
    manifest = after({"a": 100}, 95)

    assert times_of(manifest, FEED, begin=10, end=80) == (65, 80)
    assert times_of(manifest, FEED, begin="NOW - 20 us", end="NOW") == (81, 101)
