"""Results as sinks see them: what a manifest still holds for them, read in canonical order.

The results of a feed are a queue store (`stores.answer_store`); each run of it belongs to one
epoch, until no sink waits for it any more and it is merged with its neighbours (`keeping`).
However many shards wrote them, the runs of one feed and epoch become one table: its own columns,
then `_query` where several queries share it, `_time`, `_late`, `_backfill` if they see history, and
`_epoch`. A query that was
dropped and declared anew with other columns has two stores, and for a while perhaps two tables.

Cost: `waiting` looks at each run of the wanted stores once, and once for each manifest at the
names of all stores; `read` sorts one epoch's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.connectors.sinks.sink import Backlog, FanOut
from millrace.engine.stores import BACKFILL, QUERIES, answers_in, tells_queries_apart
from millrace.operators.canonical import LEADING, ordered_by
from millrace.schema import TIMESTAMP
from millrace.state.manifest import Manifest, Run, StoreState
from millrace.state.merge import EPOCH, with_epoch
from millrace.state.root import Root
from millrace.state.run import read_piece

_LIVE = "_live"


@dataclass(frozen=True, slots=True)
class Answer:
    """The runs of one feed and epoch; all have the same columns.

    `several` says that their rows are of several queries, told apart by `_key`.
    """

    query: str
    runs: tuple[Run, ...]
    several: bool = False


Waiting: TypeAlias = Mapping[int, Sequence[Answer]]
"""What waits, by epoch, ascending; within an epoch in the order of the queries' names."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much waits; bytes are those of the runs."""

    n_rows: int = 0
    n_bytes: int = 0


def waiting(
    manifest: Manifest, queries: Sequence[str] | None, first: int, fan_out: FanOut = "rows"
) -> Waiting:
    """Return the results of `queries` (None: of all) in the epochs from `first` on.

    What was merged is not among them: every sink that was there has had it.
    """
    queues = _queues(manifest, fan_out)
    found: dict[int, list[Answer]] = {}
    for query in sorted(queues if queries is None else queries):
        for alike in queues.get(query, ()):
            runs = (
                run
                for store in alike.stores
                for run in store.runs
                if run.epoch >= first and run.level == 0
            )
            for epoch, group in groupby(sorted(runs, key=_epoch), key=_epoch):
                found.setdefault(epoch, []).append(Answer(query, tuple(group), alike.several))
    return dict(sorted(found.items()))


def amount(answers: Sequence[Answer]) -> Amount:
    """Measure what one epoch holds."""
    pieces = [piece for each in answers for run in each.runs for piece in run.pieces]
    return Amount(sum(piece.rows for piece in pieces), sum(piece.bytes for piece in pieces))


def total(held: Waiting) -> Amount:
    """Measure what all epochs hold."""
    amounts = [amount(answers) for answers in held.values()]
    return Amount(sum(each.n_rows for each in amounts), sum(each.n_bytes for each in amounts))


def oldest_beyond(backlog: Backlog, held: Waiting) -> tuple[int, int]:
    """Choose the oldest epochs so that at most half of the limit is left without them.

    Returns the epoch behind them, and their rows. Half, because to drop one epoch at every
    commit would never leave a sink in peace.
    """
    left, n_epochs, n_rows, stop = total(held).n_bytes, len(held), 0, min(held)
    for epoch, answers in held.items():
        if not backlog.exceeded_by(left, n_epochs, share=0.5):
            break
        size = amount(answers)
        left, n_epochs = left - size.n_bytes, n_epochs - 1
        n_rows, stop = n_rows + size.n_rows, epoch + 1
    return stop, n_rows


def read(root: Root, answer: Answer) -> pa.Table:
    """Read the runs of one feed and epoch as the table that its sinks get."""
    return shown(stored_rows(root, answer.runs), several=answer.several)


def stored_rows(root: Root, runs: Sequence[Run]) -> pa.Table:
    """Read runs of one feed as they are stored, each row with its epoch."""
    return pa.concat_tables(
        with_epoch(read_piece(root, piece), run.epoch) for run in runs for piece in run.pieces
    )


def shown(stored: pa.Table, *, several: bool) -> pa.Table:
    """Bring stored answers into canonical order by epochs, in the columns that readers get."""
    keys = stored.column("_key").cast(pa.int64())
    stored = stored.drop_columns("_key")
    if several and QUERIES not in stored.column_names:
        stored = stored.append_column("_query", keys)
    if BACKFILL in stored.column_names:  # which is told first
        stored = stored.append_column(_LIVE, pc.invert(stored.column(BACKFILL)))
    names = (EPOCH, _LIVE, *LEADING, "_query")
    whole = [each for each in names if each in stored.column_names]
    ordered = ordered_by(stored, whole).combine_chunks()
    ordered = ordered.drop_columns([each for each in (_LIVE,) if each in ordered.column_names])
    if QUERIES in ordered.column_names:
        at = ordered.column_names.index(QUERIES)
        ordered = ordered.set_column(at, QUERIES, _unpacked(ordered.column(QUERIES)))
    last = ("_query", QUERIES, *LEADING, BACKFILL, EPOCH)
    trailing = [name for name in last if name in ordered.column_names]
    own = [name for name in ordered.column_names if name not in trailing]
    table = ordered.select([*own, *trailing])
    at = table.column_names.index("_time")
    return table.set_column(at, pa.field("_time", TIMESTAMP), ordered["_time"].cast(TIMESTAMP))


def _unpacked(sets: pa.ChunkedArray) -> pa.Array:
    """Read sets of query ids back: eight bytes each, ascending."""
    packed = sets.combine_chunks()
    packed = packed if isinstance(packed, pa.Array) else packed.chunk(0)
    if not len(packed):
        return pa.array([], pa.list_(pa.int64()))
    _, offsets, data = packed.buffers()
    bounds = np.frombuffer(offsets, np.int32)[packed.offset : packed.offset + len(packed) + 1]
    ids = np.frombuffer(data, np.int64)[bounds[0] // 8 : bounds[-1] // 8]
    return pa.ListArray.from_arrays(pa.array((bounds - bounds[0]) // 8, pa.int32()), pa.array(ids))


def _epoch(run: Run) -> int:
    return run.epoch


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Stores of one name whose rows have the same columns."""

    several: bool
    stores: list[StoreState]


@lru_cache(maxsize=6)  # a manifest never changes, and every sink asks for the same one
def _queues(manifest: Manifest, fan_out: FanOut) -> dict[str, list[_Alike]]:
    """Find the stores of each feed's results; those with the same columns are together."""
    queues: dict[str, list[_Alike]] = {}
    for name in sorted(manifest.stores):
        found, store = answers_in(name), manifest.stores[name]
        if found is None or found[0] != fan_out:
            continue
        groups, several = queues.setdefault(found[1], []), tells_queries_apart(name)
        for group in groups:
            if group.stores[0].schema == store.schema and group.several == several:
                group.stores.append(store)
                break
        else:
            groups.append(_Alike(several, [store]))
    return queues
