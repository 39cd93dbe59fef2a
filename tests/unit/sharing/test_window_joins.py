"""Window joins by every strategy, against every query asked of every pair of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.sharing.codes import GREATEST, LEAST
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Found, Triples
from millrace.sharing.queries import WindowQueries
from millrace.sharing.stored import Stored
from millrace.sharing.window.join import AnyOrder, WindowJoin
from millrace.sharing.window.meeting import Side, meet_both, mirrored
from millrace.sharing.window.strategies import PRICES, STRATEGIES
from millrace.testing.oracle.window_joins import Row, WindowQuery, window_triples

N_KEYS = 2
NOW = 100

CODES = st.integers(0, 12)
ENDS = CODES | st.sampled_from([LEAST, GREATEST])
SIZES = st.integers(-1, 12) | st.sampled_from([0, 100, GREATEST])
EVERYTHING: WindowQuery = (LEAST, GREATEST, LEAST, GREATEST, GREATEST)
QUERIES = st.lists(st.tuples(ENDS, ENDS, ENDS, ENDS, SIZES), max_size=14)


def rows_within(first: int, last: int) -> st.SearchStrategy[list[Row]]:
    row = st.tuples(st.integers(0, N_KEYS - 1), CODES, st.integers(first, last))
    return st.lists(row, max_size=14)


OLD, NEW = rows_within(NOW - 15, NOW), rows_within(NOW, NOW + 5)


def drivers_of(rows: list[Row]) -> Drivers:
    return Drivers(*np.array(rows, np.int64).reshape(-1, 3).T)


def stored_of(rows: list[Row]) -> Stored:
    segments, codes, times = np.array(rows, np.int64).reshape(-1, 3).T
    return Stored.build(segments, codes, times, n_segments=N_KEYS)


def queries_of(queries: list[WindowQuery]) -> WindowQueries:
    return WindowQueries(*np.array(queries, np.int64).reshape(-1, 5).T)


def spelt(pieces: list[Triples]) -> list[tuple[int, ...]]:
    return [tuple(row) for piece in pieces for row in np.transpose(piece).tolist()]


def check_found(found: Found, expected: set[tuple[int, int, int]], n_drivers: int) -> None:
    triples, pairs = spelt(list(found.triples(7))), found.pairs()
    named = list(zip(pairs.drivers.tolist(), pairs.queries.tolist(), strict=True))

    assert len(triples) == len(set(triples))
    assert set(triples) == expected
    assert len(named) == len(set(named))
    assert set(named) == {(driver, query) for driver, _, query in expected}
    counts = np.bincount(pairs.drivers, minlength=n_drivers)
    assert (found.descriptors().at_most(n_drivers) >= counts).all()


@pytest.mark.parametrize("way", STRATEGIES)
@given(NEW.map(sorted), OLD, QUERIES)
def test_every_way_finds_what_each_query_would(
    way: str, drivers: list[Row], stored: list[Row], queries: list[WindowQuery]
) -> None:
    strategy = STRATEGIES[way]()
    strategy.add(np.arange(len(queries)), queries_of(queries))
    if isinstance(strategy, WindowJoin):
        strategy.rebuild()

    found = strategy.find(drivers_of(drivers), stored_of(stored))

    expected = window_triples(drivers, stored, dict(enumerate(queries)))
    check_found(found, expected, len(drivers))
    costs = strategy.estimate(drivers_of(drivers), stored_of(stored))
    assert costs.shape == (len(drivers),)
    assert (costs >= 0).all()


@pytest.mark.parametrize("way", STRATEGIES)
@given(
    st.lists(st.tuples(st.sets(st.integers(0, 11), max_size=5), QUERIES), max_size=5),
    NEW.map(sorted),
    OLD,
)
def test_queries_come_and_go_and_slots_are_used_again(
    way: str, changes: list[Any], drivers: list[Row], stored: list[Row]
) -> None:
    strategy = STRATEGIES[way]()
    standing: dict[int, WindowQuery] = {}

    for number, (dropped, queries) in enumerate(changes):
        gone = dropped & standing.keys()
        strategy.drop(np.array(sorted(gone), np.int64))
        standing = {slot: query for slot, query in standing.items() if slot not in gone}
        free = [slot for slot in range(40) if slot not in standing][: len(queries)]
        strategy.add(np.array(free, np.int64), queries_of(queries[: len(free)]))
        standing |= dict(zip(free, queries, strict=False))
        if number % 2 and isinstance(strategy, WindowJoin):
            strategy.rebuild()

        found = strategy.find(drivers_of(drivers), stored_of(stored))
        check_found(found, window_triples(drivers, stored, standing), len(drivers))


@given(rows_within(NOW - 15, NOW + 5).map(sorted), rows_within(NOW - 15, NOW + 5), QUERIES)
def test_join_first_meets_rows_in_any_order(
    drivers: list[Row], stored: list[Row], queries: list[WindowQuery]
) -> None:
    join = AnyOrder(PRICES["join_first"])
    join.add(np.arange(len(queries)), queries_of(queries))
    join.rebuild()
    join.drop(np.arange(len(queries))[::3])
    join.add(np.arange(len(queries), len(queries) + 2), queries_of([EVERYTHING] * 2))

    triples = spelt([join.meet(drivers_of(drivers), stored_of(stored))])

    standing = {slot: query for slot, query in enumerate(queries) if slot % 3}
    standing |= {len(queries): EVERYTHING, len(queries) + 1: EVERYTHING}
    assert len(triples) == len(set(triples))
    assert set(triples) == window_triples(drivers, stored, standing)


Batches = list[tuple[list[Row], list[Row]]]


def side_of(new: list[Row], old: list[Row], n_before: int) -> Side:
    return Side(drivers_of(new), n_before + np.arange(len(new)), stored_of(old))


def met(batches: Batches, queries: list[WindowQuery], way: str) -> list[tuple[int, ...]]:
    """What is found batch by batch; rows are numbered as they come, those of a batch by key."""
    both = [STRATEGIES[way](), STRATEGIES[way]()]
    joins = AnyOrder(PRICES["join_first"]), AnyOrder(PRICES["join_first"])
    slots, seen = np.arange(len(queries)), queries_of(queries)
    for each in (both[0], joins[0]):
        each.add(slots, seen)
    for each in (both[1], joins[1]):
        each.add(slots, mirrored(seen))
    old_left: list[Row] = []
    old_right: list[Row] = []
    found = []
    for left, right in batches:
        sides = (side_of(left, old_left, len(old_left)), side_of(right, old_right, len(old_right)))
        found += spelt(list(meet_both(*sides, (both[0], both[1]), joins)))
        old_left, old_right = old_left + left, old_right + right
    return found


def later(rows: list[Row], shift: int) -> list[Row]:
    return [(key, code, time + shift) for key, code, time in rows]


SLICES = st.lists(
    st.tuples(rows_within(0, 4).map(sorted), rows_within(0, 4).map(sorted)), max_size=4
)


@pytest.mark.parametrize("way", STRATEGIES)
@pytest.mark.parametrize("late", [False, True])
@given(batches=SLICES, queries=QUERIES)
def test_batches_find_what_rows_one_by_one_would(
    way: str, batches: Batches, queries: list[WindowQuery], *, late: bool
) -> None:
    # Slices of time one after the other; or all at the same time, so that most rows are late.
    shift = 0 if late else 5
    moved = [
        (later(left, shift * number), later(right, shift * number))
        for number, (left, right) in enumerate(batches)
    ]

    found = met(moved, queries, way)

    lefts = [row for left, _ in moved for row in left]
    rights = [row for _, right in moved for row in right]
    assert len(found) == len(set(found))
    assert set(found) == window_triples(lefts, rights, dict(enumerate(queries)))
