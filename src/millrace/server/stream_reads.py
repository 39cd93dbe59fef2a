"""Rows of a stream that a root keeps: its history, late rows and dead letters.

A tenant sees the late rows and dead letters of what it pushed itself: the source of a pushed batch
says whose it is.

Pieces are read from the newest on, until no other can hold a row that is among the newest: a few
rows of a long history are had without the rest of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.decide import horizons
from millrace.engine.settings import Settings
from millrace.engine.stores import DEAD_LETTERS, late_store, rows_store, store_specs
from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError
from millrace.reading.reader import Reader
from millrace.schema import TIMESTAMP
from millrace.server.principals import Principal
from millrace.state.merge import LAST_TIME
from millrace.state.order import KEY, TIME
from millrace.state.run import read_piece


def history(
    reader: Reader, spec: StreamSpec, *, begin: int | None, end: int | None, limit: int
) -> pa.Table:
    """Return retained rows of a window of time, the newest, oldest first."""
    if spec.retain is None:
        raise PlanError(
            f'stream "{spec.name}" keeps no history',
            hint="Declare it with RETAIN, such as RETAIN 1 hour.",
        )
    return _newest(reader, rows_store(spec), limit, begin=begin, end=end)


def late_rows(reader: Reader, spec: StreamSpec, who: Principal, limit: int) -> pa.Table:
    """Return the newest late rows that somebody sees."""
    return _newest(reader, late_store(spec), limit, lambda rows: _theirs(rows, "_source", who))


def dead_letters(reader: Reader, spec: StreamSpec, who: Principal, limit: int) -> pa.Table:
    """Return the newest dead letters of a stream that somebody sees."""

    def seen(rows: pa.Table) -> pa.Table:
        return _theirs(rows.filter(pc.equal(rows["stream"], spec.name)), "source", who)

    return _newest(reader, DEAD_LETTERS, limit, seen)


def source_of(who: Principal) -> str:
    """Return the source that batches of a tenant are known by."""
    return f"push/{who.tenant}"


def _theirs(table: pa.Table, column: str, who: Principal) -> pa.Table:
    if who.operator:
        return table
    return table.filter(pc.equal(table[column], source_of(who)))


def _newest(
    reader: Reader,
    store: str,
    limit: int,
    seen: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    *,
    begin: int | None = None,
    end: int | None = None,
) -> pa.Table:
    """Return the newest rows of a store that have not expired and are seen, oldest first."""
    manifest, catalog = reader.manifest, reader.catalog
    state = manifest.stores.get(store)
    schema = dict(store_specs(catalog))[store].schema if state is None else state.schema
    newest = _Newest(schema.empty_table().drop_columns([KEY]), limit)
    horizon = horizons(manifest, catalog, Settings().keep_rejected, time.time_ns() // 1_000)
    first = max(horizon.get(store, -LAST_TIME), -LAST_TIME if begin is None else begin)
    times = first, LAST_TIME if end is None else end
    runs = () if state is None else state.runs[::-1]
    pieces = [piece for run in runs for piece in run.pieces]
    for piece in sorted(pieces, key=lambda piece: piece.max_time, reverse=True):
        if piece.max_time < times[0] or piece.max_time <= newest.floor:
            break
        if piece.min_time < times[1]:
            names = newest.names
            newest.add(seen(read_piece(reader.root, piece, times=times, columns=names)))
    return newest.rows()


class _Newest:
    """The newest of the rows that were added, of which few more than wanted are kept.

    What is not later than `floor` is not among them.
    """

    def __init__(self, empty: pa.Table, limit: int) -> None:
        self.names: list[str] = empty.column_names
        self.floor = -LAST_TIME
        self._limit = limit
        self._kept, self._n_rows, self._most = [empty], 0, limit

    def add(self, rows: pa.Table) -> None:
        """Take up rows that were committed before those that were added."""
        self._kept.insert(0, rows)
        self._n_rows += rows.num_rows
        if self._n_rows >= self._most:
            cut = self._cut()
            self._kept, self._n_rows, self._most = [cut], cut.num_rows, 2 * self._limit
            self.floor = cut[TIME][0].as_py()

    def rows(self) -> pa.Table:
        """Return the newest, oldest first."""
        found = self._cut()
        return found.set_column(self.names.index(TIME), TIME, found[TIME].cast(TIMESTAMP))

    def _cut(self) -> pa.Table:
        whole = pa.concat_tables(self._kept)
        order = np.argsort(whole[TIME].to_numpy(), kind="stable")
        return whole.take(pa.array(order[max(len(order) - self._limit, 0) :]))
