"""Which groups of intervals are hot: the few that hold many, told apart as intervals come and go.

Queries cluster: a few points are in the ranges of most. A group is *hot* if it has at least `alpha`
of all intervals; what is not in a hot group is scattered, and only that is parted again and again
(`sharing.partition`). A group becomes hot at `alpha` and scattered again below half of that, so
one that is on the edge does not change sides with every interval.

Invariants, asserted after every change if `checked` (n intervals, tau = the fewest groups of all):

    I1   every group of at least alpha n is hot, and only groups of at least alpha n / 2 are;
         so there are at most 2 / alpha of them
    I2   there are at most (1 + slack) tau + 2 / alpha groups
    I3   intervals moved between hot and scattered: at most 5 per change, on average over all

(Agarwal, Xie, Yang, Yu: Input-sensitive scalable continuous query processing, section 2.3.)

Cost: a new interval is compared with each hot group, about 1 ns each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.kernels.stabbing import adopt_all
from millrace.sharing.partition import Partition, canonical

LEAST_HOT = 64  # of few intervals every one would be hot


class Moves(NamedTuple):
    """What a change comes to: slots that are hot now, and slots that are scattered now.

    They were the other, or are new. Slots that were dropped are in neither.
    """

    hot: Ints
    scattered: Ints


class Hotspots:
    """Intervals in slots, each in a hot group or scattered."""

    def __init__(
        self,
        alpha: float,
        *,
        slack: float = 1.0,
        least_hot: int | None = None,
        checked: bool = False,
    ) -> None:
        self.alpha = alpha
        self.scattered = Partition(slack)
        self.n_moves = 0
        self.n_changes = 0
        self._least_hot = LEAST_HOT if least_hot is None else least_hot
        self._checked = checked
        self._low = np.zeros(0, np.int64)
        self._high = np.zeros(0, np.int64)
        self._group = np.zeros(0, np.int64)
        self._sizes = np.zeros(0, np.int64)
        self._region_low = np.zeros(0, np.int64)
        self._region_high = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.scattered) + int(self._sizes.sum())

    @property
    def hot_sizes(self) -> Ints:
        """The sizes of the hot groups."""
        return self._sizes[self._sizes > 0]

    @property
    def hot_slots(self) -> Ints:
        """The slots in hot groups, ascending."""
        return np.flatnonzero(self._group >= 0)

    def change(self, dropped: Ints, added: Ints, low: Ints, high: Ints) -> Moves:
        """Let some slots go, then take in others; a slot that goes may come again."""
        before = self._where()
        self._drop(dropped)
        self._add(added, low, high)
        self.n_changes += dropped.size + added.size
        self._settle()
        if self._checked:
            self.check()
        after = self._where()
        before = np.concatenate((before, np.full(after.size - before.size, -1, np.int8)))
        before[added] = -1
        moved = after != before
        return Moves(np.flatnonzero(moved & (after == 1)), np.flatnonzero(moved & (after == 0)))

    def _where(self) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        """Return for each slot 1 if it is hot, 0 if it is scattered, else -1."""
        where = np.full(self._group.size, -1, np.int8)
        where[self.scattered.state.group[: where.size] >= 0] = 0
        where[self._group >= 0] = 1
        return where

    def _drop(self, slots: Ints) -> None:
        hot = self._group[slots] >= 0
        np.subtract.at(self._sizes, self._group[slots[hot]], 1)
        self._group[slots[hot]] = -1
        self.scattered.drop(slots[~hot])

    def _add(self, slots: Ints, low: Ints, high: Ints) -> None:
        self._make_room(int(slots.max(initial=-1)) + 1)
        self._low[slots] = low
        self._high[slots] = high
        regions = self._region_low, self._region_high, self._sizes
        adopted = adopt_all(slots, self._low, self._high, *regions)
        self._group[slots] = adopted
        self._scatter(slots[adopted < 0])

    def _scatter(self, slots: Ints) -> None:
        self.scattered.add(slots, self._low[slots], self._high[slots])

    def _make_room(self, n_slots: int) -> None:
        if n_slots > self._group.size:
            more = max(n_slots, 2 * self._group.size, 64) - self._group.size
            self._low = np.concatenate((self._low, np.zeros(more, np.int64)))
            self._high = np.concatenate((self._high, np.zeros(more, np.int64)))
            self._group = np.concatenate((self._group, np.full(more, -1, np.int64)))
            self.scattered.make_room(self._group.size)

    def _threshold(self) -> float:
        return max(self.alpha * len(self), float(self._least_hot))

    def _settle(self) -> None:
        """Demote groups that have become small, and promote large ones until there is none."""
        small = np.flatnonzero((self._sizes > 0) & (self._sizes < self._threshold() / 2))
        if small.size:
            slots = np.flatnonzero(np.isin(self._group, small))
            self._sizes[small] = 0
            self._group[slots] = -1
            self._scatter(slots)
            self.n_moves += slots.size
        while True:
            self.scattered.settle()
            groups = self.scattered.groups
            large = groups[self.scattered.state.sizes[groups] >= self._threshold()]
            if not large.size:
                return
            self._promote(large)  # this leaves fewer groups and fewer witnesses: settle again

    def _promote(self, groups: Ints) -> None:
        state = self.scattered.state
        n_free = groups.size - int(np.count_nonzero(self._sizes == 0))
        if n_free > 0:
            nothing = np.zeros(n_free, np.int64)
            self._sizes = np.concatenate((self._sizes, nothing))
            self._region_low = np.concatenate((self._region_low, nothing))
            self._region_high = np.concatenate((self._region_high, nothing))
        hot = np.flatnonzero(self._sizes == 0)[: groups.size]
        self._sizes[hot] = state.sizes[groups]
        self._region_low[hot] = state.region_low[groups]
        self._region_high[hot] = state.region_high[groups]
        becomes = np.empty(int(groups.max()) + 1, np.int64)
        becomes[groups] = hot
        group = state.group[self.scattered.members(groups)].copy()
        slots = self.scattered.extract(groups)
        self._group[slots] = becomes[group]
        self.n_moves += slots.size

    def check(self) -> None:
        """Assert everything that is promised."""
        state, groups, slack = self.scattered.state, self.scattered.groups, self.scattered.slack
        loose = np.flatnonzero(state.group >= 0)
        slots = np.concatenate((loose, self.hot_slots))
        assert slots.size == np.unique(slots).size == len(self), "a slot is in one group"
        for group, members in _by_group(self._group):
            region = self._region_low[group], self._region_high[group]
            self._check_group(members, int(self._sizes[group]), region)
        for group, members in _by_group(state.group):
            region = state.region_low[group], state.region_high[group]
            self._check_group(members, int(state.sizes[group]), region)
        assert bool(np.all(state.region_high[groups][:-1] < state.region_low[groups][1:])), "order"
        fewest_loose = canonical(self._low[loose], self._high[loose]).sizes.size
        fewest = canonical(self._low[slots], self._high[slots]).sizes.size
        assert self.scattered.witnesses.size <= fewest_loose, "witnesses are disjoint"
        assert groups.size <= (1 + slack) * fewest_loose, "the partition is certified"
        hot, most_hot = self.hot_sizes, 2 / self.alpha if self.alpha else np.inf
        assert bool(np.all(state.sizes[groups] < self._threshold())), "I1: hotspots are hot"
        assert bool(np.all(hot >= self._threshold() / 2)), "I1: what is hot is large"
        assert hot.size <= most_hot, "I1: few groups are hot"
        assert hot.size + groups.size <= (1 + slack) * fewest + most_hot, "I2"
        assert self.n_moves <= 5 * self.n_changes, "I3"

    def _check_group(self, members: Ints, size: int, region: tuple[int, int]) -> None:
        assert members.size == size, "sizes are true"
        assert self._low[members].max() <= region[0] <= region[1] <= self._high[members].min()


def _by_group(group: Ints) -> list[tuple[int, Ints]]:
    return [(int(each), np.flatnonzero(group == each)) for each in np.unique(group[group >= 0])]
