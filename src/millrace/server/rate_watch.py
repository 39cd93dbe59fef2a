"""Result rates: a tenant whose queries answer more than it may is quietened, the noisiest first.

How many answers each feed gave is told by every epoch. Once a second the tenants that have a limit
are looked at; while one is beyond it over the last seconds, those of its queries that answered most
are paused. Others do not notice, and it may resume them.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millrace.engine.statistics import EpochStatistics
from millrace.reading.answers import answers
from millrace.server.principals import owner_of
from millrace.server.quotas import RESULTS, Excess, LimitError, Quota
from millrace.session.session import Session

SECONDS = 5.0
EPOCHS = 16


class RateWatch:
    """Knows how much each tenant's queries have answered lately."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told: deque[tuple[float, Mapping[str, int]]] = deque()

    def take(self, epoch: EpochStatistics, now: float | None = None) -> None:
        """Take note of an epoch."""
        self._told.append((time.monotonic() if now is None else now, epoch.results_by_query))

    def noisy(self, quotas: Mapping[str, Quota], now: float | None = None) -> Iterator[Excess]:
        """Yield the tenants that are beyond their limits, with the queries to be paused."""
        now = time.monotonic() if now is None else now
        while self._told and self._told[0][0] < now - SECONDS:
            self._told.popleft()
        counts: Counter[str] = Counter()
        for _, results in list(self._told):
            counts.update(results)
        for tenant, quota in quotas.items():
            mine = {feed: n for feed, n in counts.items() if owner_of(feed) == tenant}
            limit, rate = quota.results_per_second, sum(mine.values()) / SECONDS
            if limit is not None and rate > limit:
                loudest = self._loudest(max(mine, key=lambda feed: mine[feed]))
                yield Excess(tenant, loudest, LimitError(RESULTS, limit, rate).message)
                self._told.clear()  # what is paused is given the time to be quiet

    def _loudest(self, feed: str) -> list[int]:
        """Return the queries of a feed that gave most of its last answers."""
        engine = self._session.engine
        spec = engine.registry.catalog.feeds.get(feed)
        names = engine.registry.population.names
        if spec is None or not spec.shared:
            return [names[feed]] if feed in names else []
        first = max(engine.manifest.epoch - EPOCHS, 0)
        table = answers(engine.root, engine.manifest, spec, first=first)
        qids, counts = np.unique(table["_query"].to_numpy(), return_counts=True)
        standing = set(engine.registry.ids_of_feed(feed).tolist())
        return [qid for qid in holding_half(qids, counts) if qid in standing]


def holding_half(qids: NDArray[Any], weights: NDArray[Any]) -> list[int]:
    """Return as few queries as have half of some weight together, the heaviest first.

    >>> holding_half(np.array([3, 5, 8]), np.array([2, 9, 4]))
    [5]
    """
    order = np.argsort(-weights, kind="stable")
    enough = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)) + 1
    found: list[int] = qids[order[:enough]].tolist()
    return found
