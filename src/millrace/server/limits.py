"""Limits of a gateway: how large, how many, how fast; beyond them a request is refused."""

from __future__ import annotations

import time
from dataclasses import dataclass

from millrace.server.quotas import RateError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and one gateway, may take.

    Parameters
    ----------
    body_bytes
        The largest body of a request.
    push_rows, result_rows
        How many rows one push may bring, and one answer may hold.
    bulk
        How many queries one bulk may name.
    backlog_bytes
        How much of a stream may be pushed while no epoch counts it.
    requests_per_second, burst
        How fast a token may ask, on average and at once; 0 is as fast as it likes.
    subscribers, queued_events
        How many may follow queries, and how many events wait for each before it is detached.
    """

    body_bytes: int = 64 << 20
    push_rows: int = 1_000_000
    result_rows: int = 1_000_000
    bulk: int = 100_000
    backlog_bytes: int = 16 << 30
    requests_per_second: float = 0.0
    burst: int = 1_000
    subscribers: int = 10_000
    queued_events: int = 256


class Rates:
    """A bucket of requests for each token: full at first, and filled at a steady rate."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, token: str, rate: float, burst: float, now: float | None = None) -> None:
        """Take one request out of a token's bucket, or refuse it."""
        if rate <= 0:
            return
        now = time.monotonic() if now is None else now
        left, since = self._buckets.get(token, (burst, now))
        left = min(burst, left + (now - since) * rate)
        if left < 1:
            self._buckets[token] = left, now
            raise RateError("requests a second", rate, burst, hint="Ask more slowly.")
        self._buckets[token] = left - 1, now
