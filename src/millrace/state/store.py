"""Reading a store: its runs as one relation, by ranges of keys and times.

Cost: what lies outside the ranges is not read (pieces by their ends, blocks by their fences).
A sorted scan of several runs sorts once: about 0.1 s for a million rows of ten columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from millrace.state.order import KEY, TIME, sort_rows
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import Range, read_piece
from millrace.state.store_state import StoreState


def scan(
    root: Root,
    store: StoreState,
    *,
    keys: Range | None = None,
    times: Range | None = None,
    columns: Sequence[str] | None = None,
    taking: Callable[[pa.Table], pa.Table] = lambda table: table,
) -> pa.Table:
    """Give the rows of a store within half-open ranges, ascending by (key, time).

    Rows of one key and time come in the order in which they were committed. What is read passes
    `taking` piece by piece, which may raise.
    """
    names = store.schema.names if columns is None else list(columns)
    wanted = list(dict.fromkeys([KEY, TIME, *names]))
    parts = scan_unsorted(root, store, keys=keys, times=times, columns=wanted)
    tables = list(map(taking, parts))
    empty = pa.schema([store.schema.field(name) for name in wanted]).empty_table()
    return sort_rows(pa.concat_tables([empty, *tables])).select(names)


def scan_unsorted(
    root: Root,
    store: StoreState,
    *,
    keys: Range | None = None,
    times: Range | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """Give the same rows one piece at a time, each piece sorted, the oldest run first."""
    for run in store.runs:
        for piece in run.pieces:
            if _admitted(piece, keys, times):
                table = read_piece(root, piece, keys=keys, times=times, columns=columns)
                if table.num_rows:
                    yield table


def _admitted(piece: Piece, keys: Range | None, times: Range | None) -> bool:
    """Tell whether a piece may hold a row within the ranges."""
    if keys is not None and not (piece.low[0] < keys[1] and piece.high[0] >= keys[0]):
        return False
    return times is None or (piece.min_time < times[1] and piece.max_time >= times[0])
