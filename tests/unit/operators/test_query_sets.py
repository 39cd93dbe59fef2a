"""Sets of queries beside rows, against pairs of a row and a query, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.operators.query_sets import SETS, expanded, grouped, packed, rows_of_ids, unpacked

ANY = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), max_size=30)
PAIRS = ANY | ANY.map(sorted) | ANY.map(lambda pairs: sorted(set(pairs)))


def table_of(pairs: list[tuple[int, int]]) -> pa.Table:
    """Return rows with sets of queries, and a name for each row."""
    pair = np.array(pairs, np.int64).reshape(-1, 2)
    rows, ids, bounds = grouped(pair[:, 0].copy(), pair[:, 1].copy(), 5)
    keys = pa.array(np.zeros(len(rows), np.uint64))
    return pa.table({"_key": keys, "row": pa.array(rows), SETS: packed(ids, bounds)})


@given(PAIRS)
def test_sets_hold_each_pair_as_often_as_it_was_there(pairs: list[tuple[int, int]]) -> None:
    every = expanded(table_of(pairs), "_key")

    assert every.column_names == ["_key", "row"]
    found = zip(every["row"].to_pylist(), every["_key"].to_pylist(), strict=True)
    assert Counter(found) == Counter(pairs)


@given(PAIRS)
def test_a_row_stands_as_often_as_a_query_has_it_most(pairs: list[tuple[int, int]]) -> None:
    rows = Counter(table_of(pairs)["row"].to_pylist())

    most: Counter[int] = Counter()
    for (row, _), n_times in Counter(pairs).items():
        most[row] = max(most[row], n_times)
    assert rows == most


@given(PAIRS, st.integers(1, 6))
def test_one_query_gets_its_own_rows(pairs: list[tuple[int, int]], query: int) -> None:
    mine = expanded(table_of(pairs), "_key", query)

    assert {*mine["_key"].to_pylist()} <= {query}
    assert Counter(mine["row"].to_pylist()) == Counter(row for row, one in pairs if one == query)


@given(PAIRS, st.integers(0, 5), st.integers(0, 5))
def test_a_piece_of_a_column_is_read_like_a_whole_one(
    pairs: list[tuple[int, int]], first: int, n_rows: int
) -> None:
    sets = table_of(pairs)[SETS].combine_chunks()
    piece = sets.slice(min(first, len(sets)), n_rows)

    ids, bounds = unpacked(piece)

    assert packed(ids, bounds).to_pylist() == piece.to_pylist()
    assert len(rows_of_ids(bounds)) == len(ids)
