"""Answers: from the pairs of rows and queries that match to what sinks want to be told.

    pairs ─► by feed, and by how the answer is computed ─► rows     one for each pair
                                                        ─► sets     one for each row
    counts, added up over the epoch's batches           ─► counts   one for each query

Only what somebody wants is computed: a feed of which nobody wants rows costs no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.feeds import FeedSpec
from millrace.engine.outgoing import Outgoing
from millrace.engine.tally import Failure
from millrace.index.match import Matcher, Pairs, Source, families_by_projection
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools, Ints, Ints32
from millrace.operators.select import Function, project


class Answers:
    """One task's answers over one stream in one epoch."""

    def __init__(
        self,
        sources: Sequence[Source],
        catalog: Catalog,
        decision: Decision,
        outgoing: Outgoing,
        functions: Mapping[str, Function],
    ) -> None:
        self._catalog, self._decision, self._outgoing = catalog, decision, outgoing
        self._functions = functions
        self._matcher = Matcher(sources, functions, decision.access)
        self._runs = [each.run for each in sources]
        self._wanted = [self._slots_wanted(run, "rows", "sets") for run in self._runs]
        counting = [self._slots_wanted(run, "counts") for run in self._runs]
        self._counted: list[Bools | None] = counting
        self._counts = [np.zeros(run.n, np.int64) for run in self._runs] if (
            any(mask is None or mask.any() for mask in counting)
        ) else []
        self._failures: dict[int, Failure] = {}

    def take(self, rows: pa.RecordBatch, times: Ints, late: Bools) -> None:
        """Answer the queries for one batch."""
        if not rows.num_rows or not self._runs:
            return
        if any(mask is None or mask.any() for mask in self._wanted):
            for pairs in self._matcher.pairs(rows, self._wanted):
                self._send(pairs, rows, times, late)
        if self._counts:
            self._matcher.count(rows, self._counts)
        self._note_failures(times)

    def finish(self) -> None:
        """Send the counts."""
        for run, counts, counted in zip(self._runs, self._counts, self._counted, strict=False):
            for feed, families in _by_feed(run).items():
                spec = self._catalog.feeds.get(feed)
                if spec is not None and "counts" in self._forms(feed):
                    mine = counts > 0 if counted is None else (counts > 0) & counted
                    if len(run.families) > 1:
                        slots = np.arange(run.n, dtype=np.int32)
                        mine = mine & np.isin(run.owners(slots), families)
                    self._outgoing.add_counts(spec, run.qids[mine], counts[mine])

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The queries that could not be answered."""
        return tuple(self._failures.values())

    def _forms(self, feed: str) -> list[str]:
        return list(self._decision.wanted.get(feed, ()))

    def _slots_wanted(self, run: IndexRun, *forms: str) -> Bools | None:
        """Mark the slots whose feed is wanted in one of some forms; None is all of them."""
        mine = np.array([bool({*forms} & {*self._forms(each.feed)}) for each in run.families])
        if mine.all():
            return None
        if not mine.any():
            return np.zeros(run.n, np.bool_)
        found: Bools = mine[run.owners(np.arange(run.n, dtype=np.int32))]
        return found

    def _send(self, pairs: Pairs, rows: pa.RecordBatch, times: Ints, late: Bools) -> None:
        for feed, families, at in _by_answer(pairs):
            spec = self._catalog.feeds.get(feed)
            if spec is None:
                continue
            mine, slots = pairs.rows[at], pairs.slots[at]
            for form in self._forms(feed):
                try:
                    if form == "rows":
                        self._send_rows(spec, pairs.run, families[0], mine, slots, rows, times, late)
                    elif form == "sets":
                        self._send_sets(spec, pairs.run, families[0], mine, slots, rows, times, late)
                except MemoryError:
                    raise  # says nothing about these queries: others may have taken the memory
                except Exception as cause:
                    self._matcher.failures.add(pairs.run.qids[np.unique(slots)].tolist(), cause)

    def _send_rows(  # noqa: PLR0913  a pair has six sides
        self,
        feed: FeedSpec,
        run: IndexRun,
        family: int,
        at: Ints32,
        slots: Ints32,
        rows: pa.RecordBatch,
        times: Ints,
        late: Bools,
    ) -> None:
        answer = self._projected(feed, run, family, at, slots, rows)
        self._outgoing.add_results(feed, run.qids[slots], answer, times[at], late[at])

    def _send_sets(  # noqa: PLR0913  a pair has six sides
        self,
        feed: FeedSpec,
        run: IndexRun,
        family: int,
        at: Ints32,
        slots: Ints32,
        rows: pa.RecordBatch,
        times: Ints,
        late: Bools,
    ) -> None:
        order = np.lexsort((slots, at))
        at, slots = at[order], slots[order]
        own = run.families[family].outputs_differ
        new = np.ones(at.size, np.bool_) if own else np.concatenate(([True], at[1:] != at[:-1]))
        first = np.flatnonzero(new)
        answer = self._projected(feed, run, family, at[first], slots[first], rows)
        bounds = np.concatenate((first, [at.size]))
        qids = run.qids[slots]
        self._outgoing.add_sets(feed, answer, times[at[first]], late[at[first]], qids, bounds)

    def _projected(
        self,
        feed: FeedSpec,
        run: IndexRun,
        family: int,
        at: Ints32,
        slots: Ints32,
        rows: pa.RecordBatch,
    ) -> pa.RecordBatch:
        stored = run.families[family]
        parameters = None
        if stored.outputs_differ:
            parameters = run.parameters(family).take(pa.array(run.places(slots)))
        return project(
            stored.selection, rows.take(pa.array(at)), feed.answer, self._functions, parameters
        )

    def _note_failures(self, times: Ints) -> None:
        for qid, cause in self._matcher.failures.causes.items():
            if qid not in self._failures:
                self._failures[qid] = Failure(
                    qid, int(times.min()), type(cause).__name__, str(cause)[:500]
                )


def _by_feed(run: IndexRun) -> dict[str, list[int]]:
    feeds: dict[str, list[int]] = {}
    for number, family in enumerate(run.families):
        feeds.setdefault(family.feed, []).append(number)
    return feeds


def _by_answer(pairs: Pairs) -> Iterator[tuple[str, list[int], Ints | slice]]:
    """Part pairs by feed and by how their answer is computed."""
    run = pairs.run
    if len(run.families) == 1:
        yield run.families[0].feed, [0], slice(None)
        return
    owners = run.owners(pairs.slots)
    alike = families_by_projection(run)
    if len(alike) == 1:
        (feed, _), families = next(iter(alike.items()))
        yield feed, families, slice(None)
        return
    group_of = np.empty(len(run.families), np.int64)
    for number, families in enumerate(alike.values()):
        group_of[families] = number
    groups = group_of[owners]
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(len(alike) + 1))
    for number, ((feed, _), families) in enumerate(alike.items()):
        at = order[bounds[number] : bounds[number + 1]]
        if at.size:
            yield feed, families, at
