"""Routing, the map side of an epoch: from arrived rows to chunks for the shards.

    arrived rows ─► event time ─► lateness ─► answers of stateless queries ─► retained rows
         │              │             │                    │                       │
       dead           dead          late                results                  rows
                                                                    each a chunk for one shard

One `Router` handles one task's share of one stream, batch by batch, and keeps only what
leaves: answers, retained rows and what went wrong. A row that no query and no retention wants
is not carried further.

Cost: that of matching (`index.match`); nothing per row in Python.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace import failpoints
from millrace.engine import chunk as kinds
from millrace.engine.answers import Answers
from millrace.engine.backfill import behind
from millrace.engine.catalog import Catalog
from millrace.engine.chunk import Chunk
from millrace.engine.decision import Decision
from millrace.engine.gathering import Gathering
from millrace.engine.lateness import Lateness
from millrace.engine.laying import Ranges, laid_out, ranges_of
from millrace.engine.outgoing import Outgoing
from millrace.engine.plan_stores import readers_of
from millrace.engine.row_ids import require_task
from millrace.engine.standing import sources_of
from millrace.engine.stores import rows_store
from millrace.engine.streams import StreamSpec
from millrace.engine.tally import Position, Tally
from millrace.operators.keys import hash_columns
from millrace.operators.relational.equal import LESSER_BITS
from millrace.operators.select import Function
from millrace.state.root import Root


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Some rows of a stream as a source delivered them.

    `places` says where each row stood in its source (what a dead letter is found by), `rejects`
    holds what could not be read at all. `partition` and `begin` are given by sources that know
    their own order; otherwise both come from the columns that the stream declares.
    """

    rows: pa.RecordBatch
    places: pa.Array
    rejects: pa.Table | None = None
    partition: str = ""
    begin: Position | None = None
    origin: str = ""


class Router:
    """One task's share of one stream in one epoch."""

    def __init__(
        self,
        spec: StreamSpec,
        decision: Decision,
        catalog: Catalog,
        root: Root,
        *,
        task: int,
        functions: Mapping[str, Function],
    ) -> None:
        self.spec, self._catalog, self._decision = spec, catalog, decision
        self._lateness = Lateness(spec, decision)
        self._outgoing = Outgoing(spec, task, decision)
        sources = sources_of(root, catalog, decision, spec.name)
        if catalog.retained or catalog.historic:
            require_task(task)
        gathering = Gathering(spec, task, catalog, decision, self._outgoing)
        self._answers = Answers(
            sources,
            catalog,
            decision,
            self._outgoing,
            gathering,
            functions,
            behind=behind(decision.backfill, spec.name),
        )
        self._readers = readers_of(spec.name, catalog, decision)
        self._others = decision.n_shards if decision.plans and decision.spread else 1
        self._tally = Tally(spec.name)
        self._seconds = {"receive": 0.0, "select": 0.0, "retain": 0.0}
        failpoints.reach("route.before")

    def take(self, arrived: Arrived) -> Iterator[Chunk]:
        """Route one batch; yields chunks only when much has piled up."""
        begun = time.perf_counter()
        rows, times, places = self._timed(arrived)
        late = self._lateness.judge(rows, times, arrived.partition, arrived.begin)
        self._outgoing.add_late(rows, places, late, arrived.origin)
        selecting = time.perf_counter()
        for _ in self._answers.take(rows, times, late):
            yield from self._outgoing.overflowing()
        retaining = time.perf_counter()
        self._retain(rows, times, late)
        self._count(arrived, int(late.sum()))
        self._seconds["receive"] += selecting - begun
        self._seconds["select"] += retaining - selecting
        self._seconds["retain"] += time.perf_counter() - retaining
        yield from self._outgoing.overflowing()

    def finish(self) -> Iterator[Chunk]:
        """Yield everything that has not left yet, and the tally."""
        self._answers.finish()
        yield from self._outgoing.remaining()
        tally = replace(
            self._tally,
            segments=tuple(self._lateness.segments()),
            failures=self._answers.failures,
            dead=self._outgoing.n_dead,
            results=sum(self._outgoing.found.values()),
            sent=self._outgoing.bytes_sent,
            seconds=self._seconds,
            least=self._lateness.least,
        )
        counted = replace(tally, found=self._outgoing.found)
        yield self._outgoing.document(kinds.TALLY, json.dumps(counted.to_json()).encode())
        clocks = json.dumps(tally.to_json()).encode()
        for shard in range(1, self._others):
            yield self._outgoing.document(kinds.CLOCKS, clocks, shard)
        failpoints.reach("route.after")

    def _timed(self, arrived: Arrived) -> tuple[pa.RecordBatch, np.ndarray, pa.Array]:
        """Set aside what has no time; return the rest with its times as int64 us."""
        if arrived.rejects is not None and arrived.rejects.num_rows:
            self._outgoing.add_rejects(arrived.rejects, arrived.origin)
        rows, places = arrived.rows, arrived.places
        stamps = rows.column(self.spec.time)
        if stamps.null_count:
            timeless = pc.is_null(stamps)
            reason = f'the time column "{self.spec.time}" is NULL'
            lost, where = rows.filter(timeless), places.filter(timeless)
            self._outgoing.add_dead(lost, where, reason, arrived.origin)
            rows, places = rows.filter(pc.invert(timeless)), places.filter(pc.invert(timeless))
            stamps = rows.column(self.spec.time)
        return rows, stamps.cast(pa.int64()).to_numpy(), places

    def _retain(self, rows: pa.RecordBatch, times: np.ndarray, late: np.ndarray) -> None:
        """Send punctual rows to where they are kept: history, and plans that read the stream."""
        if rows.num_rows == 0 or (self.spec.retain is None and not self._readers):
            return
        if late.any():
            punctual = pa.array(~late)
            rows, times = rows.filter(punctual), times[~late]
        if self._readers and len(times):
            least, known = int(times.min()), self._tally.earliest
            earliest = least if known is None else min(least, known)
            self._tally = replace(self._tally, earliest=earliest)
        for name, store in self._readers.items():
            given, when = rows, times
            if store.laid is not None:
                given, at = laid_out(rows, store.laid, self._ranges(store.feed))
                when = times[at]
            keys = np.zeros(given.num_rows, np.uint64)
            if store.column is not None:
                keys = hash_columns(given, [store.column])
            if store.order == "time":
                keys &= ~LESSER_BITS
            self._outgoing.add_rows(given, keys, when, kinds.INPUT, name)
        if self.spec.retain is None:
            return
        keys = hash_columns(rows, self.spec.key or (self.spec.time,))
        self._outgoing.add_rows(rows, keys, times, kinds.ROWS, rows_store(self.spec))

    def _ranges(self, feed: str) -> Ranges:
        return ranges_of(self._catalog.feeds[feed], self._decision.ranges)

    def _count(self, arrived: Arrived, n_late: int) -> None:
        rejected = arrived.rejects.num_rows if arrived.rejects is not None else 0
        self._tally = replace(
            self._tally,
            rows=self._tally.rows + arrived.rows.num_rows + rejected,
            bytes=self._tally.bytes + arrived.rows.nbytes,
            late=self._tally.late + n_late,
        )
