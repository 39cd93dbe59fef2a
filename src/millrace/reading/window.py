"""Windows at invocation: which answers are asked for, by instants or as seen from now.

A window is half-open: `begin <= time < end`. NOW is the instant right behind the newest row that
the query's streams have had, or behind their watermark if that has gone further on a silent stream.
So it is a matter of the data, and `NOW - 10 seconds` to `NOW` is what came in the ten seconds up to
and with the newest row.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

from millrace.engine.feeds import FeedSpec
from millrace.engine.retention import horizon_of
from millrace.engine.tally import NEVER
from millrace.errors import PlanError
from millrace.state.manifest import Manifest
from millrace.state.merge import LAST_TIME
from millrace.state.run import Range
from millrace.time import to_instant, to_micros

Instant: TypeAlias = datetime | str | int
"""A moment, in microseconds if it is a number, or a text: an instant, or `NOW - 10 minutes`."""

FIRST_TIME = -LAST_TIME
EVERYTHING: Range = (FIRST_TIME, LAST_TIME)

_NOW = re.compile(r"\s*now\s*(?:-\s*(?P<ago>.+))?", re.IGNORECASE)
_AGO = re.compile(r"\s*-\s*(?P<ago>[^-].*)")


def now(manifest: Manifest, feed: FeedSpec) -> int | None:
    """Return the instant right behind all that a feed's streams have had; None before any row."""
    facts = manifest.facts
    marks = facts.get("watermarks", {})
    seen = [
        time
        for stream in feed.sources
        for time in (*facts.get("clocks", {}).get(stream, {}).values(), marks.get(stream, NEVER))
    ]
    newest = max(seen, default=NEVER)
    return None if newest == NEVER else newest + 1


def instant_of(given: Instant, at: int | None) -> int:
    """Return an instant in microseconds; `at` is now, or None if there is no such time yet.

    >>> instant_of("NOW - 10 s", 60_000_000), instant_of("1970-01-01T00:00:01Z", None)
    (50000000, 1000000)
    """
    if isinstance(given, bool) or not isinstance(given, datetime | str | int):
        raise PlanError(
            f"{given!r} is not an instant",
            hint='Give a datetime, microseconds since 1970, or a text such as "NOW - 10 minutes".',
        )
    if isinstance(given, int):
        return given
    if isinstance(given, datetime):
        return to_instant(given)
    ago = _ago(given)
    if ago is None:
        return to_instant(given)
    return FIRST_TIME if at is None else at - ago


@lru_cache(maxsize=1_000)
def _ago(given: str) -> int | None:
    """Return how long before now a text says, None if it says an instant."""
    relative = _NOW.fullmatch(given) or _AGO.fullmatch(given)
    if relative is None:
        return None
    return 0 if relative["ago"] is None else to_micros(relative["ago"])


def times_of(
    manifest: Manifest, feed: FeedSpec, begin: Instant | None = None, end: Instant | None = None
) -> Range:
    """Return the times that a window admits and the feed's retention leaves, half-open."""
    at = now(manifest, feed)
    low = FIRST_TIME if begin is None else instant_of(begin, at)
    high = LAST_TIME if end is None else instant_of(end, at)
    horizon = horizon_of(feed, manifest.facts.get("watermarks", {}))
    return max(low, FIRST_TIME if horizon is None else horizon), high
