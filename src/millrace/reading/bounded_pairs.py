"""Which rows answer queries, found in bounded parts: for readings that may be too large.

Sets of rows are unpacked some at a time, and the rows that are within the window counted; what is
beyond the room ends the reading. If only the newest are wanted, the others are let go on the way.

Cost: about twice that of finding all pairs at once, and 24 bytes for each pair within the room.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from millrace.engine.policies import Stretch
from millrace.engine.row_ids import EPOCH_SHIFT, key_of_query, query_of_key
from millrace.kernels.arrays import Bools, Hashes
from millrace.kernels.containers import unpack_places
from millrace.kernels.sorted_keys import distinct
from millrace.operators.keys import read_only, text_buffers
from millrace.reading.room import Wanted
from millrace.state.lookup import lookup
from millrace.state.manifest import StoreState
from millrace.state.root import Root
from millrace.state.run import Range, read_keys

MEMBERS_AT_ONCE = 1 << 18

_EPOCHS = np.uint64(EPOCH_SHIFT)


def pairs_within(
    root: Root,
    stores: tuple[StoreState, StoreState],
    qids: Hashes,
    stretch: Stretch,
    wanted: Wanted,
) -> tuple[Hashes, Hashes]:
    """Return queries and the ids of rows that answer them; if wanted, of the last epochs alone.

    `stores` are those of sets and of rows. The wanted times are the first and the last instant.
    """
    found, seen = stores
    times, last = wanted.times, wanted.last
    owners, ids = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    for sets in _sets(root, found, qids, times[0]):
        for some in _slices(sets):
            mine, rows = _members(some, times[0])
            epochs = rows >> _EPOCHS
            good = (epochs >= np.uint64(stretch.first)) & (epochs < np.uint64(stretch.stop))
            good &= np.isin(rows, _there(root, seen, distinct(rows[good]), times))
            owners, ids = np.append(owners, mine[good]), np.append(ids, rows[good])
            if last:
                newest = _newest(ids, last)
                owners, ids = owners[newest], ids[newest]
            else:
                wanted.room.require_rows(ids.size)
            wanted.room.require_time()
    return owners, ids


def _there(root: Root, seen: StoreState, ids: Hashes, times: Range) -> Hashes:
    """Return those rows that are within a window."""
    rows = lookup(root, seen).take(ids, ("_key", "_time"), begin=times[0], latest=times[1])
    found: Hashes = rows.column(0).to_numpy()
    return found


def _newest(ids: Hashes, last: int) -> Bools:
    """Say which rows are of the epochs of the last."""
    if ids.size <= last:
        return np.ones(ids.size, np.bool_)
    found: Bools = ids >> _EPOCHS >= np.partition(ids, -last)[-last] >> _EPOCHS
    return found


def _sets(root: Root, found: StoreState, qids: Hashes, begin: int) -> Iterator[pa.Table]:
    """Yield the sets of some queries, piece by piece."""
    keys = np.sort(key_of_query(qids))
    for run in found.runs:
        for piece in run.pieces:
            sets = read_keys(root, piece, keys, begin - 1)
            if sets.num_rows:
                yield sets


def _slices(sets: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield sets that have about so many members together."""
    for batch in sets.to_batches():
        sizes = np.cumsum(np.abs(batch.column("n_rows").to_numpy().astype(np.int64)))
        places = np.searchsorted(sizes, np.arange(0, sizes[-1], MEMBERS_AT_ONCE))
        cuts = np.unique([*places.tolist(), batch.num_rows]).tolist()
        for first, stop in zip([0, *cuts], cuts, strict=False):
            if stop > first:
                yield batch.slice(first, stop - first)


def _members(sets: pa.RecordBatch, begin: int) -> tuple[Hashes, Hashes]:
    """Return the queries and the ids of rows of sets."""
    keys, blocks, counts, times = (
        sets.column(name).to_numpy() for name in ("_key", "block", "n_rows", "_time")
    )
    packed = text_buffers(sets.column("places"))
    ids = unpack_places(read_only(blocks), read_only(counts), *packed, read_only(times), begin)
    return np.repeat(query_of_key(keys), np.abs(counts)), ids
