"""Quotas: how much a tenant may have, and the words in which more is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from millrace.engine.hidden import is_hidden
from millrace.errors import MillraceError
from millrace.server.principals import owner_of

if TYPE_CHECKING:  # whoever only starts processes does not load an engine
    from millrace.session.session import Session


STATE, RESULTS = "bytes of state", "results a second"
"""What is limited while queries run, in words."""


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


@dataclass(frozen=True, slots=True)
class Excess:
    """A tenant that has come beyond a limit, the queries that are to be paused, and why."""

    tenant: str
    queries: list[int]
    reason: str


class Quotas:
    """The quotas of all tenants, as far as registrations are concerned."""

    def __init__(self, by_tenant: Callable[[], Mapping[str, Quota]] = dict) -> None:
        self.by_tenant = by_tenant
        self._counted = (-1, {"": 0})

    def guard(self, session: Session, held: Callable[[str], int]) -> None:
        """Let nothing be registered beyond what tenants may have, in whichever way it comes.

        `held` says how many bytes the queries of a tenant keep. It is asked where registrations
        are put into one order, with those that will be recorded together, so that many that come
        at once have no more room than one after the other.
        """
        session.engine.registry.room = lambda calls: self.require_room(session, held, calls)

    def require_room(
        self,
        session: Session,
        held: Callable[[str], int],
        calls: Sequence[Sequence[dict[str, Any]]],
    ) -> None:
        """Refuse the queries of the last call if the tenant whose they are has no room for them."""
        wanted = _added(calls[-1:])
        quotas = self.by_tenant() if wanted else {}
        for tenant in wanted.keys() & quotas.keys():
            quota = quotas[tenant]
            if quota.queries is not None:
                present = self.count(session, tenant) + _added(calls[:-1])[tenant]
                if present + wanted[tenant] > quota.queries:
                    raise LimitError("queries", quota.queries, present)
            if quota.state_bytes is not None and (now := held(tenant)) > quota.state_bytes:
                raise LimitError(STATE, quota.state_bytes, now)

    def count(self, session: Session, tenant: str) -> int:
        """Count the standing queries of a tenant."""
        registry = session.engine.registry
        if self._counted[0] != registry.number:
            counts: dict[str, int] = {}
            for (feed, _), n_queries in registry.family_sizes().items():
                owner = owner_of(feed)
                counts[owner] = counts.get(owner, 0) + n_queries * (not is_hidden(feed))
            self._counted = registry.number, counts
        return self._counted[1].get(tenant, 0)


def _added(calls: Sequence[Sequence[dict[str, Any]]]) -> Counter[str]:
    """Count the queries that calls add, by the tenant that they will belong to."""
    found: Counter[str] = Counter()
    for change in (each for changes in calls for each in changes):
        if change["do"] == "add queries" and not is_hidden(change["family"]["feed"]):
            found[owner_of(change["family"]["feed"])] += change["n_rows"]
    return found
