r"""Pace: how many rows an epoch may take, so that it stays under its target.

An epoch costs something fixed and something for each row; both drift with the queries, the data
and the machine. So the limit is steered: an epoch that took too long lowers it in proportion at
once, one that filled its limit in less than the goal raises it, at most by half. Two epochs that
differ much in their rows tell the fixed part from the rest.

    limit
      |        ____/\___/\____      a source with a backlog: close below the target
      |   ____/
      |__/                           small at first: nothing is known yet

However quick they are, the rows of an epoch must fit into the memory that is set for them: no limit
is above what the widest rows of late leave room for, shared out evenly among the streams.

The goal is `AIM` of the target. Where the fixed part alone comes near it (a loaded machine, a
target that is too ambitious) fewer rows would not make epochs quick, only work dear; so the
goal is then that rows cost half as much again as nothing at all.
"""

from __future__ import annotations

from millrace.engine.settings import Settings
from millrace.engine.statistics import EpochStatistics

FIRST_LIMIT = 100_000
LEAST = 1_000
MOST = 1 << 40
AIM = 0.8
OVERHEAD = 1.5
FULL = 0.5
APART = 1.3
FADING = 0.95
"""What an epoch of narrow rows leaves of the width that was measured before it."""
RECENT = 100
"""A stream that had no rows in so many epochs takes no room."""


class Pace:
    """Steers the limit of each stream of one engine, by settings that may change."""

    def __init__(self, settings: Settings) -> None:
        self.aim(settings)
        self._row_bytes = 0.0
        self._n_epochs, self._had_rows = 0, dict[str, int]()
        self._limits: dict[str, int] = {}
        self._fixed = 0.0
        self._last = (0, 0.0)

    def aim(self, settings: Settings) -> None:
        """Steer by other settings from now on."""
        self._target, self._memory = settings.target, settings.memory

    def limit(self, stream: str) -> int:
        """Return how many rows of a stream the next epoch may take."""
        return min(self._limits.get(stream, FIRST_LIMIT), self._room())

    def follow(self, statistics: EpochStatistics) -> bool:
        """Learn from an epoch; return whether a limit has changed."""
        taken = statistics.total_seconds
        self._learn(sum(statistics.rows_by_stream.values()), taken)
        before = self._room()
        self._n_epochs += 1
        self._had_rows.update(
            {stream: self._n_epochs for stream, rows in statistics.rows_by_stream.items() if rows}
        )
        if statistics.rows:
            width = statistics.bytes / statistics.rows
            self._row_bytes = max(width, FADING * self._row_bytes)
        changed = self._room() != before
        for stream, rows in statistics.rows_by_stream.items():
            limit = self._limits.get(stream, FIRST_LIMIT)
            fresh = self._next(limit, rows, taken)
            if fresh != limit or stream not in self._limits:
                self._limits[stream] = fresh
                changed = True
        return changed

    def limits(self) -> dict[str, int]:
        """Return all limits by stream."""
        return {stream: self.limit(stream) for stream in self._limits}

    def _room(self) -> int:
        """Return how many rows of each stream there is room for."""
        oldest = self._n_epochs - RECENT
        n_streams = sum(last > oldest for last in self._had_rows.values())
        return max(int(self._memory / max(self._row_bytes, 1.0) / max(n_streams, 1)), 1)

    def _next(self, limit: int, rows: int, taken: float) -> int:
        target = self._target / 1e6
        goal = max(AIM * target, OVERHEAD * self._fixed)
        factor = (goal - self._fixed) / max(taken - self._fixed, 1e-6)
        if taken > max(goal, target):
            return max(LEAST, int(min(limit, max(rows, LEAST)) * max(factor, 0.1)))
        if rows >= FULL * limit:
            return min(MOST, int(limit * min(max(factor, 1.0), 1.5)))
        return limit

    def _learn(self, rows: int, taken: float) -> None:
        """Tell the fixed part of the cost from the rest, where two epochs differ enough."""
        few, many = sorted([self._last, (rows, taken)])
        if few[0] and many[0] > APART * few[0]:
            per_row = max(many[1] - few[1], 0.0) / (many[0] - few[0])
            self._fixed = max(few[1] - per_row * few[0], 0.0)
        if rows:
            self._last = (rows, taken)
            self._fixed = min(self._fixed, taken)
