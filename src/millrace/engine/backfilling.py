"""Backfilling, in the shard that does it: slices of a history are answered as arriving rows are.

The rows go through the same `Answers`, as those of a task that no source has, so all forms in which
answers are kept and told come about in the same way. What they tell is marked as backfill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millrace.engine.answers import Answers
from millrace.engine.backfill import Backfill, Slice
from millrace.engine.catalog import Catalog
from millrace.engine.chunk import Chunk
from millrace.engine.decision import Decision
from millrace.engine.gathering import Gathering
from millrace.engine.outgoing import Outgoing
from millrace.engine.row_ids import BACKFILL_TASK
from millrace.engine.standing import of_queries, sources_of
from millrace.engine.stores import is_found
from millrace.engine.streams import StreamSpec
from millrace.engine.tally import Tally
from millrace.operators.select import Function
from millrace.state.order import TIME
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import read_piece

BATCH_ROWS = 65_536


@dataclass(slots=True)
class Backfilled:
    """What comes of slices: chunks, those `apart` that make runs of their own, and tallies."""

    chunks: list[Chunk] = field(default_factory=list)
    apart: list[Chunk] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)

    def take(self, chunks: Iterable[Chunk], *, spread: bool) -> None:
        """Take up chunks; sets of rows by query are of keys that other shards have too."""
        for each in chunks:
            (self.apart if spread and is_found(each.name) else self.chunks).append(each)


def backfill(
    decision: Decision, catalog: Catalog, root: Root, functions: Mapping[str, Function]
) -> Backfilled:
    """Answer the slices of an epoch."""
    found, spread = Backfilled(), decision.spread
    for stream, spelt in sorted(decision.backfill.items()):
        wanted, spec = Backfill.from_json(spelt), catalog.streams[stream]
        outgoing = Outgoing(spec, BACKFILL_TASK, decision)
        gathering = Gathering(spec, BACKFILL_TASK, catalog, decision, outgoing)
        known = sources_of(root, catalog, decision, stream)
        for each in wanted.slices:
            sources = [of_queries(source, each.queries) for source in known]
            answers = Answers(sources, catalog, decision, outgoing, gathering, functions)
            for batch in _rows(root, spec, decision.held.get(wanted.store, ()), each):
                times, rows = batch.column(TIME).to_numpy(), batch.drop_columns([TIME])
                for _ in answers.take(rows, times, np.zeros(rows.num_rows, np.bool_)):
                    found.take(outgoing.overflowing(), spread=spread)
            answers.finish()
            found.tallies.append(Tally("", failures=answers.failures))
        found.take(outgoing.remaining(), spread=spread)
        n_results = sum(outgoing.found.values())
        found.tallies.append(Tally("", results=n_results, found=outgoing.found))
    return found


def _rows(
    root: Root, spec: StreamSpec, pieces: tuple[Piece, ...], taken: Slice
) -> list[pa.RecordBatch]:
    """Return the rows of a slice, oldest first."""
    names = [TIME, *spec.schema.names]
    empty = pa.schema([(TIME, pa.int64()), *spec.schema.to_arrow()]).empty_table()
    parts = (
        read_piece(root, piece, times=(taken.begin, taken.end), columns=names) for piece in pieces
    )
    table = pa.concat_tables([empty, *(each.select(names) for each in parts)])
    order = np.argsort(table.column(TIME).to_numpy(), kind="stable")
    ordered = table.take(pa.array(order)).combine_chunks()
    return list(ordered.to_batches(max_chunksize=BATCH_ROWS))
