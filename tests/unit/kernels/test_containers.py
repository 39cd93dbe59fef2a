"""Containers: what is packed is unpacked, as a list or a bitmap, whichever is smaller."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.kernels.containers import pack_places, unpack_places

PLACES = st.sets(st.integers(0, 65_535) | st.integers(0, 40), min_size=1, max_size=60)


def packed(sets: list[set[int]]) -> tuple[np.ndarray, np.ndarray]:
    places = [place for each in sets for place in sorted(each)]
    bounds = np.cumsum([0, *(len(each) for each in sets)])
    return pack_places(np.array(places, np.uint16), bounds)


@given(st.lists(st.tuples(PLACES, st.integers(0, 9)), max_size=6), st.integers(0, 9))
@example([({0}, 0), (set(range(65_536)), 0), ({65_535}, 0)], 0)
@example([(set(range(16)), 0), (set(range(17)), 0)], 0)
def test_sets_are_read_back_but_for_those_that_are_too_old(
    given_sets: list[tuple[set[int], int]], begin: int
) -> None:
    sets, newest = [each for each, _ in given_sets], [time for _, time in given_sets]
    offsets, data = packed(sets)

    found = unpack_places(
        np.arange(len(sets), dtype=np.uint64),
        np.array([len(each) for each in sets], np.int32),
        offsets,
        data,
        np.array(newest, np.int64),
        begin,
    )

    expected = [
        number << 16 | place
        for number, each in enumerate(sets)
        if newest[number] >= begin
        for place in sorted(each)
    ]
    assert found.tolist() == expected


@given(PLACES)
def test_a_set_takes_the_smaller_of_two_forms(places: set[int]) -> None:
    offsets, data = packed([places])

    assert data.size == min(2 * len(places), max(places) // 8 + 1)
    assert offsets.tolist() == [0, data.size]
