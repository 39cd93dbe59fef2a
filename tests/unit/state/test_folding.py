"""Folding: what adds up to the same is the same."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.state.folding import folded

ROW = st.tuples(
    st.integers(0, 2), st.sampled_from([50, 60]), st.sampled_from(["a", None]), st.integers(0, 9),
    st.integers(-2, 2),
)  # fmt: skip
HORIZON = 5


def table(rows: list[tuple[int, int, str | None, int, int]]) -> pa.Table:
    names = ["_key", "_time", "v", "_start", "+n"]
    kinds = [pa.uint64(), pa.int64(), pa.string(), pa.int64(), pa.int64()]
    columns = [[row[at] for row in rows] for at in range(5)]
    return pa.table(
        [pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)], names=names
    )


def read(rows: pa.Table) -> Counter[tuple[object, ...]]:
    """Add up as a reader does who looks from the horizon on."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in rows.to_pylist():
        *others, start, count = row.values()
        found[(*others, max(start, HORIZON))] += count
    return Counter({key: count for key, count in found.items() if count})


@given(st.lists(ROW, max_size=12))
def test_a_reader_finds_the_same(rows: list[tuple[int, int, str | None, int, int]]) -> None:
    before = table(sorted(rows, key=lambda row: row[:2]))
    after = folded(before, HORIZON)

    assert read(after) == read(before)
    assert after.num_rows == len(read(before))
    assert after.schema == before.schema
    keys, times = (after.column(name).to_pylist() for name in ("_key", "_time"))
    positions = list(zip(keys, times, strict=True))
    assert positions == sorted(positions)
