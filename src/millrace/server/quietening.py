"""Quietening: queries of tenants that answer, or keep, more than they may are paused and told why.

Why stands where the query is described, until it runs again, and in the audit log for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.engine.statistics import EpochStatistics
from millrace.server.audit import Audit
from millrace.server.principals import Principal
from millrace.server.quotas import Excess, Quotas
from millrace.server.rate_watch import RateWatch
from millrace.server.state_watch import StateWatch
from millrace.session.session import Session


class Quietening:
    """Looks after the tenants of one session; `pause` pauses queries by their ids."""

    def __init__(
        self,
        session: Session,
        *,
        audit: Audit,
        quotas: Quotas,
        pause: Callable[[list[int]], object],
    ) -> None:
        self._session, self._audit, self._quotas, self._pause = session, audit, quotas, pause
        self._rates, self._state = RateWatch(session), StateWatch(session)
        self._reasons: dict[int, str] = {}
        quotas.guard(session, self._state.held)

    def take(self, epoch: EpochStatistics) -> None:
        """Take note of an epoch."""
        self._rates.take(epoch)

    def look(self) -> int:
        """Pause queries of tenants that are beyond a limit; return how many."""
        quotas = self._quotas.by_tenant()
        found = [*self._rates.noisy(quotas), *self._state.heavy(quotas)]
        return sum(map(self._quieten, found))

    def _quieten(self, excess: Excess) -> int:
        if excess.queries:
            self._pause(excess.queries)
            self._reasons.update(dict.fromkeys(excess.queries, excess.reason))
            by = Principal(excess.tenant, "admin", "limit")
            self._audit.write(by, "pause", queries=excess.queries, reason=excess.reason)
        return len(excess.queries)

    def told(self) -> dict[str, Any]:
        """Say which queries are paused and why, and how much those keep that have a limit."""
        paused = self._session.engine.registry.population.paused
        self._reasons = {qid: why for qid, why in self._reasons.items() if qid in paused}
        limited = [tenant for tenant, quota in self._quotas.by_tenant().items()
                   if quota.state_bytes is not None]  # fmt: skip
        return {
            "quietened": {str(qid): why for qid, why in self._reasons.items()},
            "held": {tenant: self._state.held(tenant) for tenant in limited},
        }
