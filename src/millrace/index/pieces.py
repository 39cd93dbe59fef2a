"""Pieces of a batch: so many rows that the pairs they make with queries fit into memory.

Where most rows satisfy many queries, pairs are far more than rows. How many there will be is not
known before some rows were matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

SAMPLE_ROWS = 64
PAIRS_AT_ONCE = 1 << 16
"""How many pairs of rows and queries are looked at together, about; their answers take 4 MB."""


def pieces(batch: pa.RecordBatch, n_rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces; if one is enough, that is the batch itself."""
    if n_rows >= batch.num_rows:
        yield batch
        return
    for first in range(0, batch.num_rows, n_rows):
        yield batch.slice(first, n_rows)


def rows_at_once(
    batch: pa.RecordBatch, n_queries: int, n_pairs_of: Callable[[pa.RecordBatch], int]
) -> int:
    """Say how many rows of a batch have about `PAIRS_AT_ONCE` pairs.

    If there are so many queries that they could be more, some rows are matched to see: as many as
    cannot have too many pairs, and then ever more of them.
    """
    n_rows: int = batch.num_rows
    if n_queries * n_rows <= PAIRS_AT_ONCE:
        return n_rows
    n_sampled, n_pairs = 0, 0
    while n_sampled < min(SAMPLE_ROWS, n_rows) and n_pairs <= PAIRS_AT_ONCE // 8:
        safe = PAIRS_AT_ONCE // n_queries
        n_sampled = min(max(1, safe, 8 * n_sampled), SAMPLE_ROWS, n_rows)
        at = np.arange(n_sampled) * n_rows // n_sampled
        n_pairs = n_pairs_of(batch.take(pa.array(at)))
    return max(1, PAIRS_AT_ONCE * n_sampled // max(1, n_pairs))
