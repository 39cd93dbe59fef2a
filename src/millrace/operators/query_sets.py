"""Sets of queries beside rows: a row that many queries are told stands once, with their ids.

    row 0   [3, 7, 9]         ids      3 7 9 7          eight bytes each, ascending in a set
    row 1   [7]               bounds   0     3 4        where each set begins, and the last ends

As a column a set is the bytes of its ids, so that rows with equal ones are equal, sort and merge
like any others. A reader who wants a row for each query gets them `expanded`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Hashes, Ints
from millrace.kernels.grouping import ascend, firsts_of, order_by

SETS = "_queries"
"""The column that holds them."""
ID_BYTES = 8


def packed(ids: Ints | Hashes, bounds: Ints) -> pa.Array:
    """Return sets as a column."""
    assert ids.itemsize == ID_BYTES, "ids are as wide as they are stored"
    offsets = pa.py_buffer((bounds * ID_BYTES).astype(np.int32))
    data = pa.py_buffer(np.ascontiguousarray(ids).view(np.int64))
    return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, offsets, data])


def unpacked(sets: pa.Array) -> tuple[Ints, Ints]:
    """Return the ids of sets, and their bounds.

    >>> [each.tolist() for each in unpacked(packed(np.array([3, 7, 7]), np.array([0, 2, 3])))]
    [[3, 7, 7], [0, 2, 3]]
    """
    if not len(sets):
        return np.zeros(0, np.int64), np.zeros(1, np.int64)
    _, offsets, data = sets.buffers()
    places = np.frombuffer(offsets, np.int32)[sets.offset : sets.offset + len(sets) + 1]
    bounds = places.astype(np.int64) // ID_BYTES
    ids: Ints = np.frombuffer(data, np.int64)[bounds[0] : bounds[-1]]
    return ids, bounds - bounds[0]


def rows_of_ids(bounds: Ints) -> Ints:
    """Return of which row each id is; in four bytes, since there may be millions."""
    return np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))


def expanded(rows: pa.Table, key: str, query: int | None = None) -> pa.Table:
    """Return a row for each id in the sets of rows, or for one query; the id becomes `key`."""
    place = rows.column_names.index(key)
    sets, rows = rows.column(SETS), rows.drop_columns([key, SETS])
    ids, bounds = unpacked(sets.chunk(0) if sets.num_chunks == 1 else sets.combine_chunks())
    at = rows_of_ids(bounds)
    if query is not None:
        mine = np.flatnonzero(ids == query)
        ids, at = ids[mine], at[mine]
    return rows.take(pa.array(at)).add_column(place, key, pa.array(ids.view(np.uint64)))


def grouped(rows: Ints, ids: Ints, n_rows: int) -> tuple[Ints, Ints, Ints]:
    """Make sets of pairs of a row and an id; return the row of each set, the ids, and the bounds.

    A pair that is there several times is in as many sets of its row: the first is of all that are
    there once or more, the second of those that are there twice or more.

    >>> [each.tolist() for each in grouped(np.array([1, 0, 1, 1]), np.array([5, 5, 3, 5]), 2)]
    [[0, 1, 1], [5, 3, 5, 5], [0, 1, 3, 4]]
    """
    if not len(rows):
        return rows, ids, np.zeros(1, np.int64)
    if ascend(rows, ids):  # as lineage gives them
        firsts = np.flatnonzero(firsts_of(rows))
        return rows[firsts], ids, np.append(firsts, len(ids))
    order = order_by(rows, ids, n_rows)
    rows, ids = rows[order], ids[order]
    copies = _copies(rows, ids)
    if copies.any():
        order = np.lexsort((ids, copies, rows))
        rows, ids, copies = rows[order], ids[order], copies[order]
    other = (rows[1:] != rows[:-1]) | (copies[1:] != copies[:-1])
    firsts = np.flatnonzero(np.concatenate(([True], other)))
    return rows[firsts], ids, np.append(firsts, len(ids))


def _copies(rows: Ints, ids: Ints) -> Ints:
    """Return how many equal pairs are before each, of pairs that are in order."""
    places = np.arange(len(rows))
    again = np.concatenate(([False], (rows[1:] == rows[:-1]) & (ids[1:] == ids[:-1])))
    begins = np.maximum.accumulate(np.where(again, 0, places))
    found: Ints = places - begins
    return found
