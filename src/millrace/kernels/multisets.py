"""Kernels that follow multisets through time: the least, the greatest, the k-th of what is there.

Each group has its different values in order, and entries in order of time: first how often each
value is there to begin with, then changes. A tree of partial sums over the values (Fenwick, "A
new data structure for cumulative frequency tables", 1994) finds the k-th in log time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Floats, Ints


@njit(cache=True, nogil=True, inline="always")
def add_to_tree(tree, at, change):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Change how often the value at a place is there."""
    at += 1
    while at < len(tree):
        tree[at] += change
        at += at & -at


@njit(cache=True, nogil=True, inline="always")
def _find(tree, wanted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the place of the first value at which the running count exceeds `wanted`."""
    place = 0
    step = 1
    while 2 * step < len(tree):
        step *= 2
    while step:
        after = place + step
        if after < len(tree) and tree[after] <= wanted:
            place = after
            wanted -= tree[after]
        step //= 2
    return place


@njit(cache=True, nogil=True)
def standing_at(tree, total, share, how):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the places of the values that stand at a share of all, as `kth_values` says.

    The second is -1 but where the share may lie between two.
    """
    if how == 0:
        return _find(tree, 0), -1, 0.0
    if how == 1:
        return _find(tree, total - 1), -1, 0.0
    if how == 3:
        whole = share[0] * (total - 1) // share[1]
        rest = share[0] * (total - 1) % share[1] / share[1]
        return _find(tree, whole), _find(tree, min(whole + 1, total - 1)), rest
    wanted = max(-(-share[0] * total // share[1]) - 1, 0)
    return _find(tree, wanted if how == 2 else total - 1 - wanted), -1, 0.0


@njit(cache=True, nogil=True)
def kth_values(  # noqa: PLR0917  a layout is six arrays
    value_begins: Ints,
    base: Ints,
    entry_begins: Ints,
    event_begins: Ints,
    events: Ints,
    changes: Ints,
    share: tuple[int, int],
    how: int,
) -> tuple[Ints, Ints, Floats]:
    """Return, for each entry, which values stand at a share of what is there.

    Parameters
    ----------
    value_begins, base
        Where the values of each group begin, and how often each value is there at first.
    entry_begins
        Where the entries of each group begin.
    event_begins, events, changes
        Where the events of each entry begin, which value each is of, and its change.
    share, how
        0: the least; 1: the greatest; 2: the first whose running share is at least `share`,
        a numerator and a denominator; 3: the two around that place, and how far it lies between;
        4: as 2, of the values from the greatest down.

    Places are -1 where nothing is there.
    """
    n_entries = entry_begins[-1]
    lower = np.full(n_entries, -1, np.int64)
    upper = np.full(n_entries, -1, np.int64)
    between = np.zeros(n_entries, np.float64)
    for group in range(len(entry_begins) - 1):
        first, stop = value_begins[group], value_begins[group + 1]
        tree = np.zeros(stop - first + 1, np.int64)
        total = 0
        for value in range(first, stop):
            tree[value - first + 1] = base[value]
            total += base[value]
        for at in range(1, len(tree)):
            parent = at + (at & -at)
            if parent < len(tree):
                tree[parent] += tree[at]
        for entry in range(entry_begins[group], entry_begins[group + 1]):
            for event in range(event_begins[entry], event_begins[entry + 1]):
                add_to_tree(tree, events[event] - first, changes[event])
                total += changes[event]
            if total <= 0:
                continue
            one, other, between[entry] = standing_at(tree, total, share, how)
            lower[entry] = first + one
            upper[entry] = first + other if other >= 0 else -1
    return lower, upper, between


@njit(cache=True, nogil=True)
def first_values(  # noqa: PLR0917  a layout is six arrays
    value_begins: Ints,
    base: Ints,
    entry_begins: Ints,
    event_begins: Ints,
    events: Ints,
    changes: Ints,
    skip: int,
    most: int,
) -> tuple[Ints, Ints, Ints]:
    """Return, for each entry, the first values that are there: entry, value, and how often.

    Of all values in order `skip` are left out, and `most` follow; all if `most` is negative.
    """
    entries = []
    places = []
    copies = []
    for group in range(len(entry_begins) - 1):
        first, stop = value_begins[group], value_begins[group + 1]
        counts = base[first:stop].copy()
        for entry in range(entry_begins[group], entry_begins[group + 1]):
            for event in range(event_begins[entry], event_begins[entry + 1]):
                counts[events[event] - first] += changes[event]
            to_skip, wanted = skip, most
            for value in range(stop - first):
                count = counts[value]
                if count <= 0:
                    continue
                if count <= to_skip:
                    to_skip -= count
                    continue
                count -= to_skip
                to_skip = 0
                if most >= 0:
                    count = min(count, wanted)
                    wanted -= count
                if count > 0:
                    entries.append(entry)
                    places.append(first + value)
                    copies.append(count)
                if most >= 0 and wanted == 0:
                    break
    return np.array(entries, np.int64), np.array(places, np.int64), np.array(copies, np.int64)


@njit(cache=True, nogil=True)
def most_frequent(  # noqa: C901  as in `kth_values`, one loop
    value_begins: Ints,
    base: Ints,
    entry_begins: Ints,
    event_begins: Ints,
    events: Ints,
    changes: Ints,
) -> Ints:
    """Return, for each entry, the value that is there most often, of several the first.

    Places are -1 where nothing is there. All values are looked at again only where the one that
    was there most often has become fewer.
    """
    found = np.full(entry_begins[-1], -1, np.int64)
    for group in range(len(entry_begins) - 1):
        first, stop = value_begins[group], value_begins[group + 1]
        counts = base[first:stop].copy()
        best, most = -1, -1  # looked for before the first entry
        for entry in range(entry_begins[group], entry_begins[group + 1]):
            for event in range(event_begins[entry], event_begins[entry + 1]):
                value = events[event] - first
                counts[value] += changes[event]
                if value == best and changes[event] < 0:
                    most = -1
            if most < 0:
                best, most = -1, 0
                for value in range(stop - first):
                    if counts[value] > most:
                        best, most = value, counts[value]
            else:
                for event in range(event_begins[entry], event_begins[entry + 1]):
                    value = events[event] - first
                    if counts[value] > most or (counts[value] == most and value < best):
                        best, most = value, counts[value]
            if best >= 0 and most > 0:
                found[entry] = first + best
    return found
