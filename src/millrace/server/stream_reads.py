"""Rows of a stream that a root keeps: its history, late rows and dead letters.

A tenant sees the late rows and dead letters of what it pushed itself: the source of a pushed batch
says whose it is.
"""

from __future__ import annotations

import time

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
from millrace.state.store import scan


def history(
    reader: Reader, spec: StreamSpec, *, begin: int | None, end: int | None, limit: int
) -> pa.Table:
    """Return retained rows of a window of time, the newest, oldest first."""
    if spec.retain is None:
        raise PlanError(
            f'stream "{spec.name}" keeps no history',
            hint="Declare it with RETAIN, such as RETAIN 1 hour.",
        )
    return _newest(_rows(reader, rows_store(spec), begin, end), limit)


def late_rows(reader: Reader, spec: StreamSpec, who: Principal, limit: int) -> pa.Table:
    """Return the newest late rows that somebody sees."""
    return _newest(_theirs(_rows(reader, late_store(spec)), "_source", who), limit)


def dead_letters(reader: Reader, spec: StreamSpec, who: Principal, limit: int) -> pa.Table:
    """Return the newest dead letters of a stream that somebody sees."""
    table = _rows(reader, DEAD_LETTERS)
    mine = table.filter(pc.equal(table["stream"], spec.name))
    return _newest(_theirs(mine, "source", who), limit)


def source_of(who: Principal) -> str:
    """Return the source that batches of a tenant are known by."""
    return f"push/{who.tenant}"


def _theirs(table: pa.Table, column: str, who: Principal) -> pa.Table:
    if who.operator:
        return table
    return table.filter(pc.equal(table[column], source_of(who)))


def _rows(reader: Reader, store: str, begin: int | None = None, end: int | None = None) -> pa.Table:
    """Return the rows of a store that have not expired."""
    manifest, catalog = reader.manifest, reader.catalog
    state = manifest.stores.get(store)
    if state is None:
        return dict(store_specs(catalog))[store].schema.empty_table().drop_columns(["_key"])
    now = time.time_ns() // 1_000
    horizon = horizons(manifest, catalog, Settings().keep_rejected, now)
    first = max(horizon.get(store, -LAST_TIME), -LAST_TIME if begin is None else begin)
    table = scan(reader.root, state, times=(first, LAST_TIME if end is None else end))
    return table.drop_columns(["_key"])


def _newest(table: pa.Table, limit: int) -> pa.Table:
    ordered = table.sort_by("_time")
    at = ordered.column_names.index("_time")
    ordered = ordered.set_column(at, "_time", ordered["_time"].cast(TIMESTAMP))
    return ordered.slice(max(ordered.num_rows - limit, 0))
