"""What is heard of families: whatever the form, what queries tell that are not silent."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.engine.heard import Heard
from millrace.operators.query_sets import grouped, packed
from millrace.operators.relational.slab import Elements
from millrace.operators.relational.timed import rows_of

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), max_size=30)
SILENT = st.lists(st.integers(1, 6), max_size=3)


def told(pairs: list[tuple[int, int]], *, sets: bool) -> Elements:
    """Return what a family tells: a row is its number, and comes at ten times that."""
    rows, ids = (np.array([each[at] for each in pairs], np.int64) for at in (0, 1))
    whose = pa.array(ids)
    if sets:
        rows, ids, bounds = grouped(rows, ids, 5)
        whose = packed(ids, bounds)
    return Elements(rows_of([whose, pa.array(rows)], ["whose", "row"], len(rows)), rows * 10)


@given(pairs=PAIRS, silent=SILENT, sets=st.booleans())
def test_silent_queries_are_not_heard(
    *, pairs: list[tuple[int, int]], silent: list[int], sets: bool
) -> None:
    heard = Heard.of_family(told(pairs, sets=sets), 1, np.array(silent, np.int64))
    each = heard.by_query()

    rows, queries = each.rows.column("row").to_pylist(), each.keys.tolist()
    expected = Counter(pair for pair in pairs if pair[1] not in silent)
    assert Counter(zip(rows, queries, strict=True)) == expected
    assert each.times.tolist() == [row * 10 for row in rows]


@given(PAIRS, SILENT)
def test_no_set_is_empty(pairs: list[tuple[int, int]], silent: list[int]) -> None:
    heard = Heard.of_family(told(pairs, sets=True), 1, np.array(silent, np.int64))

    assert all(heard.sets().to_pylist())
    assert len(heard.sets()) == len(heard.times) == heard.rows.num_rows
    assert not heard.keys.any()


def test_one_query_tells_all_that_is_told() -> None:
    heard = Heard.of_one(told([(1, 0), (2, 0)], sets=False), 9)

    assert heard.keys.tolist() == [9, 9]
    assert heard.by_query() is heard
