"""Kernels of band joins by stabbing groups: which queries have a stored value in their band.

A query takes a stored value if its *difference*, `value - base`, lies in the query's band, where
`base` is the driver's value. All queries of a group hold the group's point. Let `left` and `right`
be the differences next to the point, on either side:

    bands of a group         |-----------.-----|
    (all hold the point)         |-------.--|
                                       |-.-----------|
    differences          x       x       .       x        x
                                 left    point   right

A band holds some difference if and only if it holds `left` or `right`: those whose low end is at
most `left` are the first ones by low end, those whose high end is at least `right` are the first
ones by falling high end. Two lengths describe all affected queries of a group.

The difference is always computed by the same expression. `value - base` rises with the value, also
in doubles, so that bisection is right; `low + base` may differ from it in the last bit.

Values and bounds are int64 or float64. Values are finite, and differences of integers do not
overflow; a bound may be infinite.

Cost: a driver and group take about 60 ns, whatever the group's size; a pair takes 2 to 4 ns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints, Ints32, Numbers


class Probes(NamedTuple):
    """Drivers by segment and rising base, and the rows [first, stop) that each of them probes."""

    bases: Numbers
    firsts: Ints
    stops: Ints
    drivers: Ints


class Groups(NamedTuple):
    """Groups of bands: each in two orders, in which an entry knows its rank in the other one.

    `lows` are the low ends, rising; `falls` the high ends with their sign turned, rising too.
    """

    points: Numbers
    starts: Ints
    lows: Numbers
    low_ids: Ints
    low_ranks: Ints32
    falls: Numbers
    high_ids: Ints
    high_ranks: Ints32


class Prefixes(NamedTuple):
    """For a probe and a group: how long the prefixes by low end and by high end are."""

    probes: Ints32
    groups: Ints32
    lefts: Ints32
    rights: Ints32


@njit(cache=True, nogil=True)
def first_at_least(values: Numbers, first: int, stop: int, base: float, bound: float) -> int:
    """Return the first place in [first, stop) whose difference is not below a bound."""
    while first < stop:
        middle = (first + stop) >> 1
        if values[middle] - base < bound:
            first = middle + 1
        else:
            stop = middle
    return first


@njit(cache=True, nogil=True)
def first_above(values: Numbers, first: int, stop: int, base: float, bound: float) -> int:
    """Return the first place in [first, stop) whose difference is above a bound."""
    while first < stop:
        middle = (first + stop) >> 1
        if values[middle] - base <= bound:
            first = middle + 1
        else:
            stop = middle
    return first


@njit(cache=True, nogil=True)
def leap_at_least(values: Numbers, first: int, stop: int, base: float, bound: float) -> int:
    """Return what `first_at_least` does; near places are found sooner."""
    step, high = 1, first
    while high < stop and values[high] - base < bound:
        first = high + 1
        high += step
        step <<= 1
    return first_at_least(values, first, min(high, stop), base, bound)


@njit(cache=True, nogil=True)
def _n_at_most(numbers: Numbers, first: int, stop: int, bound: float) -> int:
    """Return how many of rising numbers in [first, stop) are at most a bound.

    It looks from the end: where stored values are dense, nearly all of a group is affected.
    """
    low, high, step = first, stop, 1
    while high > low:
        probe = max(first, high - step)
        if numbers[probe] <= bound:
            low = probe + 1
            break
        high = probe
        step <<= 1
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] <= bound:
            low = middle + 1
        else:
            high = middle
    return low - first


@njit(cache=True, nogil=True)
def find_prefixes(probes: Probes, values: Numbers, groups: Groups) -> Prefixes:
    """Return the prefixes of each probe and group of which one is not empty, group by group.

    Probes of a segment have rising bases, so the place of a point only moves on.
    """
    n_probes = probes.bases.size
    lines, used = np.empty((4, n_probes), np.int32), 0
    for group in range(groups.points.size):
        point = groups.points[group]
        entry, end = groups.starts[group], groups.starts[group + 1]
        lines = _with_room(lines, used, n_probes)
        place = 0
        for probe in range(n_probes):
            first, stop, base = probes.firsts[probe], probes.stops[probe], probes.bases[probe]
            place = leap_at_least(values, max(place, first), stop, base, point)
            left = right = 0
            if place < stop:
                difference = values[place] - base
                right = _n_at_most(groups.falls, entry, end, -difference)
                if difference == point:
                    left = end - entry
            if left == 0 and place > first:
                left = _n_at_most(groups.lows, entry, end, values[place - 1] - base)
            if left or right:
                lines[0, used] = probe
                lines[1, used] = group
                lines[2, used] = left
                lines[3, used] = right
                used += 1
    return Prefixes(lines[0, :used], lines[1, :used], lines[2, :used], lines[3, :used])


@njit(cache=True, nogil=True)
def _with_room(lines: Ints32, used: int, n_more: int) -> Ints32:
    if used + n_more <= lines.shape[1]:
        return lines
    longer = np.empty((lines.shape[0], max(2 * used, used + n_more)), np.int32)
    longer[:, :used] = lines[:, :used]
    return longer


@njit(cache=True, nogil=True)
def _room(prefixes: Prefixes, groups: Groups) -> int:
    """Return at least the number of queries that prefixes name."""
    total = 0
    for each in range(prefixes.groups.size):
        group, left = prefixes.groups[each], prefixes.lefts[each]
        n_others = groups.starts[group + 1] - groups.starts[group] - left
        total += left + min(n_others, prefixes.rights[each])
    return total


@njit(cache=True, nogil=True)
def expand_pairs(prefixes: Prefixes, probes: Probes, groups: Groups) -> tuple[Ints, Ints]:
    """Return each driver with each query of its prefixes, once.

    Beside the left prefix the group has few queries if it is long; else the right one is taken.
    """
    room = _room(prefixes, groups)
    drivers, queries, used = np.empty(room, np.int64), np.empty(room, np.int64), 0
    for each in range(prefixes.groups.size):
        group, left, right = prefixes.groups[each], prefixes.lefts[each], prefixes.rights[each]
        entry, end = groups.starts[group], groups.starts[group + 1]
        before = used
        for at in range(entry, entry + left):
            queries[used] = groups.low_ids[at]
            used += 1
        if end - entry - left < right:
            for at in range(entry + left, end):
                if groups.low_ranks[at] < right:
                    queries[used] = groups.low_ids[at]
                    used += 1
        else:
            for at in range(entry, entry + right):
                if groups.high_ranks[at] >= left:
                    queries[used] = groups.high_ids[at]
                    used += 1
        drivers[before:used] = probes.drivers[prefixes.probes[each]]
    return drivers[:used], queries[:used]


@njit(cache=True, nogil=True)
def reach_runs(
    bases: Numbers, starts: Ints, stops: Ints, values: Numbers, lows: Numbers, highs: Numbers
) -> tuple[Ints, Ints]:
    """Return for each pair, of a base, a segment and a band, the rows that the band takes.

    Where lows rise from one pair to the next, which they mostly do, places are near each other.
    """
    n_pairs = bases.size
    found_firsts, found_stops = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    first = 0
    for pair in range(n_pairs):
        base, stop = bases[pair], stops[pair]
        follows = pair > 0 and bases[pair - 1] == base and starts[pair - 1] == starts[pair]
        if follows and lows[pair] >= lows[pair - 1]:
            first = leap_at_least(values, first, stop, base, lows[pair])
        else:
            first = first_at_least(values, starts[pair], stop, base, lows[pair])
        found_firsts[pair] = first
        found_stops[pair] = first_above(values, first, stop, base, highs[pair])
    return found_firsts, found_stops
