"""Row ids: the number of a row that answers are made of, and the key that a query's answers have.

    row id        epoch (29 bits) │ task (12 bits) │ how many the task had before (23 bits)
    block         all but the last 16 bits: up to 65,536 rows of one task and epoch, side by side

Ids depend on the input alone, so a task that is tried again gives the same, and rows ascend as
they come. Where sets of rows are kept by query, their key is the query's id turned by ten bits, so
that the ids of one registration, which follow each other, are spread over all buckets.
"""

from __future__ import annotations

import numpy as np

from millrace.errors import StoreError
from millrace.kernels.arrays import Hashes
from millrace.operators.keys import BUCKET_BITS

PLACE_BITS = 16
ORDINAL_BITS = 23
TASK_BITS = 12
EPOCH_SHIFT = TASK_BITS + ORDINAL_BITS
PLACES = 1 << PLACE_BITS
BACKFILL_TASK = (1 << TASK_BITS) - 1
"""The number of the task that answers history, which no source has."""

_TURN = np.uint64(BUCKET_BITS)
_BACK = np.uint64(64 - BUCKET_BITS)


def first_row_id(epoch: int, task: int) -> int:
    """Return the id of a task's first row."""
    assert task <= BACKFILL_TASK, "tasks with rows of a source were checked"
    if epoch >> (64 - EPOCH_SHIFT):
        raise StoreError(f"rows of epoch {epoch} cannot be numbered")
    return epoch << EPOCH_SHIFT | task << ORDINAL_BITS


def require_task(task: int) -> None:
    """Refuse a task of a source whose number is that of the task that answers history, or beyond.

    >>> require_task(BACKFILL_TASK - 1)
    """
    if task >= BACKFILL_TASK:
        raise StoreError(
            f"rows of task {task} cannot be numbered",
            detail=f"Rows are kept for queries of at most {BACKFILL_TASK:,} tasks in an epoch.",
            hint="Read the source in fewer partitions.",
        )


def require_ordinals(n_rows: int) -> None:
    """Refuse more rows of one task and epoch than can be numbered."""
    if n_rows >> ORDINAL_BITS:
        raise StoreError(
            f"a task keeps more than {1 << ORDINAL_BITS:,} rows of an epoch for queries",
            hint="Let an epoch read fewer rows.",
        )


def task_of_row(ids: Hashes) -> Hashes:
    """Return the number of the task that each row came by."""
    return (ids >> np.uint64(ORDINAL_BITS)) & np.uint64(BACKFILL_TASK)


def key_of_query(qids: Hashes) -> Hashes:
    """Return the key under which sets of rows are kept for queries.

    >>> qids = np.array([1, 2, 1024], np.uint64)
    >>> [hex(each) for each in key_of_query(qids).tolist()]
    ['0x40000000000000', '0x80000000000000', '0x1']
    >>> query_of_key(key_of_query(qids)).tolist()
    [1, 2, 1024]
    """
    return qids >> _TURN | qids << _BACK


def query_of_key(keys: Hashes) -> Hashes:
    """Return the queries of keys."""
    return keys << _TURN | keys >> _BACK
