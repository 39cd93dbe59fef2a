"""Kernels of band joins without groups: by queries, by stored rows, or by merging both.

    outer loop over queries       each bisects the stored values           n log m
    outer loop over stored rows   each stabs the bands in a tree           m log n + hits
    merge                         bands by low end along stored values     n + m

Each counts the affected queries of a probe, and names them if it is asked to `emit`. Values, bases
and bounds are as in `bands`.

Cost: about 40 ns for a query that bisects 100,000 values, 1 to 2 ns for a step of a merge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints, Ints32, Numbers
from millrace.kernels.bands import Probes, first_at_least
from millrace.kernels.segments import with_room


class Bands(NamedTuple):
    """Bands one by one, in an order that the kernel asks for."""

    lows: Numbers
    highs: Numbers
    ids: Ints


class Tree(NamedTuple):
    """A centred tree over bands, as in `box_stab`: `falls` are high ends with their sign turned."""

    centres: Numbers
    starts: Ints
    lows: Numbers
    low_ids: Ints
    falls: Numbers
    high_ids: Ints


class Hits(NamedTuple):
    """How many queries each probe affects; if asked for, the probes and queries of pairs."""

    counts: Ints32
    probes: Ints
    queries: Ints


@njit(cache=True, nogil=True)
def probe_each(probes: Probes, values: Numbers, bands: Bands, emit: np.bool_) -> Hits:
    """Let every query look for the first stored value in its band."""
    counts, used = np.zeros(probes.bases.size, np.int32), 0
    rows, queries = np.empty(64, np.int64), np.empty(64, np.int64)
    for probe in range(probes.bases.size):
        start, stop, base = probes.firsts[probe], probes.stops[probe], probes.bases[probe]
        for each in range(bands.ids.size):
            first = first_at_least(values, start, stop, base, bands.lows[each])
            hit = first < stop and values[first] - base <= bands.highs[each]
            if emit and hit:
                rows, queries = with_room(rows, used, 1), with_room(queries, used, 1)
                rows[used], queries[used] = probe, bands.ids[each]
                used += 1
            counts[probe] += hit
    return Hits(counts, rows[:used], queries[:used])


@njit(cache=True, nogil=True)
def merge(probes: Probes, values: Numbers, bands: Bands, emit: np.bool_) -> Hits:
    """Walk along bands by rising low end, and along stored values with them."""
    counts, used = np.zeros(probes.bases.size, np.int32), 0
    rows, queries = np.empty(64, np.int64), np.empty(64, np.int64)
    for probe in range(probes.bases.size if bands.ids.size else 0):
        stop, base = probes.stops[probe], probes.bases[probe]
        first = first_at_least(values, probes.firsts[probe], stop, base, bands.lows[0])
        if not emit:
            counts[probe] = _n_merged(values, first, stop, base, bands)
            continue
        before = used
        for each in range(bands.ids.size):
            while first < stop and values[first] - base < bands.lows[each]:
                first += 1
            if first == stop:
                break
            if values[first] - base <= bands.highs[each]:
                rows, queries = with_room(rows, used, 1), with_room(queries, used, 1)
                rows[used], queries[used] = probe, bands.ids[each]
                used += 1
        counts[probe] = used - before
    return Hits(counts, rows[:used], queries[:used])


@njit(cache=True, nogil=True)
def _n_merged(values: Numbers, first: int, stop: int, base: float, bands: Bands) -> int:
    """Count as `merge` does; a loop that writes nothing is three times as fast."""
    count = 0
    for each in range(bands.ids.size):
        while first < stop and values[first] - base < bands.lows[each]:
            first += 1
        if first == stop:
            break
        count += values[first] - base <= bands.highs[each]
    return count


@njit(cache=True, nogil=True)
def stab_each(probes: Probes, values: Numbers, tree: Tree, n_slots: int, emit: np.bool_) -> Hits:
    """Let every stored row look for the bands that hold its difference; a query is met once."""
    counts, used = np.zeros(probes.bases.size, np.int32), 0
    rows, queries = np.empty(64, np.int64), np.empty(64, np.int64)
    met = np.full(n_slots, -1, np.int64)
    for probe in range(probes.bases.size):
        for row in range(probes.firsts[probe], probes.stops[probe]):
            difference = values[row] - probes.bases[probe]
            low, high = 0, tree.centres.size
            while low < high:
                middle = (low + high) >> 1
                centre = tree.centres[middle]
                early = difference <= centre
                bounds, ids = (tree.lows, tree.low_ids) if early else (tree.falls, tree.high_ids)
                limit = difference if early else -difference
                for entry in range(tree.starts[middle], tree.starts[middle + 1]):
                    if bounds[entry] > limit:
                        break
                    query = ids[entry]
                    if met[query] != probe:
                        met[query] = probe
                        counts[probe] += 1
                        if emit:
                            rows, queries = with_room(rows, used, 1), with_room(queries, used, 1)
                            rows[used], queries[used] = probe, query
                            used += 1
                if difference < centre:
                    high = middle
                elif difference > centre:
                    low = middle + 1
                else:
                    break
    return Hits(counts, rows[:used], queries[:used])
