"""Quotas: how much a tenant may have, and the words in which more is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from millrace.errors import MillraceError
from millrace.server.principals import BETWEEN, owner_of
from millrace.session.session import Session


class LimitError(MillraceError):
    """Somebody asks for more than a limit allows."""

    code = "limit"

    def __init__(self, what: str, limit: float, now: float, *, hint: str = "") -> None:
        super().__init__(
            f"refused: limit {limit:g} {what}, now {now:g}",
            hint=hint or "Ask whoever runs the server for more, or give something up.",
        )


class TooLargeError(LimitError):
    """One request is larger than a limit allows."""

    code = "too_large"


class RateError(LimitError):
    """Requests come faster than a limit allows."""

    code = "rate"


@dataclass(frozen=True, slots=True)
class Quota:
    """What one tenant may have; None is no limit.

    Parameters
    ----------
    queries
        How many standing queries, rows of templates included.
    state_bytes
        How much its queries may keep: answers, and what plans remember.
    results_per_second
        How many answers its queries may give, on average over some seconds.
    requests_per_second
        How many requests each of its tokens may make.
    """

    queries: int | None = None
    state_bytes: int | None = None
    results_per_second: float | None = None
    requests_per_second: float | None = None

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**spelt)

    def to_json(self) -> dict[str, Any]:
        """Spell what is limited."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Quotas:
    """The quotas of all tenants, as far as registrations are concerned."""

    def __init__(self, by_tenant: Callable[[], Mapping[str, Quota]] = dict) -> None:
        self.by_tenant = by_tenant
        self._counted = (-1, {"": 0})

    def require_room(self, session: Session, tenant: str, n_queries: int) -> None:
        """Refuse queries beyond what a tenant may have."""
        quota = self.by_tenant().get(tenant)
        if quota is None:
            return
        present = self.count(session, tenant)
        if quota.queries is not None and present + n_queries > quota.queries:
            raise LimitError("queries", quota.queries, present)
        if quota.state_bytes is not None:
            held = state_bytes(session, tenant)
            if held > quota.state_bytes:
                raise LimitError("bytes of state", quota.state_bytes, held)

    def count(self, session: Session, tenant: str) -> int:
        """Count the standing queries of a tenant."""
        registry = session.engine.registry
        if self._counted[0] != registry.number:
            counts: dict[str, int] = {}
            for (feed, _), n_queries in registry.family_sizes().items():
                owner = owner_of(feed)
                counts[owner] = counts.get(owner, 0) + n_queries
            self._counted = registry.number, counts
        return self._counted[1].get(tenant, 0)


def state_bytes(session: Session, tenant: str) -> int:
    """Return how much the queries of a tenant keep."""
    prefix = f"{tenant}{BETWEEN}" if tenant else ""
    return sum(
        piece.bytes
        for name, store in session.engine.manifest.stores.items()
        if prefix and name.partition("/")[2].startswith(prefix)
        for run in store.runs
        for piece in run.pieces
    )
