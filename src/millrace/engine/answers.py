"""Answers: from the pairs of rows and queries that match to what sinks want to be told.

    pairs ─► by feed, and by how the answer is computed ─► rows     one for each pair
                                                        ─► sets     one for each row
    counts, added up over the epoch's batches           ─► counts   one for each query

Answers that wait to be asked for are gathered before (`engine.gathering`). Only what somebody wants
is computed: a feed of which nobody wants rows costs no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from millrace.engine.backfill import Ranges
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.feeds import FeedSpec
from millrace.engine.gathering import Gathering
from millrace.engine.outgoing import Outgoing
from millrace.engine.population import Qids
from millrace.engine.standing import without_queries
from millrace.engine.tally import Failure
from millrace.index.match import Matcher, Pairs, Source, families_by_projection
from millrace.index.pieces import pieces
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools, Ints, Ints32
from millrace.operators.select import Function, project
from millrace.plan.nodes import Selection

Places: TypeAlias = Ints | slice


class Answers:
    """One task's answers over one stream in one epoch."""

    def __init__(
        self,
        sources: Sequence[Source],
        catalog: Catalog,
        decision: Decision,
        outgoing: Outgoing,
        gathering: Gathering,
        functions: Mapping[str, Function],
        *,
        behind: Ranges = (),
    ) -> None:
        self._catalog, self._decision, self._outgoing = catalog, decision, outgoing
        self._gathering = gathering
        self._functions = functions
        self._matcher = Matcher(sources, functions, decision.access)
        self._punctual = self._matcher
        if behind:
            ahead = [without_queries(each, behind) for each in sources]
            self._punctual = Matcher(ahead, functions, decision.access)
        self._runs = [each.run for each in sources]
        self._told = [self._slots_wanted(run, "rows", "sets") for run in self._runs]
        self._wanted = [
            _either(told, gathering.slots(run))
            for told, run in zip(self._told, self._runs, strict=True)
        ]
        self._silent = {
            run.name
            for told, run in zip(self._told, self._runs, strict=True)
            if told is not None and not told.any()
        }
        self._counted = [self._slots_wanted(run, "counts") for run in self._runs]
        self._sets: dict[tuple[str, str], list[_Matched]] = {}
        self._failures: dict[int, Failure] = {}

    def take(self, rows: pa.RecordBatch, times: Ints, late: Bools) -> Iterator[None]:
        """Answer the queries for one batch; yields whenever answers could be sent off.

        Punctual rows are not for queries that are behind, which find them in the history.
        """
        if self._punctual is self._matcher:
            yield from self._take(_Batch(rows, times, late), self._matcher)
            return
        for matcher, mask in ((self._punctual, ~late), (self._matcher, late)):
            if mask.any():
                some = rows if mask.all() else rows.filter(pa.array(mask))
                yield from self._take(_Batch(some, times[mask], late[mask]), matcher)

    def _take(self, batch: _Batch, matcher: Matcher) -> Iterator[None]:
        rows, times, late = batch.rows, batch.times, batch.late
        if not rows.num_rows or not self._runs:
            return
        if any(mask is None or mask.any() for mask in self._wanted):
            first, n_rows = 0, matcher.rows_at_once(rows, self._wanted)
            for piece in pieces(rows, n_rows):
                stop = first + piece.num_rows
                self._match(_Batch(piece, times[first:stop], late[first:stop]), matcher)
                first = stop
                yield
        elif self._gathering.everything:
            self._gathering.close(rows, times, late)
        if any(mask is None or mask.any() for mask in self._counted):
            matcher.count(rows, self._counted)
        self._note_failures(times, matcher)

    def _match(self, batch: _Batch, matcher: Matcher) -> None:
        for pairs in matcher.pairs(batch.rows, self._wanted):
            self._gathering.note(pairs)
            if pairs.run.name in self._silent:
                self._count_found(pairs)
                continue
            for matched in self._parted(pairs):
                self._send(matched, batch)
        self._gathering.close(batch.rows, batch.times, batch.late)
        self._send_sets(batch)

    def finish(self) -> None:
        """Send the counts, and what was gathered."""
        self._gathering.finish()
        for matcher in {id(each): each for each in (self._matcher, self._punctual)}.values():
            for number, run in enumerate(self._runs):
                self._send_counts(run, *matcher.counts(number, self._counted[number]))

    def _send_counts(self, run: IndexRun, counted: Ints32, counts: Ints) -> None:
        for feed, at in _by_feed(run, counted):
            spec, slots = self._catalog.feeds.get(feed), counted[at]
            if spec is not None and "counts" in self._forms(feed):
                self._outgoing.add_counts(spec, run.qids[slots], counts[at])

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The queries that could not be answered."""
        return tuple(self._failures.values())

    def _count_found(self, pairs: Pairs) -> None:
        """Count the answers of a file of which none are told, by feed."""
        families = pairs.run.families
        counts = np.bincount(pairs.run.owners(pairs.slots), minlength=len(families))
        for number in np.flatnonzero(counts).tolist():
            self._outgoing.count(families[number].feed, int(counts[number]))

    def _forms(self, feed: str) -> list[str]:
        return list(self._decision.wanted.get(feed, ()))

    def _parted(self, pairs: Pairs) -> Iterator[_Matched]:
        """Part pairs by feed, and by how their answer is computed."""
        run = pairs.run
        for feed, families, at in _by_answer(pairs):
            spec = self._catalog.feeds.get(feed)
            if spec is None:
                continue
            if not self._forms(feed):
                self._outgoing.count(feed, pairs.slots[at].size)
                continue
            stored, slots = run.families[families[0]], pairs.slots[at]
            parameters, alike = None, stored.projection
            if stored.outputs_differ:
                parameters = run.parameters(families[0]).take(pa.array(run.places(slots)))
                alike = f"{run.name} {families[0]}"
            qids = run.qids[slots]
            yield _Matched(spec, stored.selection, alike, pairs.rows[at], qids, parameters)

    def _slots_wanted(self, run: IndexRun, *forms: str) -> Bools | None:
        """Mark the slots whose feed is wanted in one of some forms; None is all of them.

        No row by itself answers a query that a plan runs, however many of those there are.
        """
        asked = [name for name, feed in self._catalog.feeds.items() if feed.plan is None]
        wanted = {feed for feed in asked if {*forms} & {*self._forms(feed)}}
        mine = np.array([each.feed in wanted for each in run.families])
        if mine.all():
            return None
        if not mine.any():
            return np.zeros(run.n, np.bool_)
        found: Bools = mine[run.owners(np.arange(run.n, dtype=np.int32))]
        return found

    def _send(self, matched: _Matched, batch: _Batch) -> None:
        """Send the rows of some pairs; what is told as sets waits for the pairs of other files."""
        forms = self._forms(matched.feed.name)
        if "rows" in forms:
            answer, at = self._answered(matched, batch), matched.at
            if answer is not None:
                self._outgoing.add_results(
                    matched.feed, matched.qids, answer, batch.times[at], batch.late[at]
                )
        if "sets" in forms:
            self._sets.setdefault((matched.feed.name, matched.alike), []).append(matched)

    def _send_sets(self, batch: _Batch) -> None:
        """Send each row once for all queries, of whatever file, whose answer it is alike."""
        for some in self._sets.values():
            matched = some[0] if len(some) == 1 else _joined(some)
            matched = matched.at_places(np.lexsort((matched.qids, matched.at)))
            at = matched.at
            new = np.concatenate(([True], at[1:] != at[:-1])) | (matched.parameters is not None)
            first = np.flatnonzero(new)
            answer = self._answered(matched.at_places(first), batch, among=matched)
            bounds = np.concatenate((first, [at.size]))
            times, late = batch.times[at[first]], batch.late[at[first]]
            if answer is not None:
                self._outgoing.add_sets(matched.feed, answer, times, late, matched.qids, bounds)
        self._sets.clear()

    def _answered(
        self, matched: _Matched, batch: _Batch, *, among: _Matched | None = None
    ) -> pa.RecordBatch | None:
        """Compute the answers of pairs; where that raises, find out for which queries."""
        rows = batch.rows.take(pa.array(matched.at))
        try:
            return project(
                matched.selection, rows, matched.feed.answer, self._functions, matched.parameters
            )
        except MemoryError:
            raise  # says nothing about these queries: others may have taken the memory
        except Exception as cause:
            self._blame(matched if among is None else among, batch, cause)
            return None

    def _blame(self, matched: _Matched, batch: _Batch, cause: Exception) -> None:
        """Find the queries whose own rows raise, by halving; if it is none of them, all."""
        failures, qids = self._matcher.failures, np.unique(matched.qids)
        if qids.size > 1:
            for half in np.array_split(qids, 2):
                self._answered(matched.at_places(np.isin(matched.qids, half)), batch)
        if failures.causes.keys().isdisjoint(qids.tolist()):
            failures.add(qids.tolist(), cause)

    def _note_failures(self, times: Ints, matcher: Matcher) -> None:
        causes = {**matcher.failures.causes, **self._matcher.failures.causes}
        for qid, cause in causes.items():
            if qid not in self._failures:
                self._failures[qid] = Failure(
                    qid, int(times.min()), type(cause).__name__, str(cause)[:500]
                )


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Rows, their times, and which of them are late."""

    rows: pa.RecordBatch
    times: Ints
    late: Bools


