"""State: a tenant whose queries keep more than they may is stopped, the heaviest of them first.

Once a second the tenants that have a limit are looked at. Beyond it nothing more is registered, and
a query that goes on to keep more is paused: while the tenant's state grows, the heaviest of those
that run, and of a template those that hold half of what it keeps. What is kept goes by itself when
its retention is over, or when a query is dropped; the tenant may resume the others then.

Cost: what queries share is measured anew after a commit, and for at most a fiftieth of the time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from millrace.engine.feeds import FeedSpec
from millrace.engine.hidden import is_hidden
from millrace.engine.stores import answer_store
from millrace.kernels.arrays import Hashes
from millrace.server.principals import owner_of
from millrace.server.quotas import STATE, Excess, LimitError, Quota
from millrace.server.rate_watch import holding_half
from millrace.server.state_sizes import (
    FOUND,
    Shared,
    Weights,
    bytes_by_feed,
    shared_bytes,
    told_by_query,
)
from millrace.session.session import Session
from millrace.state.names import MissingError

LEAST_SECONDS = 0.5
PAUSES = 50


class StateWatch:
    """Knows how much each tenant's queries keep."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shared = Shared.nothing()
        self._epoch, self._due = -1, 0.0
        self._grown: dict[str, int] = {}
        """How much those tenants kept of which queries were paused."""

    def held(self, tenant: str) -> int:
        """Return how many bytes the queries of a tenant keep, their part of what is shared too."""
        self._measure()
        sizes = bytes_by_feed(self._session.engine.manifest)
        own = sum(n for feed, n in sizes.items() if feed != FOUND and owner_of(feed) == tenant)
        ids = self._session.engine.registry.ids_of_feeds(lambda feed: owner_of(feed) == tenant)
        return own + round(float(self._shared.of(ids).sum()))

    def heavy(self, quotas: Mapping[str, Quota]) -> Iterator[Excess]:
        """Yield the tenants that keep more than they may and have gone on, with what to pause."""
        for tenant, quota in quotas.items():
            if quota.state_bytes is None:
                continue
            held = self.held(tenant)
            if held <= quota.state_bytes:
                self._grown.pop(tenant, None)
            elif held > self._grown.get(tenant, 0):
                self._grown[tenant] = held
                reason = LimitError(STATE, quota.state_bytes, held).message
                yield Excess(tenant, self._heaviest(tenant), reason)

    def _measure(self) -> None:
        """Measure what queries share, if something was committed and the last time is long ago."""
        engine, begun = self._session.engine, time.monotonic()
        manifest, catalog = engine.manifest, engine.registry.catalog
        if manifest.epoch == self._epoch or begun < self._due:
            return
        try:
            self._shared = shared_bytes(engine.root, manifest, catalog, self._found_anew)
            self._epoch = manifest.epoch
        except MissingError:  # an epoch has merged what is being read; the next look is soon
            return
        spent = time.monotonic() - begun
        self._due = begun + max(LEAST_SECONDS, PAUSES * spent)

    def _found_anew(self, stream: str) -> Hashes:
        """Return the queries of a stream for which nothing is stored."""
        registry = self._session.engine.registry
        catalog = registry.catalog
        feeds = (catalog.feeds[each] for each in catalog.retained)
        anew = {each.name for each in feeds if (each.policy, each.stream) == ("none", stream)}
        return registry.ids_of_feeds(anew.__contains__)

    def _heaviest(self, tenant: str) -> list[int]:
        """Return the query of a tenant that keeps most of those that run; of a template, some."""
        registry = self._session.engine.registry
        feeds, paused = registry.catalog.feeds, registry.population.paused
        for name, _ in self._by_feed(tenant).most_common():
            qids, weights = self._by_query(feeds[name])
            running = np.array([qid not in paused for qid in qids.tolist()], np.bool_)
            if running.any():
                return holding_half(qids[running], weights[running])
        return []

    def _by_feed(self, tenant: str) -> Counter[str]:
        """Return how much the queries of each feed of a tenant keep."""
        registry = self._session.engine.registry
        catalog, names = registry.catalog, registry.population.names
        sizes = bytes_by_feed(self._session.engine.manifest)
        mine = [each for name, each in catalog.feeds.items()
                if owner_of(name) == tenant and not is_hidden(name)]  # fmt: skip
        together = Counter(each.family for each in mine if each.joined)
        found: Counter[str] = Counter()
        for feed in mine:
            part = sizes.get(feed.family, 0) // together[feed.family] if feed.joined else 0
            found[feed.name] = sizes.get(feed.name, 0) + part
        single = [each.name for each in mine if each.name in names]
        ids = np.array([names[each] for each in single], np.uint64)
        found.update(dict(zip(single, self._shared.of(ids).astype(np.int64).tolist(), strict=True)))
        for feed in mine:
            if feed.shared:
                found[feed.name] += round(self._shared.of(registry.ids_of_feed(feed.name)).sum())
        return found

    def _by_query(self, feed: FeedSpec) -> tuple[Hashes, Weights]:
        """Return the queries of a feed, and what each of them keeps in proportion."""
        engine = self._session.engine
        qids = np.sort(engine.registry.ids_of_feed(feed.name))
        if not feed.shared:
            return qids, np.ones(qids.size)
        weights, store = self._shared.of(qids), answer_store(feed, "rows")
        state = engine.manifest.stores.get(store)
        for run in () if state is None else state.runs:
            for piece in run.pieces:
                told, counts = told_by_query(engine.root, store, piece)
                stands = np.isin(told, qids)
                at = np.searchsorted(qids, told[stands])
                weights[at] += counts[stands] * (piece.bytes / piece.rows)
        return qids, weights
