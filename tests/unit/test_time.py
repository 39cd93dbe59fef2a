"""Durations, instants and clocks."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import PlanError
from millrace.time import (
    DAY,
    HOUR,
    ManualClock,
    WallClock,
    print_duration,
    print_instant,
    to_datetime,
    to_instant,
    to_micros,
)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2 seconds", 2_000_000),
        ("100 ms", 100_000),
        ("1 HOUR", HOUR),
        ("1.5s", 1_500_000),
        ("1 day, 2 hours", DAY + 2 * HOUR),
        ("7 µs", 7),
        ("0 s", 0),
        (" 3min ", 180_000_000),
    ],
)
def test_a_duration_reads_as_people_write_it(text: str, micros: int) -> None:
    assert to_micros(text) == micros


@pytest.mark.parametrize("text", ["", "two seconds", "2", "2 fortnights", "-1 s", "1 s nonsense"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="duration"):
        to_micros(text)


def test_a_duration_finer_than_a_microsecond_or_negative_is_refused() -> None:
    with pytest.raises(PlanError, match="whole number of microseconds"):
        to_micros("0.5 us")
    with pytest.raises(PlanError, match="negative"):
        to_micros(timedelta(seconds=-1))


@given(st.integers(0, 2**62))
def test_a_printed_duration_reads_back(micros: int) -> None:
    assert to_micros(print_duration(micros)) == micros
    assert to_micros(micros) == micros


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001
def test_an_instant_survives(moment: datetime) -> None:
    instant = to_instant(moment)

    assert to_datetime(instant) == moment
    assert to_instant(print_instant(instant)) == instant
    assert to_instant(moment.astimezone(timezone(timedelta(hours=5)))) == instant


def test_instants_beyond_the_calendar_print_as_numbers() -> None:
    assert print_instant(2**62) == f"{2**62} us"
    with pytest.raises(PlanError, match="outside the years"):
        to_datetime(2**62)
    with pytest.raises(PlanError, match="is not a timestamp"):
        to_instant("noon")


def test_a_manual_clock_moves_only_by_hand() -> None:
    clock = ManualClock(start=5)
    clock.advance("1 ms")
    assert clock.now() == 1005

    clock.set(3)
    assert clock.now() == 3


def test_the_wall_clock_counts_microseconds() -> None:
    assert abs(WallClock().now() - time.time() * 1e6) < 60e6