@dataclass(frozen=True, slots=True, eq=False)
class _Matched:
    """Pairs of one feed whose answers are computed alike: row `at[i]` is for query `qids[i]`.

    `parameters` are there only if answers depend on them: the constants of each pair's query.
    """

    feed: FeedSpec
    selection: Selection
    alike: str
    at: Ints32
    qids: Qids
    parameters: pa.RecordBatch | None = None

    def at_places(self, places: Ints | Bools) -> _Matched:
        """Choose some of the pairs, by a mask or by their places."""
        parameters = self.parameters
        if parameters is not None:
            chosen = np.flatnonzero(places) if places.dtype == np.bool_ else places
            parameters = parameters.take(pa.array(chosen))
        return replace(self, at=self.at[places], qids=self.qids[places], parameters=parameters)


def _joined(some: list[_Matched]) -> _Matched:
    """Put pairs of several files together; their answers do not depend on parameters."""
    at, qids = [each.at for each in some], [each.qids for each in some]
    return replace(some[0], at=np.concatenate(at), qids=np.concatenate(qids))


def _by_feed(run: IndexRun, slots: Ints32) -> Iterator[tuple[str, Places]]:
    """Part slots by feed."""
    feeds: dict[str, list[int]] = {}
    for number, family in enumerate(run.families):
        feeds.setdefault(family.feed, []).append(number)
    names = list(feeds)
    for nth, at in _parts(run, slots, list(feeds.values())):
        yield names[nth], at


def _by_answer(pairs: Pairs) -> Iterator[tuple[str, list[int], Places]]:
    """Part pairs by feed and by how their answer is computed."""
    alike = families_by_projection(pairs.run)
    keys, families = list(alike), list(alike.values())
    for nth, at in _parts(pairs.run, pairs.slots, families):
        yield keys[nth][0], families[nth], at


def _parts(run: IndexRun, slots: Ints32, groups: list[list[int]]) -> Iterator[tuple[int, Places]]:
    """Part slots by the groups that their families are in."""
    if len(groups) == 1:
        yield 0, slice(None)
        return
    group_of = np.empty(len(run.families), np.int64)
    for number, families in enumerate(groups):
        group_of[families] = number
    mine = group_of[run.owners(slots)]
    order = np.argsort(mine, kind="stable")
    present, first = np.unique(mine[order], return_index=True)
    bounds = [*first.tolist(), order.size]
    for nth, number in enumerate(present.tolist()):
        yield number, order[bounds[nth] : bounds[nth + 1]]


def _either(told: Bools | None, gathered: Bools | None) -> Bools | None:
    """Mark the slots that are marked in one of two ways; None is all of them, or none gathered."""
    return told if told is None or gathered is None else told | gathered
