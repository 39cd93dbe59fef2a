"""Intervals as they are stored: the row, from when it is there, until when, and how many times."""

from __future__ import annotations

import pyarrow as pa

from millrace.kernels.arrays import Hashes
from millrace.operators.relational.state import state_rows, state_schema
from millrace.operators.relational.timed import Timed, rows_of

_START = "_start"


def interval_schema(rows: pa.Schema) -> pa.Schema:
    """Return the columns of a store of such rows; their end is the time of a stored row."""
    return state_schema(pa.schema([*rows, pa.field(_START, pa.int64())]), "weight")


def interval_rows(timed: Timed, hashes: Hashes, rows: pa.Schema) -> pa.RecordBatch:
    """Return rows with their intervals as they are stored, by these keys."""
    columns = [*timed.rows.columns, pa.array(timed.starts)]
    started = rows_of(columns, [*rows.names, _START], len(timed))
    return state_rows(interval_schema(rows), hashes, timed.ends, started, timed.weights)


def intervals_in(stored: pa.RecordBatch, rows: pa.Schema) -> Timed:
    """Read what `interval_rows` wrote."""
    return Timed(
        stored.select(rows.names),
        stored.column(_START).to_numpy(),
        stored.column("_time").to_numpy(),
        stored.column("+weight").to_numpy(),
    )
