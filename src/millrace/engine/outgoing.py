"""What a map task sends: tables pile up by kind and leave as chunks for their shards.

Retained rows go to the shard that owns their bucket. Answers, late rows and dead letters need
no particular shard and go to one chosen by the task's number, so that the work is spread.

In an epoch whose shards run in the driver, a task that has more than `DRIVER_BYTES` to send
sends a single mark instead; the driver then runs the epoch again, spread out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from millrace.connectors.sinks.sink import FANOUTS, FanOut
from millrace.engine import chunk as kinds
from millrace.engine.chunk import Chunk, pack_table
from millrace.engine.decision import Decision
from millrace.engine.feeds import FeedSpec
from millrace.engine.row_ids import BACKFILL_TASK
from millrace.engine.stores import (
    ASKED,
    BACKFILL,
    DEAD_LETTER_COLUMNS,
    DEAD_LETTERS,
    answer_store,
    late_store,
)
from millrace.engine.streams import StreamSpec
from millrace.operators.keys import shard_of
from millrace.operators.query_sets import SETS, packed

CHUNK_BYTES = 4 << 20
DRIVER_BYTES = 64 << 20


class Outgoing:
    """The tables that one task has ready for the shards."""

    def __init__(self, spec: StreamSpec, task: int, decision: Decision) -> None:
        self._spec, self._task, self._decision = spec, task, decision
        self._tables: dict[tuple[int, str, str], list[pa.Table]] = {}
        self._bytes = 0
        self.bytes_sent = 0
        self._ordinal = 0
        self._oversize = False
        self.n_dead = 0
        self.found: dict[str, int] = {}
        """How many answers the queries of each feed have, told or not."""

    def add_results(
        self,
        feed: FeedSpec,
        qids: np.ndarray,
        answer: pa.RecordBatch,
        times: np.ndarray,
        late: np.ndarray,
    ) -> None:
        """Send answers, a row for each match, of the queries with these ids."""
        leading = {
            "_key": pa.array(qids),
            "_time": pa.array(times),
            "_late": pa.array(late),
            **self._marked(feed, times.size),
        }
        self._count_results(feed, "rows", answer.num_rows)
        store = answer_store(feed, "rows")
        self._add(self._any_shard(), kinds.RESULTS, store, _table(leading, answer))

    def add_counts(self, feed: FeedSpec, qids: np.ndarray, counts: np.ndarray) -> None:
        """Send how many rows each query has matched; one shard adds up what all tasks say."""
        if not qids.size:
            return
        table = pa.table(
            {
                "_key": pa.array(qids),
                "_time": pa.array(np.full(qids.size, self._decision.clock, np.int64)),
                "n_rows": pa.array(counts),
            }
        )
        self._count_results(feed, "counts", int(counts.sum()))
        self._add(0, kinds.COUNTS, answer_store(feed, "counts"), table)

    def add_sets(
        self,
        feed: FeedSpec,
        answer: pa.RecordBatch,
        times: np.ndarray,
        late: np.ndarray,
        qids: np.ndarray,
        bounds: np.ndarray,
    ) -> None:
        """Send matching rows once; row i is for the queries from `bounds[i]` to `bounds[i + 1]`."""
        leading = {
            "_key": pa.array(np.zeros(answer.num_rows, np.uint64)),
            "_time": pa.array(times),
            "_late": pa.array(late),
            **self._marked(feed, times.size),
        }
        table = _table(leading, answer).append_column(SETS, packed(qids, bounds))
        self._count_results(feed, "sets", qids.size)
        self._add(self._any_shard(), kinds.RESULTS, answer_store(feed, "sets"), table)

    def _marked(self, feed: FeedSpec, n_rows: int) -> dict[str, pa.Array]:
        """Return the column that says whether answers are about history, if the feed has one."""
        if feed.history is None:
            return {}
        return {BACKFILL: pa.repeat(self._task == BACKFILL_TASK, n_rows)}

    def add_rows(
        self, rows: pa.RecordBatch, keys: np.ndarray, times: np.ndarray, kind: str, name: str
    ) -> None:
        """Send rows to the shards that own their buckets."""
        table = _table({"_key": pa.array(keys), "_time": pa.array(times)}, rows)
        owners, n_shards = shard_of(keys, self._decision.shards), self._decision.n_shards
        for shard in range(n_shards):
            mine = table if n_shards == 1 else table.filter(pa.array(owners == shard))
            if mine.num_rows:
                self._add(shard, kind, name, mine)

    def add_seen(
        self,
        store: str,
        keys: np.ndarray,
        times: np.ndarray,
        late: np.ndarray,
        asked: int,
        rows: pa.RecordBatch,
    ) -> None:
        """Send rows that answers are made of, by their ids; all queries below `asked` stood."""
        leading = {
            "_key": pa.array(keys),
            "_time": pa.array(times),
            "_late": pa.array(late),
            ASKED: pa.array(np.full(keys.size, asked, np.uint64)),
        }
        self._add(self._any_shard(), kinds.ROWS, store, _table(leading, rows))

    def add_found(self, store: str, sets: pa.Table) -> None:
        """Send sets of rows, ascending by key, to the shards that own their buckets."""
        owners = shard_of(sets.column("_key").to_numpy(), self._decision.shards)
        bounds = np.searchsorted(owners, np.arange(self._decision.n_shards + 1))
        for shard in range(self._decision.n_shards):
            mine = sets.slice(bounds[shard], bounds[shard + 1] - bounds[shard])
            if mine.num_rows:
                self._add(shard, kinds.ROWS, store, mine)

    def add_late(
        self, rows: pa.RecordBatch, places: pa.Array, late: np.ndarray, origin: str
    ) -> None:
        """Send the rows that came too late to a table of their own, by when they came.

        They are kept for a while from then on: by their own time they would be too old to keep.
        """
        if not late.any():
            return
        mask = pa.array(late)
        lost = rows.filter(mask)
        leading = {
            "_key": pa.array(np.zeros(lost.num_rows, np.uint64)),
            "_time": pa.array(np.full(lost.num_rows, self._decision.clock, np.int64)),
            "_source": pa.repeat(origin, lost.num_rows),
            "_position": places.filter(mask).cast(pa.int64()),
        }
        self._add(self._any_shard(), kinds.LATE, late_store(self._spec), _table(leading, lost))

    def add_dead(self, rows: pa.RecordBatch, places: pa.Array, reason: str, origin: str) -> None:
        """Send typed rows that cannot be used to the dead letters, spelt as JSON."""
        spelt = [spelt_row(each) for each in _spellable(rows).to_pylist()]
        rejects = pa.table(
            {
                "ordinal": places.cast(pa.int64()),
                "reason": pa.repeat(reason, rows.num_rows),
                "raw": pa.array(spelt, pa.binary()),
            }
        )
        self.add_rejects(rejects, origin)

    def add_rejects(self, rejects: pa.Table, origin: str) -> None:
        """Send what could not be read to the dead letters."""
        n_rows = rejects.num_rows
        self.n_dead += n_rows
        columns = [
            pa.array(np.zeros(n_rows, np.uint64)),
            pa.array(np.full(n_rows, self._decision.clock, np.int64)),
            pa.repeat(self._spec.name, n_rows),
            pa.repeat(origin, n_rows),
            rejects.column("ordinal"),
            rejects.column("reason"),
            rejects.column("raw").cast(pa.binary()),
        ]
        table = pa.Table.from_arrays(columns, schema=DEAD_LETTER_COLUMNS)
        self._add(self._any_shard(), kinds.DEAD, DEAD_LETTERS, table)

    def overflowing(self) -> Iterator[Chunk]:
        """Yield chunks while too much is piled up here."""
        if self._bytes >= CHUNK_BYTES:
            yield from self.remaining()

    def remaining(self) -> Iterator[Chunk]:
        """Yield everything that is piled up, in an order that depends on content alone."""
        self.bytes_sent += self._bytes
        if not self._decision.spread and self.bytes_sent > DRIVER_BYTES:
            if not self._oversize:
                yield self.document(kinds.OVERSIZE, b"")
            self._oversize = True
            self._tables.clear()
        for (shard, kind, name), tables in sorted(self._tables.items(), key=lambda each: each[0]):
            yield self._chunk(shard, kind, name, pack_table(pa.concat_tables(tables)))
        self._tables.clear()
        self._bytes = 0

    def document(self, kind: str, payload: bytes, shard: int = 0) -> Chunk:
        """Return a chunk that is for the driver: the first shard passes it on."""
        return self._chunk(shard, kind, self._spec.name, payload)

    def count(self, feed: str, n_results: int) -> None:
        """Count answers of a feed."""
        if n_results:
            self.found[feed] = self.found.get(feed, 0) + n_results

    def _count_results(self, feed: FeedSpec, form: FanOut, n_results: int) -> None:
        """Count matches; those of a feed that is told in several forms once."""
        wanted = self._decision.wanted.get(feed.name, ())
        if form == next((each for each in FANOUTS if each in wanted), form):
            self.count(feed.name, n_results)

    def _add(self, shard: int, kind: str, name: str, table: pa.Table) -> None:
        self._tables.setdefault((shard, kind, name), []).append(table)
        self._bytes += table.nbytes

    def _any_shard(self) -> int:
        return self._task % self._decision.n_shards

    def _chunk(self, shard: int, kind: str, name: str, payload: bytes) -> Chunk:
        self._ordinal += 1
        return Chunk(shard, self._spec.name, self._task, self._ordinal, kind, name, payload)


def _table(leading: dict[str, pa.Array], rows: pa.RecordBatch) -> pa.Table:
    names = [*leading, *rows.schema.names]
    return pa.Table.from_arrays([*leading.values(), *rows.columns], names=names)


def spelt_row(row: dict[str, object]) -> bytes:
    """Spell one row as JSON; used for the rare row that is set aside."""
    return json.dumps(row, default=str, ensure_ascii=False).encode()


def _spellable(rows: pa.RecordBatch) -> pa.Table:
    """Return rows whose times Python can hold: those beyond its calendar become numbers."""
    table = pa.Table.from_batches([rows])
    for at, field in enumerate(table.schema):
        if pa.types.is_temporal(field.type):
            width = pa.int64() if field.type.bit_width == 64 else pa.int32()
            table = table.set_column(at, field.name, _within_calendar(table[at], width))
    return table


def _within_calendar(column: pa.ChunkedArray, width: pa.DataType) -> pa.ChunkedArray:
    try:
        column.to_pylist()
    except (OverflowError, ValueError):
        return column.cast(width)
    return column
