"""Stabbing partitions and hotspots: against all partitions, and as intervals come and go."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.kernels.arrays import Ints
from millrace.sharing.codes import HIGHEST, LOWEST
from millrace.sharing.hotspots import Hotspots
from millrace.sharing.partition import Partition, canonical
from millrace.testing.oracle.stabbing import fewest_groups, fewest_points, have_a_common_point

INTERVALS = st.tuples(st.integers(0, 12) | st.just(LOWEST), st.integers(0, 5)).map(
    lambda each: (each[0], each[0] + each[1] if each[1] < 5 else HIGHEST)
)
NOTHING = np.zeros(0, np.int64)


def columns(intervals: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    low, high = np.array(intervals, np.int64).reshape(-1, 2).T
    return low.copy(), high.copy()


@given(st.lists(INTERVALS, max_size=9))
@example([(0, 1), (1, 2), (2, 3)])  # they touch at their ends
def test_no_partition_has_fewer_groups_than_the_canonical_one(
    intervals: list[tuple[int, int]],
) -> None:
    parted = canonical(*columns(intervals))

    assert parted.sizes.size == fewest_groups(intervals) == fewest_points(intervals)
    for group in range(parted.sizes.size):
        members = [intervals[at] for at in np.flatnonzero(parted.groups == group)]
        assert have_a_common_point(members)
        assert len(members) == parted.sizes[group]
        assert all(low <= parted.region_high[group] <= high for low, high in members)


@given(st.lists(INTERVALS, max_size=30))
def test_witnesses_do_not_touch_each_other(intervals: list[tuple[int, int]]) -> None:
    parted = canonical(*columns(intervals))

    chosen = sorted(intervals[at] for at in parted.witnesses)

    assert len(chosen) == parted.sizes.size
    assert all(one[1] < two[0] for one, two in pairwise(chosen))


def shaped(random: np.random.Generator, n: int, shape: int) -> tuple[Ints, Ints]:
    """Intervals: wide, in clusters, with many ties, or so narrow that none touch."""
    if shape == 0:
        middle, width = random.integers(0, 100_000, n), random.integers(0, 2_000, n)
    elif shape == 1:
        cluster = np.minimum(random.zipf(1.3, n), 200) * 3_701 % 100_000
        middle, width = cluster + random.integers(-50, 50, n), random.integers(0, 400, n)
    elif shape == 2:
        middle, width = random.integers(0, 50, n), random.integers(0, 4, n)
    else:
        middle, width = random.integers(0, 100_000, n), np.ones(n, np.int64)
    low, high = middle - width // 2, middle + width // 2
    low[random.random(n) < 0.01] = LOWEST
    return low, high


def adversary(random: np.random.Generator, hotspots: Hotspots, live: Ints, n: int) -> Ints:
    """Choose whom to drop: witnesses, members of hot groups, or anybody."""
    choice = random.integers(0, 3)
    pool = (hotspots.scattered.witnesses, hotspots.hot_slots, live)[choice]
    pool = pool if pool.size else live
    return random.permutation(pool)[:n].copy()


@pytest.mark.parametrize("seed", range(24))
def test_what_is_promised_of_hotspots_holds_after_every_change(seed: int) -> None:
    random = np.random.default_rng(seed)
    slack, alpha = random.choice([0.1, 0.5, 1, 3]), random.choice([0.5, 0.2, 0.05, 0.02])
    hotspots = Hotspots(alpha, slack=slack, least_hot=int(random.choice([1, 8])), checked=True)
    size, shape = int(random.choice([1, 5, 40])), int(random.integers(0, 4))
    where: dict[int, bool] = {}
    free = list(range(700))
    for step in range(150):
        if random.random() < 0.03:
            shape = int(random.integers(0, 4))
        growing = step // 40 % 2 == 0
        n_added = min(int(random.binomial(size, 0.75 if growing else 0.3)), len(free))
        live = np.array(sorted(where), np.int64)
        dropped = adversary(random, hotspots, live, min(size - n_added, live.size))
        added = np.array([free.pop() for _ in range(n_added)], np.int64)

        moves = hotspots.change(dropped, added, *shaped(random, n_added, shape))

        free += dropped.tolist()
        where = {slot: hot for slot, hot in where.items() if slot not in set(dropped.tolist())}
        where |= dict.fromkeys(moves.hot.tolist(), True)
        where |= dict.fromkeys(moves.scattered.tolist(), False)
        assert sorted(where) == sorted({*live.tolist(), *added.tolist()} - {*dropped.tolist()})
        assert [slot for slot in sorted(where) if where[slot]] == hotspots.hot_slots.tolist()


@pytest.mark.parametrize(("alpha", "n_hot"), [(0, 300), (1.5, 0)])
def test_all_or_nothing_may_be_hot(alpha: float, n_hot: int) -> None:
    hotspots = Hotspots(alpha, least_hot=1, checked=True)
    low, high = shaped(np.random.default_rng(1), 300, 1)

    moves = hotspots.change(NOTHING, np.arange(300), low, high)

    assert (moves.hot.size, moves.scattered.size) == (n_hot, 300 - n_hot)


def test_a_slot_may_be_dropped_and_taken_again_at_once() -> None:
    hotspots = Hotspots(0.5, least_hot=1, checked=True)
    slots = np.arange(10)
    hotspots.change(NOTHING, slots, slots * 10, slots * 10 + 5)

    moves = hotspots.change(slots, slots, slots * 0, slots * 0 + 5)

    assert moves.hot.tolist() == slots.tolist()
    assert len(hotspots) == 10


def test_a_partition_is_rebuilt_when_its_witnesses_are_gone() -> None:
    partition = Partition(slack=0.5)
    low = np.arange(0, 100, 10)
    partition.add(np.arange(10), low, low + 5)
    for slot in range(10, 60):  # wide ones join groups; they hold everything together
        partition.add(np.array([slot]), np.array([0]), np.array([95]))
    n_rebuilt = partition.n_rebuilt

    partition.drop(partition.witnesses.copy())
    partition.settle()

    assert partition.groups.size == 1
    assert partition.n_rebuilt == n_rebuilt + 1
    assert len(partition) == 50
