"""Band joins over ranges: every pair that a query takes meets in exactly one slot."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.kernels.arrays import Numbers
from millrace.operators.keys import bucket_of, hash_array, shard_of
from millrace.sharing.halo import FEW_SLOTS, SLOTS, Cells, slot_keys
from millrace.testing.oracle.band_joins import Number, in_band

WHOLE = st.integers(-30, 30) | st.sampled_from(
    [2**62 - 1, -(2**62) + 1, 2**53 + 1, 2**63 - 1, -(2**63)]
)
TENTHS = st.integers(-40, 40).map(lambda tenths: tenths / 10) | st.sampled_from(
    [1e300, -1e300, 1.7e308, 0.1 + 0.2, -0.0, math.inf, -math.inf, math.nan]
)
WIDTHS = st.sampled_from([1, 3, 7, 1000, 0.1, 0.3, 2.5, 1e-3, 0, 1e300])
ENDS = st.integers(-20, 20)
TENTH_ENDS = st.integers(-30, 30).map(lambda tenths: tenths / 10) | st.sampled_from(
    [math.inf, -1e9, 1.7e308]
)
FAR_ENDS = ENDS | st.sampled_from([2**61, -(2**62), 1e308, -1e308])


def sides(numbers: st.SearchStrategy[Number], ends: st.SearchStrategy[Number]) -> Any:
    rows = st.lists(numbers, max_size=8)
    return st.tuples(rows, rows, st.tuples(ends, ends))


@given(sides(WHOLE, FAR_ENDS) | sides(TENTHS, TENTH_ENDS), WIDTHS, st.sampled_from([1, 2, 8, 64]))
@example(([math.inf], [1.7e308], (0.0, 1.7e308)), 1, 8)
def test_every_pair_meets_exactly_once(case: Any, width: float, n_slots: int) -> None:
    anchors, others, band = case
    cells = Cells(width, n_slots)

    home = cells.home(_numbers(anchors))
    rows, slots = cells.copies(_numbers(others), *band)

    met = Counter(
        (at, int(row))
        for row, slot in zip(rows, slots, strict=True)
        for at in np.flatnonzero(home == slot).tolist()
        if in_band(band, anchors[at], others[row])
    )
    wanted = {
        (at, row)
        for at, anchor in enumerate(anchors)
        for row, other in enumerate(others)
        if in_band(band, anchor, other)
    }
    assert met == Counter(dict.fromkeys(wanted, 1))


def _numbers(values: list[Number]) -> Numbers:
    whole = all(isinstance(each, int) for each in values)
    return np.array(values, np.int64) if whole else np.array(values, np.float64)


def test_a_row_is_copied_into_what_it_reaches_and_no_more() -> None:
    rows, slots = Cells(10).copies(np.array([15, 40, 20]), -3, 12)

    assert list(zip(rows.tolist(), slots.tolist(), strict=True)) == [
        *((0, 1), (0, 2)),
        *((1, 3), (1, 4), (1, 5)),
        *((2, 1), (2, 2), (2, 3)),
    ]


def test_whole_numbers_at_the_end_of_a_range_do_not_reach_the_next() -> None:
    rows, slots = Cells(10).copies(np.array([10, 19]), 0, 0)

    assert (rows.tolist(), slots.tolist()) == ([0, 1], [1, 1])


def test_what_reaches_too_far_is_copied_into_every_slot_once() -> None:
    for low, high in ((-500, 500), (-50, math.inf)):
        rows, slots = Cells(1, 8).copies(np.array([0, 5]), low, high)

        assert rows.tolist() == [0] * 8 + [1] * 8
        assert sorted(slots[:8].tolist()) == list(range(8))


def test_nothing_is_copied_where_there_are_no_bands() -> None:
    rows, slots = Cells(1).copies(np.array([5]), 1, 0)

    assert rows.size == slots.size == 0


def test_equal_numbers_are_in_one_slot() -> None:
    for width in (0.0, 2.5):
        home = Cells(width).home(np.array([0.0, -0.0, math.nan, -math.nan]))

        assert home[0] == home[1]
        assert home[2] == home[3]


def test_slots_lie_evenly_over_shards_and_neighbours_apart() -> None:
    for n_slots in (FEW_SLOTS, SLOTS):
        hashes = hash_array(pa.array(slot_keys(n_slots)))

        assert len({*bucket_of(hashes).tolist()}) == n_slots
        for shards in ((0, 512, 1024), (0, 256, 512, 768, 1024)):
            owners = shard_of(hashes, shards)
            assert {*np.bincount(owners).tolist()} == {n_slots // (len(shards) - 1)}
            assert (owners[:-1] != owners[1:]).all()


def test_keys_of_slots_never_change() -> None:
    assert slot_keys(FEW_SLOTS).tolist() == [152, 1, 50, 27, 4, 197, 22, 31]
