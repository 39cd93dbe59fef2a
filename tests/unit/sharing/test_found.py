"""What is found of a join, step by step, against rows one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.sharing.codes import GREATEST, HIGHEST, LEAST, LOWEST
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Descriptors, Found, Pairs, Runs, expand
from millrace.sharing.queries import BandQueries, SelectQueries, WindowQueries
from millrace.sharing.stored import Stored

RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), max_size=12)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def stored_rows(n_rows: int) -> Stored:
    every = np.arange(n_rows)
    return Stored(ints(0, n_rows), every, every % 7, every + 100)


@pytest.mark.parametrize("timed", [False, True])
@given(spans=RUNS, most=st.integers(1, 25))
def test_runs_expand_to_their_rows_in_bounded_pieces(
    spans: list[tuple[int, int]], most: int, *, timed: bool
) -> None:
    stored = stored_rows(50)
    firsts = np.array([first for first, _ in spans], np.int64)
    stops = firsts + np.array([length for _, length in spans], np.int64)
    numbers = np.arange(len(spans))
    since = numbers % 5 if timed else None

    pieces = list(expand(Runs(numbers, numbers + 7, firsts, stops, since), stored, most))

    assert all(piece.places.size <= most for piece in pieces)
    rows = [tuple(row) for piece in pieces for row in np.transpose(piece).tolist()]
    assert rows == [
        (run, row + 100, run + 7)
        for run, (first, length) in enumerate(spans)
        for row in range(first, first + length)
        if not timed or row % 7 >= run % 5
    ]


class EverySecond:
    """Query q is affected by driver d if their sum is even; it joins q + 1 rows from q on."""

    def __init__(self) -> None:
        self.version = 0
        self.paired: list[int] = []

    def _pairs(self, drivers: Drivers) -> list[tuple[int, int]]:
        codes = enumerate(drivers.codes.tolist())
        return [(row, query) for row, code in codes for query in range(4) if (code + query) % 2 < 1]

    def describe(self, drivers: Drivers, stored: Stored) -> Descriptors:
        affected = self.pair(drivers, stored).drivers
        counts = np.bincount(affected, minlength=len(drivers)).astype(np.int32)
        rows, nothing = np.arange(len(drivers), dtype=np.int32), np.zeros(len(drivers), np.int32)
        return Descriptors(rows, nothing, counts, nothing)

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        self.paired.append(len(drivers))
        pairs = self._pairs(drivers)
        return Pairs(*np.array(pairs, np.int64).reshape(-1, 2).T)

    def reach(self, drivers: Drivers, stored: Stored, pairs: Pairs) -> Runs:
        return Runs(*pairs, pairs.queries, 2 * pairs.queries + 1)


def drivers_of(codes: list[int]) -> Drivers:
    nothing = np.zeros(len(codes), np.int64)
    return Drivers(nothing, np.array(codes, np.int64), nothing)


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 9))
def test_triples_are_the_rows_of_the_runs_wherever_the_drivers_are_cut(
    codes: list[int], most: int
) -> None:
    found = Found(EverySecond(), drivers_of(codes), stored_rows(20))

    pieces = list(found.triples(most))

    rows = [tuple(row) for piece in pieces for row in np.transpose(piece).tolist()]
    assert all(piece.places.size <= most for piece in pieces)
    assert rows == [
        (driver, 100 + query + step, query)
        for driver, code in enumerate(codes)
        for query in range(4)
        if (code + query) % 2 == 0
        for step in range(query + 1)
    ]


def test_triples_pair_no_more_drivers_at_a_time_than_fill_a_piece() -> None:
    finder = EverySecond()
    found = Found(finder, drivers_of([0] * 9), stored_rows(20))

    list(found.triples(4))

    assert finder.paired == [9, 2, 2, 2, 2, 1]  # all of them to be counted, then two pairs each


def test_what_was_found_is_void_when_queries_have_changed() -> None:
    finder = EverySecond()
    found = Found(finder, drivers_of([1]), stored_rows(20))

    finder.version += 1

    with pytest.raises(AssertionError, match="queries have changed"):
        found.pairs()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3), st.integers(0, 3)), max_size=30))
def test_stored_rows_ascend_by_code_and_time_in_their_segments(
    rows: list[tuple[int, int, int]],
) -> None:
    segments, codes, times = np.array(rows, np.int64).reshape(-1, 3).T

    stored = Stored.build(segments, codes, times, n_segments=6)

    assert stored.n_segments == 6
    for segment in range(6):
        first, stop = stored.starts[segment : segment + 2]
        here = [tuple(row) for row in np.transpose([stored.codes, stored.times])[first:stop]]
        assert here == sorted((code, time) for at, code, time in rows if at == segment)
        assert {rows[place][0] for place in stored.places[first:stop]} <= {segment}
        assert stored.lengths(ints(segment)).tolist() == [len(here)]
    assert stored.codes.tolist() == [rows[place][1] for place in stored.places]
    assert len(stored) == len(rows)


def test_no_range_holds_the_codes_that_are_no_value() -> None:
    least, greatest = ints(LEAST, 4, LEAST), ints(GREATEST, 2, LEAST)

    queries = SelectQueries(least, greatest, least, greatest)
    windows = WindowQueries(least, greatest, ints(1, 1, 1), ints(1, 1, 1), ints(0, -1, 5))
    bands = BandQueries(least, greatest)

    assert queries.stored_low.tolist() == queries.driver_low.tolist() == [LOWEST, 4, LOWEST]
    assert queries.stored_high.tolist() == queries.driver_high.tolist() == [HIGHEST, 2, LEAST]
    assert queries.nonempty().tolist() == bands.nonempty().tolist() == [True, False, False]
    assert windows.nonempty().tolist() == [True, False, False]
    assert len(queries) == len(windows) == len(bands) == 3


def test_drivers_are_cut_and_taken() -> None:
    drivers = Drivers(ints(0, 0, 2), ints(5, 6, 7), ints(1, 2, 3))

    assert drivers.cut(1, 3).codes.tolist() == [6, 7]
    assert drivers.take(drivers.codes != 6).segments.tolist() == [0, 2]
