"""Folding sets of rows: many small sets of a query become one when runs are merged.

A query that has a row in every other epoch has as many sets of one row, of 36 bytes each. Where
such sets of a query meet in a merge they become one that lists whole row ids, of 8 bytes each; its
size is told as a negative number. Only sets of about one time are folded, a sixteenth of the
retention, so that a set still expires soon after its rows.

Invariant: the rows of each query are the same before and after.
Cost: about 50 ns a set; after a few merges a query has some 16 sets for all its sparse rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.engine.stores import FOUND_COLUMNS
from millrace.kernels.arrays import Bools
from millrace.kernels.containers import unpack_places
from millrace.operators.keys import read_only, text_buffers
from millrace.state.order import sort_rows

SMALL = 8
TIMES_IN_RETENTION = 16


def folded_sets(sets: pa.Table, retain: int) -> pa.Table:
    """Fold what is small; the rows of `sets` are in the order of a run, and so is the result."""
    if sets.num_rows < 2:
        return sets
    keys, times = sets.column("_key").to_numpy(), sets.column("_time").to_numpy()
    small = sets.column("n_rows").to_numpy() <= SMALL
    spans = times // (retain // TIMES_IN_RETENTION + 1)
    at = np.flatnonzero(small)
    new = np.ones(at.size, np.bool_)
    new[1:] = (keys[at[1:]] != keys[at[:-1]]) | (spans[at[1:]] != spans[at[:-1]])
    if new.all():
        return sets
    if small.all():
        return _together(sets, new)
    folded = _together(sets.filter(pa.array(small)), new)
    return sort_rows(pa.concat_tables([sets.filter(pa.array(~small)), folded]))


def _together(sets: pa.Table, new: Bools) -> pa.Table:
    """Make one set of those from one that is new to the next."""
    [batch] = sets.combine_chunks().to_batches()
    counts, times = (batch.column(name).to_numpy() for name in ("n_rows", "_time"))
    blocks = batch.column("block").to_numpy()
    packed = text_buffers(batch.column("places"))
    arrays = read_only(blocks), read_only(counts), *packed, read_only(times)
    ids = unpack_places(*arrays, int(times.min()))
    starts = np.flatnonzero(new)
    sizes = np.add.reduceat(np.abs(counts).astype(np.int64), starts)
    offsets = np.concatenate(([0], np.cumsum(8 * sizes))).astype(np.int32)
    places = pa.Array.from_buffers(
        pa.binary(), starts.size, [None, pa.py_buffer(offsets), pa.py_buffer(ids)]
    )
    columns = [
        pa.array(batch.column("_key").to_numpy()[starts]),
        pa.array(np.maximum.reduceat(times, starts)),
        pa.array(np.minimum.reduceat(blocks, starts)),
        pa.array(-sizes.astype(np.int32)),
        places,
    ]
    return pa.Table.from_arrays(columns, schema=FOUND_COLUMNS)
