r"""Pace: how many rows an epoch may take, so that it stays under its target.

An epoch costs something fixed and something for each row; both drift with the queries, the data
and the machine. So the limit is not computed from a model but steered: an epoch that took too
long lowers it in proportion at once, one that filled its limit in less than the target raises
it, at most by half, until epochs of a full source take about `AIM` of the target.

    limit
      |        ____/\___/\____      a source with a backlog: close below the target
      |   ____/
      |__/                           small at first: nothing is known yet
"""

from __future__ import annotations

from millrace.engine.statistics import EpochStatistics

FIRST_LIMIT = 100_000
LEAST = 1_000
MOST = 1 << 40
AIM = 0.8
FULL = 0.5


class Pace:
    """Steers the limit of each stream of one engine."""

    def __init__(self, target: int) -> None:
        self._target = target / 1e6
        self._limits: dict[str, int] = {}

    def limit(self, stream: str) -> int:
        """Return how many rows of a stream the next epoch may take."""
        return self._limits.get(stream, FIRST_LIMIT)

    def follow(self, statistics: EpochStatistics) -> bool:
        """Learn from an epoch; return whether a limit has changed."""
        taken = statistics.total_seconds
        changed = False
        for stream, rows in statistics.rows_by_stream.items():
            limit = self.limit(stream)
            fresh = self._next(limit, rows, taken)
            if fresh != limit or stream not in self._limits:
                self._limits[stream] = fresh
                changed = True
        return changed

    def limits(self) -> dict[str, int]:
        """Return all limits by stream."""
        return dict(self._limits)

    def _next(self, limit: int, rows: int, taken: float) -> int:
        wanted = AIM * self._target / max(taken, 1e-6)
        if taken > self._target:
            return max(LEAST, int(min(limit, max(rows, LEAST)) * max(wanted, 0.1)))
        if rows >= FULL * limit:
            return min(MOST, int(limit * min(max(wanted, 1.0), 1.5)))
        return limit
