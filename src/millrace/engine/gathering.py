"""Gathering answers that wait: each row once, and for each query which rows are its answers.

    pairs of a batch ─► rows that any of them names, numbered ─► seen/    by row id
                     ─► (query, row) of a whole task          ─► found/   by query and block

PSoup's Results Structure (Chandrasekaran and Franklin, VLDB 2002), in sorted runs. A set of rows is
a list or a bitmap, whichever is smaller (`kernels.containers`), of the rows of one block; its time
is that of its newest row, so it expires when all of them have. Feeds that retain equally long share
a store, and with it the merges that bring the sets of one query together (`engine.set_folding`).

Invariant: what is sent depends on the task's rows and the catalog alone. A pair occurs once.

Cost: one sort of the pairs of a task as 64-bit numbers (1,000,000 take about 60 ms), and 34 bytes
for each set beside its places.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.outgoing import Outgoing
from millrace.engine.retention import retained
from millrace.engine.row_ids import (
    BACKFILL_TASK,
    ORDINAL_BITS,
    PLACE_BITS,
    PLACES,
    first_row_id,
    key_of_query,
    require_ordinals,
)
from millrace.engine.stores import FOUND_COLUMNS, found_store, seen_store
from millrace.engine.streams import StreamSpec
from millrace.index.match import Pairs
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools, Hashes, Ints, Ints32
from millrace.kernels.containers import pack_places
from millrace.operators.keys import BUCKET_BITS

PAIRS_AT_ONCE = 1 << 21
NOBODY = -1

_ORDINAL = np.uint64(ORDINAL_BITS)
_PLACE = np.uint64(PLACE_BITS)
_BUCKET = np.uint64(64 - BUCKET_BITS)
_MOST_QIDS = 1 << (64 - ORDINAL_BITS)


class Gathering:
    """What one task keeps of one stream's rows for queries that are asked later."""

    def __init__(
        self, spec: StreamSpec, task: int, catalog: Catalog, decision: Decision, outgoing: Outgoing
    ) -> None:
        self._spec, self._outgoing, self._catalog = spec, outgoing, catalog
        kept = retained(catalog).get(spec.name)
        self._lazy = () if kept is None else kept.lazy
        arriving = task != BACKFILL_TASK
        self.everything = arriving and kept is not None and kept.everything
        self._first = first_row_id(decision.identity.epoch, task) if kept is not None else 0
        self._asked = catalog.next_qid
        self._n_rows = 0
        self._groups: dict[str, Ints] = {}
        self._batch: list[tuple[int, Ints32, Hashes]] = []
        self._pending: list[list[tuple[Hashes, Ints]]] = [[] for _ in self._lazy]
        self._times: list[Ints] = []
        self._begun = 0
        self._n_pairs = 0

    def slots(self, run: IndexRun) -> Bools | None:
        """Mark the slots of a file whose answers are gathered; None if there are none."""
        groups = self._groups_of(run)
        if not (groups != NOBODY).any():
            return None
        found: Bools = (groups != NOBODY)[run.owners(np.arange(run.n, dtype=np.int32))]
        return found

    def note(self, pairs: Pairs) -> None:
        """Take up those pairs of a batch whose feeds gather answers."""
        groups = self._groups_of(pairs.run)
        present = np.unique(groups)
        for group in present[present != NOBODY].tolist():
            rows, slots = pairs.rows, pairs.slots
            if present.size > 1:
                mine = groups[pairs.run.owners(slots)] == group
                rows, slots = rows[mine], slots[mine]
            if rows.size:
                self._batch.append((group, rows, pairs.run.qids[slots]))

    def close(self, rows: pa.RecordBatch, times: Ints, late: Bools) -> None:
        """Number and send the rows of a batch that are wanted, and remember whose they are."""
        if not self._batch and not self.everything:
            return
        marked = np.full(rows.num_rows, self.everything)
        for _, at, _ in self._batch:
            marked[at] = True
        chosen = np.flatnonzero(marked)
        require_ordinals(self._n_rows + chosen.size)
        keys = np.arange(chosen.size, dtype=np.uint64) + np.uint64(self._first + self._n_rows)
        taken = rows if chosen.size == rows.num_rows else rows.take(pa.array(chosen))
        self._outgoing.add_seen(
            seen_store(self._spec), keys, times[chosen], late[chosen], self._asked, taken
        )
        ordinals = np.cumsum(marked) + (self._n_rows - 1)
        for group, at, qids in self._batch:
            self._pending[group].append((qids, ordinals[at]))
            self._n_pairs += at.size
        self._times.append(times[chosen])
        self._n_rows += chosen.size
        self._batch.clear()
        if self._n_pairs >= PAIRS_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Send the sets of rows that have come together."""
        if self._n_pairs:
            times = np.concatenate(self._times)
            for group, pending in enumerate(self._pending):
                if pending:
                    store = found_store(self._spec, self._lazy[group])
                    self._outgoing.add_found(store, self._sets(pending, times))
                    pending.clear()
        self._times.clear()
        self._begun, self._n_pairs = self._n_rows, 0

    def _sets(self, pending: list[tuple[Hashes, Ints]], times: Ints) -> pa.Table:
        """Make one set of the rows of each query and block, in the order of a run."""
        qids = np.concatenate([each for each, _ in pending])
        ordinals = np.concatenate([each for _, each in pending]).astype(np.uint64)
        assert int(qids.max()) < _MOST_QIDS, "ids of queries are given one by one"
        # The key's order is that of the id turned by ten bits, of which the lowest are now on top.
        turned = (qids >> np.uint64(BUCKET_BITS)) << _ORDINAL
        pairs = np.sort((qids << _BUCKET) | turned | ordinals)
        sets = pairs >> _PLACE
        starts = np.flatnonzero(np.concatenate(([True], sets[1:] != sets[:-1])))
        firsts = pairs[starts]
        bounds = np.append(starts, pairs.size)
        rows = (pairs & np.uint64((1 << ORDINAL_BITS) - 1)).astype(np.int64)
        newest = np.maximum.reduceat(times[rows - self._begun], starts)
        low_bits = np.uint64((1 << 64 - BUCKET_BITS) - 1)
        owners = (firsts >> _BUCKET) | ((firsts & low_bits) >> _ORDINAL) << np.uint64(BUCKET_BITS)
        blocks = (np.uint64(self._first) + rows[starts].astype(np.uint64)) >> _PLACE
        offsets, data = pack_places((rows & (PLACES - 1)).astype(np.uint16), bounds)
        places = pa.Array.from_buffers(
            pa.binary(), starts.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        columns = [
            pa.array(key_of_query(owners)),
            pa.array(newest),
            pa.array(blocks),
            pa.array(np.diff(bounds).astype(np.int32)),
            places,
        ]
        return pa.Table.from_arrays(columns, schema=FOUND_COLUMNS)

    def _groups_of(self, run: IndexRun) -> Ints:
        """Return the group of each family of a file: the place of its retention among all."""
        known = self._groups.get(run.name)
        if known is None:
            known = np.array([*self._groups_in(run)], np.int64)
            self._groups[run.name] = known
        return known

    def _groups_in(self, run: IndexRun) -> Iterator[int]:
        for family in run.families:
            feed = self._catalog.feeds.get(family.feed)
            lazy = feed is not None and feed.policy == "lazy" and feed.retain is not None
            yield self._lazy.index(feed.retain) if lazy and feed is not None else NOBODY
