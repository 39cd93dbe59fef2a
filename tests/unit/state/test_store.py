"""Scanning a store against filtering and sorting a list of rows."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.state.memory_root import MemoryRoot
from millrace.state.order import sort_rows
from millrace.state.piece import KEYS
from millrace.state.run import write_runs
from millrace.state.store import scan, scan_unsorted
from millrace.state.store_state import StoreSpec, StoreState

SCHEMA = pa.schema([("_key", pa.uint64()), ("_time", pa.int64()), ("serial", pa.int64())])
KEY = st.integers(0, 6) | st.just(KEYS - 1)
TIME = st.integers(-5, 5)
RUNS = st.lists(st.lists(st.tuples(KEY, TIME), min_size=1, max_size=12), max_size=6)
Row = tuple[int, int, int]


def stored(runs: list[list[tuple[int, int]]]) -> tuple[MemoryRoot, StoreState, list[Row]]:
    """Write each list as a run; give the rows too, in the order of arrival."""
    root, state = MemoryRoot(), StoreState(StoreSpec(SCHEMA))
    rows: list[Row] = []
    for epoch, places in enumerate(runs):
        fresh = [(*place, len(rows) + at) for at, place in enumerate(places)]
        rows += fresh
        columns = zip(zip(*fresh, strict=True), SCHEMA, strict=True)
        table = pa.table([pa.array(each, kind.type) for each, kind in columns], schema=SCHEMA)
        pieces = write_runs(root, {"r": sort_rows(table)}, epoch=epoch, buckets=(0, 1024))
        state = state.with_run(list(pieces.values()), epoch)
    return root, state, rows


def rows_of(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@settings(max_examples=80)
@given(
    RUNS,
    st.none() | st.tuples(KEY, KEY | st.just(KEYS)),
    st.none() | st.tuples(TIME, TIME | st.just(1 << 63)),
)
def test_a_scan_is_a_filter_and_a_stable_sort(
    runs: list[list[tuple[int, int]]],
    keys: tuple[int, int] | None,
    times: tuple[int, int] | None,
) -> None:
    root, state, rows = stored(runs)

    low_key, high_key = keys or (0, KEYS)
    low_time, high_time = times or (-100, 100)
    within = [
        row for row in rows if low_key <= row[0] < high_key and low_time <= row[1] < high_time
    ]
    expected = sorted(within, key=lambda row: row[:2])
    assert rows_of(scan(root, state, keys=keys, times=times)) == expected
    unsorted = list(scan_unsorted(root, state, keys=keys, times=times))
    assert sorted(row for table in unsorted for row in rows_of(table)) == sorted(within)
    assert all(table.num_rows for table in unsorted)


def test_columns_may_leave_key_and_time_out() -> None:
    root, state, _ = stored([[(5, 1), (3, 2)], [(4, 0)]])

    assert scan(root, state, columns=["serial"]).to_pydict() == {"serial": [1, 2, 0]}


def test_an_empty_store_gives_an_empty_table() -> None:
    root, state, _ = stored([])

    assert scan(root, state).schema == SCHEMA
    assert scan(root, state, columns=["serial"]).column_names == ["serial"]
