"""Words of bits and cells against their definitions in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from millrace.index.access.cells import cut_points, direct_cells
from millrace.kernels.arrays import Bits, Ints
from millrace.kernels.box_bits import add_columns, count_ones, grown, lowest_one
from millrace.kernels.box_cells import NULL_CODE, find_cells
from millrace.kernels.box_table import toggle

WORDS = st.integers(0, 2**64 - 1)
LEAST, LAST = NULL_CODE + 2, 2**63 - 3
VALUES = st.integers(-20, 20) | st.sampled_from([LEAST, LAST])


@njit(nogil=True)
def ones_and_lowest(words: Bits) -> tuple[Ints, Ints]:
    ones, lowest = np.empty(words.size, np.int64), np.empty(words.size, np.int64)
    for each in range(words.size):
        ones[each], lowest[each] = count_ones(words[each]), lowest_one(words[each])
    return ones, lowest


@given(st.lists(WORDS | st.integers(0, 63).map(lambda bit: 1 << bit)))
def test_ones_are_counted_and_the_lowest_is_found(words: list[int]) -> None:
    ones, lowest = ones_and_lowest(np.array(words, np.uint64))

    assert ones.tolist() == [word.bit_count() for word in words]
    assert lowest.tolist() == [(word & -word).bit_length() - 1 if word else 64 for word in words]


@pytest.mark.parametrize("density", [0.0, 0.01, 0.03, 0.5, 1.0])
@pytest.mark.parametrize("n_boxes", [1, 63, 64, 100])
def test_columns_of_a_square_are_added_up(density: float, n_boxes: int) -> None:
    random = np.random.default_rng(3)
    bits = random.random((64, 64)) < density
    bits[:, min(n_boxes, 64) :] = False
    square = np.packbits(bits, axis=1, bitorder="little").view(np.uint64).ravel().copy()
    ids = random.permutation(n_boxes).astype(np.int32)
    counts = np.full(n_boxes, 5, np.int32)

    add_columns(square, ids, 0, counts)

    expected = np.full(n_boxes, 5, np.int64)
    expected[ids[:64]] += bits.sum(axis=0)[: min(n_boxes, 64)]
    assert counts.tolist() == expected.tolist()


def test_a_buffer_grows_to_twice_its_size_or_to_what_is_needed() -> None:
    buffer = np.arange(4, dtype=np.int32)

    assert grown(buffer, 3, 5).size == 8
    assert grown(buffer, 3, 50).size == 50
    assert grown(buffer, 3, 5)[:3].tolist() == [0, 1, 2]


@given(
    cuts=st.sets(VALUES | st.just(NULL_CODE + 1), min_size=1),
    codes=st.lists(VALUES | st.just(NULL_CODE)),
)
def test_a_cell_is_the_number_of_cuts_not_above(cuts: set[int], codes: list[int]) -> None:
    points = np.array(sorted(cuts), np.int64)
    column = np.array(codes, np.int64)
    expected = [sum(cut <= code for cut in cuts) for code in codes]

    assert find_cells(column, points, direct_cells(points)).tolist() == expected
    assert find_cells(column, points, np.empty(0, np.int32)).tolist() == expected


def test_close_cuts_have_a_table_and_distant_ones_have_not() -> None:
    assert direct_cells(np.array([NULL_CODE + 1, 10, 12])).tolist() == [2, 2]
    assert direct_cells(np.array([10, 12])).tolist() == [1, 1]
    assert direct_cells(np.array([10, 10**6])).size == 0
    assert direct_cells(np.array([LEAST, LAST])).size == 0


def test_cut_points_are_where_an_interval_begins_or_has_ended() -> None:
    low, high = np.array([NULL_CODE, 5, 9]), np.array([7, 2**63 - 1, 9])

    assert cut_points(low, high).tolist() == [5, 8, 9, 10]


def test_toggles_set_each_box_on_its_lines() -> None:
    table = np.zeros((4, 2), np.uint64)
    firsts = np.zeros(70, np.int32)
    stops = np.zeros(70, np.int32)
    firsts[[0, 69]], stops[[0, 69]] = (1, 2), (3, 4)

    toggle(table, firsts, stops)

    assert [int(word) & 1 for word in table[:, 0]] == [0, 1, 1, 0]
    assert [int(word) >> 5 & 1 for word in table[:, 1]] == [0, 0, 1, 1]
