"""Time: instants and durations are int64 microseconds, and a clock says what time it is.

An instant counts from 1970-01-01 UTC. Results depend on the instants in the data alone; a
clock is read only where the design allows the wall clock (idle timeouts, settling files), so
it is an object that is passed in and that a test can turn by hand.
"""

from __future__ import annotations

import difflib
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from millrace.errors import PlanError

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_UNITS = {
    "microsecond": MICROSECOND,
    "us": MICROSECOND,
    "millisecond": MILLISECOND,
    "ms": MILLISECOND,
    "second": SECOND,
    "sec": SECOND,
    "s": SECOND,
    "minute": MINUTE,
    "min": MINUTE,
    "hour": HOUR,
    "h": HOUR,
    "day": DAY,
    "d": DAY,
    "week": WEEK,
}
_PRINTED = (
    ("day", DAY),
    ("hour", HOUR),
    ("minute", MINUTE),
    ("second", SECOND),
    ("millisecond", MILLISECOND),
    ("microsecond", MICROSECOND),
)
_TERM = re.compile(r"\s*(\d+)(?:\.(\d+))?\s*([a-zA-Zµ]+)\s*,?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMIT = 2**63


def to_micros(duration: str | timedelta | int) -> int:
    """Return a duration in microseconds.

    Parameters
    ----------
    duration
        Text such as `"2 seconds"`, `"100 ms"` or `"1 hour 30 min"`, a `timedelta`, or a
        number of microseconds.

    Examples
    --------
    >>> to_micros("1.5 s"), to_micros("1 hour 1 minute"), to_micros(timedelta(days=1))
    (1500000, 3660000000, 86400000000)
    """
    if isinstance(duration, timedelta):
        micros = duration // timedelta(microseconds=1)
    elif isinstance(duration, str):
        micros = _parse(duration)
    else:
        micros = int(duration)
    if not 0 <= micros < _LIMIT:
        raise PlanError(
            f'duration "{duration}" is negative or longer than 292,000 years',
            hint="Durations are at least 0.",
        )
    return micros


def _parse(text: str) -> int:
    total, position = 0, 0
    while match := _TERM.match(text, position):
        unit = _unit(match[3])
        if unit is None:
            break
        fraction = match[2] or ""
        scaled, rest = divmod(int(match[1] + fraction) * unit, 10 ** len(fraction))
        if rest:
            raise PlanError(
                f'duration "{text}" is not a whole number of microseconds',
                hint="Microseconds are the finest unit.",
            )
        total, position = total + scaled, match.end()
    if position == 0 or text[position:].strip():
        raise PlanError(
            f'"{text}" is not a duration',
            detail=f"The units are {', '.join(_UNITS)}, also in the plural.",
            hint=_meant(text[position:])
            or 'Write a number and a unit: "2 seconds", "100 ms", "1 hour 30 minutes".',
        )
    return total


def _meant(text: str) -> str:
    """Return a hint if a text begins with a number and something like a unit."""
    match = _TERM.match(text)
    known = [f"{name}s" for name in _UNITS if len(name) > 3]
    close = difflib.get_close_matches(match[3].lower(), known, n=1) if match else []
    return f'Did you mean "{close[0]}"?' if close else ""


def _unit(word: str) -> int | None:
    word = word.lower().replace("µ", "u")
    if word in _UNITS:
        return _UNITS[word]
    return _UNITS.get(word[:-1]) if word.endswith("s") and len(word) > 2 else None


def print_duration(micros: int) -> str:
    """Print a duration so that `to_micros` reads it back.

    Examples
    --------
    >>> print_duration(3_661_000_000), print_duration(0)
    ('1 hour 1 minute 1 second', '0 seconds')
    """
    assert micros >= 0, "a duration is not negative"
    words = []
    for name, unit in _PRINTED:
        count, micros = divmod(micros, unit)
        if count:
            words.append(f"{count} {name}" + ("s" if count > 1 else ""))
    return " ".join(words) or "0 seconds"


def to_instant(moment: datetime | str) -> int:
    """Return an instant in microseconds since 1970; without a zone it is taken as UTC.

    Examples
    --------
    >>> to_instant("1970-01-01T00:00:01Z"), to_instant("1970-01-01 02:00+02:00")
    (1000000, 0)
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as cause:
            raise PlanError(
                f'"{moment}" is not a timestamp',
                hint="Write it as in 2024-05-01T12:00:00Z.",
            ) from cause
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_datetime(instant: int) -> datetime:
    """Return an instant as a `datetime` in UTC; years outside 1 to 9999 have none."""
    try:
        return _EPOCH + timedelta(microseconds=instant)
    except OverflowError as cause:
        raise PlanError(f"instant {instant} is outside the years 1 to 9999") from cause


def print_instant(instant: int) -> str:
    """Print an instant in ISO 8601, or as a plain number where the calendar ends.

    Examples
    --------
    >>> print_instant(1_500_000)
    '1970-01-01T00:00:01.500000Z'
    """
    try:
        moment = _EPOCH + timedelta(microseconds=instant)
    except OverflowError:
        return f"{instant} us"
    return moment.isoformat().replace("+00:00", "Z")


class Clock(Protocol):
    """Something that says what time it is."""

    def now(self) -> int:
        """Return the instant, in microseconds since 1970."""
        ...


class WallClock:
    """The machine's clock."""

    def now(self) -> int:
        """Return the machine's time."""
        return time.time_ns() // 1_000


class ManualClock:
    """A clock that stands still until it is moved.

    Examples
    --------
    >>> clock = ManualClock(start=10)
    >>> clock.advance("1 ms")
    >>> clock.now()
    1010
    """

    def __init__(self, *, start: int = 0) -> None:
        self._now = start

    def now(self) -> int:
        """Return the time it was last set to."""
        return self._now

    def advance(self, by: str | timedelta | int) -> None:
        """Move the clock forward."""
        self._now += to_micros(by)

    def set(self, instant: int) -> None:
        """Set the clock, forward or back, as wall clocks do."""
        self._now = instant
