"""What it means to invoke a query that was registered before, in slow plain Python.

A query stands from one epoch on until it is dropped. Each row that comes meanwhile and that it
keeps is an answer, with the row's time. To invoke it is to ask which answers lie in a window, among
those that are within its retention: not older than the watermark less the retention.

    snapshot   begin and end are instants
    landmark   begin is an instant, end is NOW
    sliding    begin is NOW less something, end is NOW

NOW is right behind the newest time that a row of the stream has had, or behind its watermark if
that is greater. A window is half-open.

Whoever has seen all epochs up to some has missed nothing if no punctual row of a later epoch is
older than the retention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.testing.oracle.epochs import Outcome

Answer = tuple[int, int, bool, tuple[object, ...]]
"""The epoch in which it came, its time, whether it was late, and its values."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a window: an instant, or so much before NOW."""

    at: int | None = None
    ago: int | None = None

    def instant(self, now: int | None) -> int | None:
        """Return the instant; None if there is no NOW yet, or the window has no such end."""
        if self.ago is None:
            return self.at
        return None if now is None else now - self.ago


def now_of(outcome: Outcome, stream: str) -> int | None:
    """Return NOW of a stream; None before its first row."""
    clocks = outcome.clocks.get(stream, {})
    if not clocks:
        return None
    return max(*clocks.values(), outcome.watermarks[stream]) + 1


def horizon_of(outcome: Outcome, stream: str, retain: int) -> int | None:
    """Return the time before which answers have expired; None before there is a watermark."""
    mark = outcome.watermarks.get(stream)
    return None if mark is None else mark - retain


def invoked(
    outcome: Outcome, query: str, stream: str, retain: int, begin: Edge, end: Edge
) -> list[Answer]:
    """Return the answers of a query in a window."""
    now, horizon = now_of(outcome, stream), horizon_of(outcome, stream, retain)
    low, high = begin.instant(now), end.instant(now)
    return [
        answer
        for answer in outcome.answers.get(query, [])
        if (low is None or answer[1] >= low)
        and (high is None or answer[1] < high)
        and (horizon is None or answer[1] >= horizon)
    ]


def oldest_cursor(rows: Sequence[Answer], horizon: int | None) -> int:
    """Return the least cursor with which nothing is missed; `rows` are all that came."""
    gone = [
        epoch
        for epoch, time, late, _ in rows
        if not late and horizon is not None and time < horizon
    ]
    return max(gone, default=-1)
