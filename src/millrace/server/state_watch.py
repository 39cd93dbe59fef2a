"""State: a tenant whose queries keep more than they may is stopped, the heaviest of them first.

Once a second the tenants that have a limit are looked at. Beyond it nothing more is registered, and
a query that goes on to keep more is paused: while the tenant's state grows, the heaviest of those
that run, and of a template those that hold half of what it keeps. What is kept goes by itself when
its retention is over, or when a query is dropped; the tenant may resume the others then.

Cost: what queries share is measured anew when it has changed, for a fiftieth of the time at most.
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

PAUSES = 50


class StateWatch:
    """Knows how much each tenant's queries keep."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shared = Shared.nothing()
        self._parts: dict[str, int] = {}
        """How much of what is shared is each tenant's."""
        self._own: tuple[int, Counter[str]] = (-1, Counter())
        self._at, self._due = (-1, -1), 0.0
        self._grown: dict[str, int] = {}
        """How much those tenants kept of which queries were paused."""

    def held(self, tenant: str) -> int:
        """Return how many bytes the queries of a tenant keep, their part of what is shared too."""
        self._measure()
        manifest = self._session.engine.manifest
        if self._own[0] != manifest.epoch:
            own: Counter[str] = Counter()
            for feed, n_bytes in bytes_by_feed(manifest).items():
                own[owner_of(feed)] += n_bytes * (feed != FOUND)
            self._own = manifest.epoch, own
        return self._own[1][tenant] + self._parts.get(tenant, 0)

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
        """Measure what queries share, if the last time is long ago and something has changed."""
        engine, begun = self._session.engine, time.monotonic()
        manifest, registry = engine.manifest, engine.registry
        if (manifest.epoch, registry.number) == self._at or begun < self._due:
            return
        try:
            self._shared = shared_bytes(engine.root, manifest, registry.catalog, self._found_anew)
        except MissingError:  # an epoch has merged what is being read; the next look is soon
            return
        sizes = self._shared.of
        tenants = registry.grouped(owner_of) if self._shared.qids.size else {}
        self._parts = {name: round(float(sizes(ids).sum())) for name, ids in tenants.items()}
        self._at = manifest.epoch, registry.number
        self._due = begun + PAUSES * (time.monotonic() - begun)

    def _found_anew(self, stream: str) -> Hashes:
        """Return the queries of a stream for which nothing is stored."""
        registry = self._session.engine.registry
        catalog = registry.catalog
        feeds = (catalog.feeds[each] for each in catalog.retained)
        anew = {each.name for each in feeds if (each.policy, each.stream) == ("none", stream)}
        found = registry.grouped(lambda feed: "anew" if feed in anew else "")
        return found.get("anew", np.zeros(0, np.uint64))

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
