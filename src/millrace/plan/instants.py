"""Instants: texts that are read as a date or a timestamp, as they are in the rows of a source."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np

from millrace.kernels.moments import read_dates, read_timestamps

_DAY_ONE = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_date(text: str) -> date | None:
    """Read `YYYY-MM-DD`, or return None."""
    days = _read(text, read_dates)
    try:
        return None if days is None else _DAY_ONE + timedelta(days=days)
    except OverflowError:
        return None


def read_timestamp(text: str) -> datetime | None:
    """Read a date and time of ISO 8601, in UTC if no zone is given, or return None.

    >>> read_timestamp("2024-05-01 12:00+02")
    datetime.datetime(2024, 5, 1, 10, 0, tzinfo=datetime.timezone.utc)
    """
    micros = _read(text, read_timestamps)
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _read(text: str, kernel: object) -> int | None:
    data = np.frombuffer(text.encode(), np.uint8)
    firsts, stops = np.zeros(1, np.int64), np.array([data.size], np.int64)
    values, states = kernel(data, firsts, stops, np.ones(1, np.bool_))  # type: ignore[operator]
    return None if states[0] else int(values[0])
