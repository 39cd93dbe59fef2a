"""Kernels of stabbing partitions: intervals in groups that have a point in common.

A group's *region* is where the points lie that all its members hold, [greatest low, least high].
Regions of a partition are disjoint, so a *directory* keeps the groups in their order. *Witnesses*
are intervals that do not touch each other: no two can be in one group, so there are never fewer
groups than witnesses, and a partition that has not many more is known to be a good one.

    intervals    ├────┤  ├──┤         ├─────┤
                   ├─────┤   ├──┤   ├────┤
    regions        ╞══╡  ╵   ╞══╡     ╞══╡
    witnesses    ├────┤      ├──┤   ├────┤

Cost: sorted intervals are parted at 35 ns each; one more is placed by two binary searches and a
shift of the directory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bools, Ints

N_GROUPS, N_WITNESSES, N_MADE, N_FREE = range(4)
NEIGHBOURS = 4  # so many groups are looked at for the largest one that an interval fits in


class Parted(NamedTuple):
    """A canonical partition: by interval its group, by group its region, size and witness."""

    groups: Ints
    region_low: Ints
    region_high: Ints
    sizes: Ints
    witnesses: Ints


class Parting(NamedTuple):
    """A partition that changes: first what is known by slot, then by group, then lists."""

    low: Ints
    high: Ints
    group: Ints
    is_witness: Bools
    region_low: Ints
    region_high: Ints
    sizes: Ints
    directory: Ints
    witnesses: Ints
    free: Ints
    counts: Ints


@njit(cache=True, nogil=True)
def part(low: Ints, high: Ints, order: Ints) -> Parted:
    """Part the intervals that `order` names, ascending by low end, into as few groups as can be."""
    groups = np.empty(order.size, np.int64)
    region_low = np.empty(order.size, np.int64)
    region_high = np.empty(order.size, np.int64)
    sizes = np.zeros(order.size, np.int64)
    witnesses = np.empty(order.size, np.int64)
    last = -1
    for at in range(order.size):
        slot = order[at]
        if last < 0 or low[slot] > region_high[last]:
            last += 1
            region_high[last] = high[slot]
            witnesses[last] = slot
        elif high[slot] < region_high[last]:
            region_high[last] = high[slot]
            witnesses[last] = slot
        region_low[last] = low[slot]
        groups[at] = last
        sizes[last] += 1
    n_groups = last + 1
    return Parted(
        groups,
        region_low[:n_groups].copy(),
        region_high[:n_groups].copy(),
        sizes[:n_groups].copy(),
        witnesses[:n_groups].copy(),
    )


@njit(cache=True, nogil=True)
def _reaching(listed: Ints, n_listed: int, high: Ints, low: int) -> int:
    """Return the first place in a list of disjoint intervals whose high end is not before `low`."""
    first, stop = 0, n_listed
    while first < stop:
        middle = (first + stop) >> 1
        if high[listed[middle]] < low:
            first = middle + 1
        else:
            stop = middle
    return first


@njit(cache=True, nogil=True)
def _enlist(listed: Ints, n_listed: int, at: int, each: int) -> None:
    listed[at + 1 : n_listed + 1] = listed[at:n_listed].copy()
    listed[at] = each


@njit(cache=True, nogil=True)
def _strike(listed: Ints, n_listed: int, at: int) -> None:
    listed[at : n_listed - 1] = listed[at + 1 : n_listed].copy()


@njit(cache=True, nogil=True)
def place_all(slots: Ints, parting: Parting) -> None:
    """Put intervals into groups, each into the largest near one that it fits in, or a new one."""
    for slot in slots:
        _place(slot, parting)
        _testify(slot, parting)


@njit(cache=True, nogil=True)
def _place(slot: int, parting: Parting) -> None:
    low, high = parting.low[slot], parting.high[slot]
    n_groups = parting.counts[N_GROUPS]
    first = _reaching(parting.directory, n_groups, parting.region_high, low)
    best = -1
    for at in range(first, min(n_groups, first + NEIGHBOURS)):
        group = parting.directory[at]
        if parting.region_low[group] > high:
            break
        if best < 0 or parting.sizes[group] > parting.sizes[best]:
            best = group
    if best < 0:
        best = _new_group(parting)
        _enlist(parting.directory, n_groups, first, best)
        parting.region_low[best], parting.region_high[best], parting.sizes[best] = low, high, 1
    else:
        parting.region_low[best] = max(parting.region_low[best], low)
        parting.region_high[best] = min(parting.region_high[best], high)
        parting.sizes[best] += 1
    parting.group[slot] = best


@njit(cache=True, nogil=True)
def _new_group(parting: Parting) -> int:
    counts = parting.counts
    counts[N_GROUPS] += 1
    if counts[N_FREE]:
        counts[N_FREE] -= 1
        return int(parting.free[counts[N_FREE]])
    counts[N_MADE] += 1
    return int(counts[N_MADE] - 1)


@njit(cache=True, nogil=True)
def _testify(slot: int, parting: Parting) -> None:
    """Make an interval a witness if it touches none, or instead of the one that it lies in."""
    low, high, counts = parting.low[slot], parting.high[slot], parting.counts
    at = _reaching(parting.witnesses, counts[N_WITNESSES], parting.high, low)
    if at == counts[N_WITNESSES] or parting.low[parting.witnesses[at]] > high:
        _enlist(parting.witnesses, counts[N_WITNESSES], at, slot)
        counts[N_WITNESSES] += 1
        parting.is_witness[slot] = True
        return
    other = parting.witnesses[at]
    if parting.low[other] <= low and high <= parting.high[other]:
        parting.is_witness[other] = False
        parting.is_witness[slot] = True
        parting.witnesses[at] = slot


@njit(cache=True, nogil=True)
def displace_all(slots: Ints, parting: Parting) -> None:
    """Take intervals out of their groups; an empty group goes, and so does a witness."""
    counts = parting.counts
    for slot in slots:
        group = parting.group[slot]
        parting.group[slot] = -1
        parting.sizes[group] -= 1
        if parting.sizes[group] == 0:
            region_high = parting.region_high[group]
            at = _reaching(parting.directory, counts[N_GROUPS], parting.region_high, region_high)
            _strike(parting.directory, counts[N_GROUPS], at)
            counts[N_GROUPS] -= 1
            parting.free[counts[N_FREE]] = group
            counts[N_FREE] += 1
        if parting.is_witness[slot]:
            high = parting.high[slot]
            at = _reaching(parting.witnesses, counts[N_WITNESSES], parting.high, high)
            _strike(parting.witnesses, counts[N_WITNESSES], at)
            counts[N_WITNESSES] -= 1
            parting.is_witness[slot] = False


@njit(cache=True, nogil=True)
def adopt_all(
    slots: Ints, low: Ints, high: Ints, region_low: Ints, region_high: Ints, sizes: Ints
) -> Ints:
    """Put intervals into the largest of some groups whose region they touch; -1 if there is none.

    Regions shrink and sizes grow, in place. A group of size 0 takes none.
    """
    adopted = np.full(slots.size, -1, np.int64)
    for at in range(slots.size):
        slot = slots[at]
        best = -1
        for group in range(sizes.size):
            touched = region_low[group] <= high[slot] and low[slot] <= region_high[group]
            if sizes[group] and touched and (best < 0 or sizes[group] > sizes[best]):
                best = group
        if best >= 0:
            region_low[best] = max(region_low[best], low[slot])
            region_high[best] = min(region_high[best], high[slot])
            sizes[best] += 1
        adopted[at] = best
    return adopted
