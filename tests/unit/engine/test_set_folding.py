"""Folding sets of rows: fewer sets, and the same rows of each query."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.engine.set_folding import SMALL, folded_sets
from millrace.engine.stores import FOUND_COLUMNS
from millrace.kernels.containers import pack_places, unpack_places
from millrace.operators.keys import text_buffers
from millrace.state.order import ascending, sort_rows

RETAIN = 160

Given = tuple[int, int, int, set[int]]
SETS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 60),
        st.integers(0, 9),
        st.sets(st.integers(0, 99), min_size=1, max_size=SMALL + 3),
    ),
    max_size=20,
    unique_by=lambda each: (each[0], each[2]),
)


def stored(sets: list[Given]) -> pa.Table:
    places = np.array([place for each in sets for place in sorted(each[3])], np.uint16)
    bounds = np.cumsum([0, *(len(each[3]) for each in sets)])
    offsets, data = pack_places(places, bounds)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    columns = [
        pa.array([each[0] for each in sets], pa.uint64()),
        pa.array([each[1] for each in sets], pa.int64()),
        pa.array([each[2] for each in sets], pa.uint64()),
        pa.array([len(each[3]) for each in sets], pa.int32()),
        pa.Array.from_buffers(pa.binary(), len(sets), buffers),
    ]
    return sort_rows(pa.Table.from_arrays(columns, schema=FOUND_COLUMNS))


def members(table: pa.Table, begin: int = -1) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in table.combine_chunks().to_batches():
        for row in range(batch.num_rows):
            one = batch.slice(row, 1)
            key, time, block, count = (one.column(at).to_numpy() for at in range(4))
            rows = unpack_places(block, count, *text_buffers(one.column(4)), time, begin)
            found.setdefault(int(key[0]), []).extend(rows.tolist())
    return {key: sorted(each) for key, each in found.items() if each}


@given(SETS, SETS)
def test_folding_keeps_the_rows_of_each_query(first: list[Given], second: list[Given]) -> None:
    moved = [(key, time, block + 10, places) for key, time, block, places in second]

    once = folded_sets(stored(first), RETAIN)
    both = sort_rows(pa.concat_tables([once, stored(moved)]))
    twice = folded_sets(both, RETAIN)

    assert members(once) == members(stored(first))
    assert members(twice) == members(stored([*first, *moved]))
    assert ascending(twice.column("_key").to_numpy(), twice.column("_time").to_numpy())


@given(SETS)
def test_what_is_folded_expires_soon_after_its_rows(sets: list[Given]) -> None:
    folded = folded_sets(stored(sets), RETAIN)

    span = RETAIN // 16 + 1
    for key, time in zip(*(folded.column(at).to_pylist() for at in (0, 1)), strict=True):
        mine = [each for each in sets if each[0] == key and each[1] // span == time // span]
        assert max(each[1] for each in mine) >= time
    small = {(each[0], each[1] // span) for each in sets if len(each[3]) <= SMALL}
    n_small = sum(each <= SMALL for each in folded.column("n_rows").to_pylist())
    assert n_small == len(small)
