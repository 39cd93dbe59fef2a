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
from millrace.engine.stores import BACKFILL, answers_in, holds_sets, tells_queries_apart
from millrace.kernels.sorted_keys import ascends
from millrace.operators.canonical import LEADING, in_order, ordered_by
from millrace.operators.query_sets import SETS, expanded, unpacked
from millrace.schema import TIMESTAMP
from millrace.state.manifest import Manifest, Run, StoreState
from millrace.state.merge import EPOCH, with_epoch
from millrace.state.root import Root
from millrace.state.run import read_piece

_LIVE = "_live"
_IDS = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True)
class Answer:
    """The runs of one feed and epoch; all have the same columns.

    `several` says that their rows are of several queries, told apart by `_key`; they are
    `expanded` if each is stored once for all its queries, and wanted once for each.
    """

    query: str
    runs: tuple[Run, ...]
    several: bool = False
    expanded: bool = False


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
                answer = Answer(query, tuple(group), alike.several, alike.expanded)
                found.setdefault(epoch, []).append(answer)
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
    stored = stored_rows(root, answer.runs)
    if answer.expanded:
        stored = of_each_query(stored)
    return shown(stored, several=answer.several)


def of_each_query(stored: pa.Table, qid: int | None = None) -> pa.Table:
    """Return a row for each query of rows that are stored with sets of them, or for one.

    They are put in order before: those of different instants need not be compared afterwards.
    """
    epochs, times = (stored.column(each).to_numpy() for each in (EPOCH, "_time"))
    if not in_order([epochs, times]):
        stored = stored.take(pa.array(np.lexsort([times, epochs])))
    return expanded(stored, "_key", qid)


def n_told(stored: pa.Table) -> int:
    """Return how many rows those are for each query, of rows that are stored with sets of them."""
    sets = (unpacked(each)[1] for each in stored.column(SETS).chunks)
    return sum(int(bounds[-1]) for bounds in sets)


def stored_rows(root: Root, runs: Sequence[Run]) -> pa.Table:
    """Read runs of one feed as they are stored, each row with its epoch."""
    return pa.concat_tables(
        with_epoch(read_piece(root, piece), run.epoch) for run in runs for piece in run.pieces
    )


def shown(stored: pa.Table, *, several: bool) -> pa.Table:
    """Bring stored answers into canonical order by epochs, in the columns that readers get."""
    columns = _arrays(stored)
    names = _names(columns, several=several)
    changed = {"_query": pa.int64(), "_time": TIMESTAMP, SETS: _IDS}
    fields = [
        pa.field(each, changed[each]) if each in changed else stored.schema.field(each)
        for each in names
    ]
    return told(columns, pa.schema(fields), several=several)


def told(columns: Mapping[str, pa.Array], schema: pa.Schema, *, several: bool) -> pa.Table:
    """Do what `shown` does to stored answers that are columns, each in one piece.

    Few answers are the usual case, so columns are handled one by one, and a table is made once.
    """
    columns = dict(columns)
    keys = columns.pop("_key")
    if several and SETS not in columns:
        columns["_query"] = keys.view(pa.int64())
    if BACKFILL in columns:  # which is told first
        columns[_LIVE] = pc.invert(columns[BACKFILL])
    first = [each for each in (EPOCH, _LIVE, *LEADING, "_query") if each in columns]
    if not _in_order(columns, first):
        columns = _arrays(ordered_by(pa.table(columns), first))
    if SETS in columns:
        columns[SETS] = _lists(columns[SETS])
    columns["_time"] = columns["_time"].view(TIMESTAMP)
    return pa.Table.from_arrays([columns[each] for each in schema.names], schema=schema)


def _in_order(columns: Mapping[str, pa.Array], first: Sequence[str]) -> bool:
    """Say whether rows are in order; mostly their epochs and times alone tell that."""
    if first[:2] == [EPOCH, "_time"] and ascends(
        columns[EPOCH].to_numpy(), columns["_time"].to_numpy()
    ):
        return True
    return in_order([columns[each].to_numpy(zero_copy_only=False) for each in first])


def _names(columns: Mapping[str, pa.Array], *, several: bool) -> list[str]:
    """Name the columns that readers get: those of the query, and behind them ours."""
    trailing = ["_query"] if several and SETS not in columns else []
    trailing += [each for each in (SETS, *LEADING, BACKFILL, EPOCH) if each in columns]
    return [*(each for each in columns if each not in ("_key", *trailing)), *trailing]


def _arrays(table: pa.Table) -> dict[str, pa.Array]:
    """Return the columns of a table by their names, each in one piece."""
    return {
        name: column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for name, column in zip(table.column_names, table.itercolumns(), strict=True)
    }


def _lists(sets: pa.Array) -> pa.Array:
    """Return sets of queries as lists of their ids."""
    ids, bounds = unpacked(sets)
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(ids))


def _epoch(run: Run) -> int:
    return run.epoch


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Stores of one name whose rows have the same columns."""

    several: bool
    expanded: bool
    stores: list[StoreState]


@lru_cache(maxsize=6)  # a manifest never changes, and every sink asks for the same one
def _queues(manifest: Manifest, fan_out: FanOut) -> dict[str, list[_Alike]]:
    """Find the stores of each feed's results; those with the same columns are together."""
    queues: dict[str, list[_Alike]] = {}
    for name in sorted(manifest.stores):
        found, store = answers_in(name), manifest.stores[name]
        if found is None or fan_out not in found[0]:
            continue
        groups, several = queues.setdefault(found[1], []), tells_queries_apart(name)
        expand = fan_out == "rows" and holds_sets(name)
        for group in groups:
            if group.stores[0].schema == store.schema and group.several == several:
                group.stores.append(store)
                break
        else:
            groups.append(_Alike(several, expand, [store]))
    return queues
