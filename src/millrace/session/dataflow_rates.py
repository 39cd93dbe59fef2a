"""Rates of a dataflow: what came, was answered and was found a second over the last epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from millrace.engine.statistics import EpochStatistics
from millrace.time import SECOND

RECENT = 10 * SECOND
"""Rates are over the epochs of so long."""


@dataclass(frozen=True, slots=True)
class Rates:
    """A second, rows by stream, results by feed, and by stream what its index found.

    `spent` is for how many seconds of a second the index of a stream was at work, over all tasks.
    """

    rows: Mapping[str, float]
    results: Mapping[str, float]
    found: Mapping[str, float]
    spent: Mapping[str, float]

    @classmethod
    def over(cls, recent: Sequence[EpochStatistics]) -> Self:
        """Measure some epochs."""
        return cls(
            _rates(recent, lambda each: each.rows_by_stream),
            _rates(recent, lambda each: each.results_by_query),
            _rates(recent, lambda each: each.results_by_stream),
            _rates(recent, lambda each: each.select_by_stream),
        )

    def passing(self, stream: str) -> float | None:
        """Return how many results the index of a stream finds for a row; None without rows."""
        rows = self.rows.get(stream)
        return self.found.get(stream, 0.0) / rows if rows else None


def recent_of(statistics: Sequence[EpochStatistics]) -> list[EpochStatistics]:
    """Return the last epochs."""
    newest = statistics[-1].started if statistics else 0
    return [each for each in statistics if each.started > newest - RECENT]


def _rates(
    recent: Sequence[EpochStatistics], counts: Callable[[EpochStatistics], Mapping[str, float]]
) -> dict[str, float]:
    """Return counts a second over the last epochs."""
    if not recent:
        return {}
    seconds = max((recent[-1].started - recent[0].started) / SECOND, 1.0)
    total: dict[str, float] = {}
    for each in recent:
        for name, count in counts(each).items():
            total[name] = total.get(name, 0.0) + count / seconds
    return total
