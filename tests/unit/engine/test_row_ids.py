"""Row ids: they ascend as rows come, and what cannot be numbered is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engine.row_ids import (
    BACKFILL_TASK,
    EPOCH_SHIFT,
    ORDINAL_BITS,
    TASK_BITS,
    first_row_id,
    key_of_query,
    query_of_key,
    require_ordinals,
    require_task,
)
from millrace.errors import StoreError
from millrace.operators.keys import bucket_of

EPOCHS, TASKS = st.integers(0, (1 << 29) - 2), st.integers(0, (1 << TASK_BITS) - 2)


@given(EPOCHS, TASKS)
def test_ids_ascend_by_epoch_and_then_by_task(epoch: int, task: int) -> None:
    first = first_row_id(epoch, task)

    last = first + (1 << ORDINAL_BITS) - 1
    assert last < first_row_id(epoch, task + 1)
    assert last < first_row_id(epoch + 1, 0)
    assert last >> EPOCH_SHIFT == epoch
    assert last < 1 << 64


def test_what_cannot_be_numbered_is_refused() -> None:
    with pytest.raises(StoreError, match="cannot be numbered"):
        first_row_id(1 << 29, 0)
    with pytest.raises(StoreError, match="cannot be numbered"):
        require_task(BACKFILL_TASK)
    with pytest.raises(StoreError, match="a task keeps more than"):
        require_ordinals(1 << ORDINAL_BITS)


def test_queries_that_follow_each_other_are_spread_over_buckets() -> None:
    qids = np.arange(5_000, 5_000 + 1_024, dtype=np.uint64)

    keys = key_of_query(qids)

    assert sorted(bucket_of(keys).tolist()) == list(range(1_024))
    assert (query_of_key(keys) == qids).all()
