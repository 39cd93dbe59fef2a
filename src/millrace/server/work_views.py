"""Which query eats the machine: results, time and state of each, and of the engine as a whole.

Results are counted query by query, from what commits bring: those that were kept when the gateway
started, and all since. Time is measured where it is spent. A plan's is its own; if it runs many
queries, each has its part by its results. What selections of one stream take together is parted
among them: one half evenly, since each is in the index, the other by results. What is kept is
parted in the same way where a feed is shared.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from millrace.engine.feeds import FeedSpec
from millrace.engine.statistics import EpochStatistics
from millrace.engine.stores import answers_in, is_found
from millrace.reading.reader import News, Reader
from millrace.server.principals import Principal
from millrace.server.query_views import QueryInfo, infos
from millrace.server.state_sizes import FOUND, bytes_by_feed, found_by_query, told_by_query
from millrace.state.piece import Piece

MOST_EPOCHS = 4_096
FEW_ANSWERS = 200
SUM_SECONDS = 1.0


@dataclass(slots=True)
class Work:
    """What the engine last told of itself."""

    plans: dict[int, list[float]] = field(default_factory=dict)
    sinks: list[dict[str, Any]] = field(default_factory=list)
    trouble: str = ""
    quietened: dict[int, str] = field(default_factory=dict)
    """Why queries are paused that nobody has paused."""
    held: dict[str, int] = field(default_factory=dict)
    """How much the queries of tenants keep that have a limit."""


class Costs:
    """Counts and measures for one gateway; `follow` is called after each commit."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._seen = -2
        self._counts: NDArray[np.int64] = np.zeros(1_024, np.int64)
        self._sizes: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self._together: Counter[str] = Counter()
        self._summed = -SUM_SECONDS
        self._n_told = self._n_queries = 1
        self._n_found = 0
        self._select = 0.0
        self._total = 0.0
        self.epochs: deque[EpochStatistics] = deque(maxlen=MOST_EPOCHS)
        self.work = Work()

    def heard(self, event: dict[str, Any]) -> None:
        """Take up what the engine tells of its work."""
        plans = {int(number): work for number, work in event.get("plans", {}).items()}
        quietened = {int(qid): why for qid, why in event.get("quietened", {}).items()}
        sinks, trouble = event.get("sinks", []), event.get("trouble", "")
        self.work = Work(plans, sinks, trouble, quietened, event.get("held", {}))

    def follow(self, news: News | None = None) -> None:
        """Count what has been committed since the last time."""
        manifest = self._reader.manifest
        with self._lock:
            after, self._seen = self._seen, manifest.epoch
            if manifest.epoch <= after:
                return
            added = None if news is None or news.after != after else news.added
            for name, piece in self._kept(after) if added is None else added:
                if name not in manifest.stores:
                    continue
                if (found := answers_in(name)) and "rows" in found[0]:
                    self._count(name, piece)
                elif is_found(name):
                    self._count_found(piece)
            last = manifest.facts.get("statistics", {})
            for spelt in (news.statistics if news is not None else ()) or (last,):
                if spelt:
                    self._measure(EpochStatistics.from_json(dict(spelt)))

    def of(self, feed: FeedSpec, qid: int) -> tuple[int, float, int]:
        """Return the results of a query, its share of the engine's time, and its bytes."""
        results = int(self._counts[qid]) if qid < self._counts.size else 0
        members = max(self._members(feed.name), 1)
        total = self._results_of(feed) if feed.shared else results
        part = 1.0 if not feed.shared else (results / total if total else 1 / members)
        size = self._bytes().get(feed.name, 0) * part
        if feed.joined:  # it has its answers to itself, and its part of a plan
            feed, part = self._reader.catalog.runner(feed), 1 / max(self._together[feed.family], 1)
            size += self._bytes().get(feed.name, 0) * part
        if feed.policy == "lazy":
            size = self._bytes().get(FOUND, 0) * results / max(self._n_found, 1)
        return results, round(self._time_of(feed, part, results), 6), int(size)

    def few_answers(self, feed: FeedSpec, qid: int | None, most: int) -> bool:
        """Say whether answers are read at once: those of one query, looked up, and few of them.

        That takes less than to wake a thread and to wait for it, which is what is slow where all
        processors are busy.
        """
        if qid is None or feed.policy != "lazy" or qid >= self._counts.size:
            return False
        return bool(self._counts[qid] <= min(FEW_ANSWERS, most))

    def top(
        self, who: Principal, by: Literal["cost", "state", "results"], n: int
    ) -> list[QueryInfo]:
        """Return the queries of somebody that take most of something."""
        found = infos(self._reader, self, who, self._candidates(who, 4 * n + 16))
        field = {"cost": "cost", "state": "state_bytes", "results": "results"}[by]
        return sorted(found, key=lambda each: (-getattr(each, field), each.id))[:n]

    def stats(self, who: Principal) -> dict[str, Any]:
        """Say how the engine does; of queries and feeds only what is theirs."""
        manifest, catalog = self._reader.manifest, self._reader.catalog
        epochs = list(self.epochs)
        last = epochs[-1] if epochs else None
        seconds = sorted(each.total_seconds for each in epochs[-256:])
        span = (epochs[-1].started - epochs[0].started) / 1e6 if len(epochs) > 1 else 0.0
        counts = manifest.facts.get("counts", {})
        with self._reader.registered() as (_, _, queries):
            sizes = queries.sizes()
        own = {name: n for name, n in sizes.items() if who.sees(name)}
        return {
            "epoch": manifest.epoch,
            "rows": counts.get("rows", 0),
            "late": counts.get("late", 0),
            "dead": counts.get("dead", 0),
            "results": counts.get("results", 0),
            "rows_per_second": _rate(epochs, span, lambda each: each.rows),
            "results_per_second": _rate(epochs, span, lambda each: each.results),
            "rows_by_stream": {name: _stream_rate(epochs, span, name) for name in catalog.streams},
            "epoch_seconds_p50": _at(seconds, 0.5),
            "epoch_seconds_p99": _at(seconds, 0.99),
            "watermark_lag_seconds": {} if last is None else {
                name: lag / 1e6 for name, lag in last.lag.items()
            },
            "queries": sum(own.values()),
            "queries_of_others": sum(sizes.values()) - sum(own.values()),
            "families": sum(who.sees(each.feed) for each in catalog.families.values()),
            "state_bytes": self._held(who),
            "state_bytes_in_all": sum(piece.bytes for piece in manifest.pieces()),
            "sinks": self.work.sinks if who.operator else [],
            "trouble": self.work.trouble if who.operator else "",
        }  # fmt: skip

    def _held(self, who: Principal) -> int:
        """Return how much the queries of somebody keep: as measured, or their part by results."""
        if who.operator:
            return sum(self._bytes().values())
        if who.tenant in self.work.held:
            return self.work.held[who.tenant]
        own = sum(n for name, n in self._bytes().items() if name != FOUND and who.sees(name))
        self._sum_up()
        lazy = (each.name for each in self._reader.catalog.feeds.values() if each.policy == "lazy")
        found = sum(self._totals.get(name, 0) for name in lazy if who.sees(name))
        return own + int(self._bytes().get(FOUND, 0) * found / max(self._n_found, 1))

    def _kept(self, after: int) -> Iterator[tuple[str, Piece]]:
        """Yield what is kept of the epochs since one: what was not merged yet; or all there is."""
        for name, store in self._reader.manifest.stores.items():
            for run in store.runs:
                if run.epoch > after and (run.level == 0 or after < 0):
                    yield from ((name, piece) for piece in run.pieces)

    def _count(self, store: str, piece: Piece) -> None:
        qids, counts = told_by_query(self._reader.root, store, piece)
        self._grow(int(qids[-1]) if qids.size else 0)
        self._counts[qids.astype(np.int64)] += counts

    def _count_found(self, piece: Piece) -> None:
        """Count answers that share the rows of their stream: sets of rows, by query."""
        qids, counts, _ = found_by_query(self._reader.root, piece)
        self._grow(int(qids.max(initial=0)))
        self._counts[qids.astype(np.int64)] += counts
        self._n_found += int(counts.sum())

    def _grow(self, qid: int) -> None:
        if qid >= self._counts.size:
            more = np.zeros(max(qid + 1, 2 * self._counts.size), np.int64)
            more[: self._counts.size] = self._counts
            self._counts = more

    def _measure(self, epoch: EpochStatistics) -> None:
        if not self.epochs or epoch.epoch > self.epochs[-1].epoch:
            self.epochs.append(epoch)
            self._select += epoch.seconds.get("select", 0.0)
            self._total += epoch.seconds.get("run", 0.0)

    def _members(self, feed: str) -> int:
        """Return how many queries a feed has."""
        self._sum_up()
        return self._sizes.get(feed, 0)

    def _results_of(self, feed: FeedSpec) -> int:
        """Return how many answers the queries of a feed have given."""
        self._sum_up()
        return self._totals.get(feed.name, 0)

    def _sum_up(self) -> None:
        """Count queries and answers by feed, once in a while: a page asks for each of its rows."""
        if time.monotonic() - self._summed < SUM_SECONDS:
            return
        with self._reader.registered() as (catalog, _, queries):
            self._sizes, self._totals = queries.sizes(), queries.totals(self._counts)
            self._together = Counter(each.family for each in catalog.feeds.values() if each.joined)
        self._n_told = max(int(self._counts.sum()), 1)
        self._n_queries = max(sum(self._sizes.values()), 1)
        self._summed = time.monotonic()

    def _time_of(self, feed: FeedSpec, part: float, results: int) -> float:
        """Estimate a query's share of the engine's time."""
        if not self._total:
            return 0.0
        if feed.plan is not None:
            return self._seconds(feed) * part / self._total
        parts = 0.5 / self._n_queries + 0.5 * results / self._n_told
        return self._select / self._total * parts

    def _bytes(self) -> dict[str, int]:
        return bytes_by_feed(self._reader.manifest)

    def _candidates(self, who: Principal, most: int) -> list[int]:
        """Return the ids among which those of somebody that take most are."""
        sizes = self._bytes()
        with self._reader.registered() as (catalog, population, queries):
            ids = queries.ids(who.sees).astype(np.int64)
            heavy = [
                name for name in sorted(sizes, key=lambda each: -sizes[each]) if who.sees(name)
            ]
            planned = [name for name in catalog.planned if who.sees(name)]
            busy = sorted(planned, key=lambda each: -self._seconds(catalog.feeds[each]))
            named = [*heavy[:most], *busy[:most]]
            found = [population.names[each] for each in named if each in population.names]
        counts = np.zeros(ids.size, np.int64)
        counts[ids < self._counts.size] = self._counts[ids[ids < self._counts.size]]
        found += ids[np.argsort(-counts, kind="stable")[:most]].tolist()
        return list(dict.fromkeys(found))

    def _seconds(self, feed: FeedSpec) -> float:
        """Return how long a feed's plan has run."""
        return self.work.plans.get(feed.number, [0.0, 0.0, 0.0])[2]


def _rate(
    epochs: list[EpochStatistics], span: float, of: Callable[[EpochStatistics], int]
) -> float:
    return round(sum(of(each) for each in epochs[1:]) / span, 3) if span > 0 else 0.0


def _stream_rate(epochs: list[EpochStatistics], span: float, stream: str) -> float:
    return _rate(epochs, span, lambda each: each.rows_by_stream.get(stream, 0))


def _at(ordered: list[float], share: float) -> float:
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 6) if ordered else 0.0
