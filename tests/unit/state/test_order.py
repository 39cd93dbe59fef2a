"""The order of a run, against sorting a list."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.errors import SchemaError
from millrace.state.order import ascending, check_schema, lower_bound, sort_rows
from millrace.state.piece import KEYS

EXTREME_KEYS = st.integers(0, 3) | st.sampled_from([KEYS - 1, KEYS - 2, 1 << 63])
EXTREME_TIMES = st.integers(-2, 2) | st.sampled_from([-(1 << 63), (1 << 63) - 1])
ROWS = st.lists(st.tuples(EXTREME_KEYS, EXTREME_TIMES))


def table_of(rows: list[tuple[int, int]]) -> pa.Table:
    keys = pa.array([key for key, _ in rows], pa.uint64())
    times = pa.array([time for _, time in rows], pa.int64())
    return pa.table({"_key": keys, "_time": times, "arrival": pa.array(range(len(rows)))})


@given(ROWS)
@example([(1, 2), (0, 5), (1, 1), (1, 2), (0, 5)])
def test_rows_are_sorted_and_equal_ones_keep_their_order(rows: list[tuple[int, int]]) -> None:
    found = sort_rows(table_of(rows))

    expected = sorted(((*row, arrival) for arrival, row in enumerate(rows)), key=lambda r: r[:2])
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == expected


@given(ROWS)
def test_a_descent_is_seen(rows: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in rows], np.uint64)
    times = np.array([time for _, time in rows], np.int64)

    assert ascending(keys, times) == (rows == sorted(rows))


@given(ROWS, st.tuples(EXTREME_KEYS | st.just(KEYS), EXTREME_TIMES | st.just(1 << 63)))
def test_the_lower_bound_is_that_of_a_list(
    rows: list[tuple[int, int]], position: tuple[int, int]
) -> None:
    rows.sort()
    keys = np.array([key for key, _ in rows], np.uint64)
    times = np.array([time for _, time in rows], np.int64)

    assert lower_bound(keys, times, position) == bisect_left(rows, position)


def test_key_and_time_come_first() -> None:
    with pytest.raises(SchemaError, match="the first two columns of a run") as caught:
        check_schema(pa.schema([("_time", pa.int64()), ("_key", pa.uint64())]))
    assert "_time: int64" in caught.value.detail


def test_a_dictionary_column_is_refused_with_the_cast_to_make() -> None:
    encoded = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("_key", pa.uint64()), ("_time", pa.int64()), ("symbol", encoded)])

    with pytest.raises(SchemaError, match='column "symbol" of a run is dictionary-enc') as caught:
        check_schema(schema)
    assert "Cast it to string" in caught.value.hint
