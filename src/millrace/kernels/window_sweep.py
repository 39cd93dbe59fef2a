"""Kernels of window joins by stabbing sets: a sweep like that of `select_sweep`, over skylines.

What a segment has of a group is not two codes here but two skylines, one to either side of the
group's point: near rows that are old, and farther ones that are newer. A query reaches some of
them by its range; the farthest it reaches is the newest, and it is affected if its window is as
long as the driver is newer than that. By low end, which rises, queries reach less and less far:

    queries by low end   0 1 1 0 1 | 0 1 0 | 1 1 1 0 | ...     a bit: it selects the driver
    newest row reached   12:04       12:01   11:40             a *step* ends at each bar

so a step is a range of bits with one time. Steps depend on the segment and the group alone and are
found once for all drivers of a segment. A word of 64 queries is passed over if the longest of
their windows is too short.

Cost: 100 ns a segment and group; then 2 ns for each query that reaches a row, selects the driver
and is in a word with a window that is long enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bits, Ints, Ints32
from millrace.kernels.box_bits import lowest_one
from millrace.kernels.segments import first_above, first_not_below, with_room
from millrace.kernels.select_scan import Probes
from millrace.kernels.window_links import NONE
from millrace.kernels.window_scans import PAIRED, Moments

_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class Groups(NamedTuple):
    """Groups of queries by their points, each listed by low end and by the complement of the high.

    The bits of a group begin with a word; `low_of_high` is the bit in the one list of one in the
    other. Widths are windows in either order, with the longest of each word and group.
    """

    points: Ints
    word_first: Ints
    sizes: Ints
    low: Ints
    high: Ints
    low_slots: Ints
    high_slots: Ints
    low_of_high: Ints
    low_widths: Ints
    high_widths: Ints
    low_widest: Ints
    high_widest: Ints
    widest: Ints


class Turns(NamedTuple):
    """When queries enter or leave, by code, and their two bits."""

    codes: Ints
    low_bits: Ints
    high_bits: Ints


class Skylines(NamedTuple):
    """For each segment its chances: a group, the newest row it may reach, and its steps.

    Steps `step_first[2 c] .. step_first[2 c + 1]` of chance c are to the left of the point, those
    up to `step_first[2 c + 2]` to the right. A step has the bit where it stops, and a time.
    """

    first: Ints
    groups: Ints
    newest: Ints
    step_first: Ints
    stops: Ints
    times: Ints


@njit(cache=True, nogil=True)
def locate(
    probes: Probes, moments: Moments, previous: Ints, following: Ints, groups: Groups, oldest: Ints
) -> Skylines:
    """Find the steps of each segment and group; rows older than `oldest[segment]` reach no one."""
    n_segments = probes.firsts.size
    first = np.zeros(n_segments + 1, np.int64)
    chances, newest = np.empty(256, np.int64), np.empty(256, np.int64)
    step_first = np.zeros(513, np.int64)
    stops, times = np.empty(256, np.int64), np.empty(256, np.int64)
    used, n_steps = 0, 0
    for segment in range(n_segments):
        start, end = probes.firsts[segment], probes.stops[segment]
        at = start
        for group in range(groups.points.size):
            at = first_not_below(probes.codes, at, end, groups.points[group])
            near = first_above(probes.codes, at, end, groups.points[group]) - 1
            bit = groups.word_first[group] << 6
            bit_stop = bit + groups.sizes[group]
            before = n_steps
            stops, times = (
                with_room(stops, n_steps, end - start),
                with_room(times, n_steps, end - start),
            )
            row = near if near >= start else NONE
            while row != NONE and probes.codes[row] >= groups.low[bit]:
                if moments.stored[row] >= oldest[segment]:
                    stops[n_steps] = first_above(groups.low, bit, bit_stop, probes.codes[row])
                    times[n_steps] = moments.stored[row]
                    n_steps += 1
                row = previous[row]
            middle = _turned(stops, times, before, n_steps)
            stops, times = (
                with_room(stops, middle, end - start),
                with_room(times, middle, end - start),
            )
            n_steps = middle
            row = at if at < end else NONE
            while row != NONE and ~probes.codes[row] >= groups.high[bit]:
                if moments.stored[row] >= oldest[segment]:
                    stops[n_steps] = first_above(groups.high, bit, bit_stop, ~probes.codes[row])
                    times[n_steps] = moments.stored[row]
                    n_steps += 1
                row = following[row]
            n_steps = _turned(stops, times, middle, n_steps)
            if n_steps == before:
                continue
            chances, newest = with_room(chances, used, 1), with_room(newest, used, 1)
            step_first = with_room(step_first, 2 * used + 1, 2)
            chances[used] = group
            newest[used] = max(
                times[before] if middle > before else times[middle],
                times[middle] if n_steps > middle else times[before],
            )
            step_first[2 * used + 1], step_first[2 * used + 2] = middle, n_steps
            used += 1
        first[segment + 1] = used
    return Skylines(
        first,
        chances[:used],
        newest[:used],
        step_first[: 2 * used + 1],
        stops[:n_steps],
        times[:n_steps],
    )


@njit(cache=True, nogil=True)
def _turned(stops: Ints, times: Ints, first: int, stop: int) -> int:
    """Put steps that were found from near to far into the order of bits; drop those without any.

    Returns where they stop now.
    """
    low, high = first, stop - 1
    while low < high:
        stops[low], stops[high] = stops[high], stops[low]
        times[low], times[high] = times[high], times[low]
        low += 1
        high -= 1
    used = first
    for step in range(first, stop):
        if used == first or stops[step] > stops[used - 1]:
            stops[used], times[used] = stops[step], times[step]
            used += 1
    return used


@njit(cache=True, nogil=True)
def sweep(
    probes: Probes,
    moments: Moments,
    order: Ints,
    skylines: Skylines,
    groups: Groups,
    turns: tuple[Turns, Turns],
    mode: int,
) -> tuple[Ints32, Ints, Ints]:
    """Return how many queries each driver affects and, if PAIRED, which ones."""
    enter, leave = turns
    counts = np.zeros(probes.drivers.size, np.int32)
    drivers, slots = np.empty(1024, np.int64), np.empty(1024, np.int64)
    low_words = np.zeros(groups.word_first[-1], np.uint64)
    high_words = np.zeros(groups.word_first[-1], np.uint64)
    n_entered, n_left, used = 0, 0, 0
    for driver in order:
        code = probes.drivers[driver]
        # A range begins at its low end, and ends behind its high end.
        n_entered = _turn(n_entered, code + 1, enter, low_words, high_words)
        n_left = _turn(n_left, code, leave, low_words, high_words)
        now, segment, before = moments.drivers[driver], probes.segments[driver], used
        for chance in range(skylines.first[segment], skylines.first[segment + 1]):
            group = skylines.groups[chance]
            if now - skylines.newest[chance] <= groups.widest[group]:
                slots = with_room(slots, used, groups.sizes[group])
                used = _spell_left(now, chance, skylines, low_words, groups, slots, used)
                used = _spell_right(now, chance, skylines, high_words, groups, slots, used)
        counts[driver] = used - before
        if mode == PAIRED:
            drivers = with_room(drivers, before, used - before)
            drivers[before:used] = driver
        else:
            used = 0
    return counts, drivers[:used], slots[:used]


@njit(cache=True, nogil=True)
def _turn(at: int, code: int, turns: Turns, low_words: Bits, high_words: Bits) -> int:
    """Flip the bits of queries from `at` on whose turn is before a code; return the next one."""
    while at < turns.codes.size and turns.codes[at] < code:
        low, high = turns.low_bits[at], turns.high_bits[at]
        low_words[low >> 6] ^= _ONE << np.uint64(low & 63)
        high_words[high >> 6] ^= _ONE << np.uint64(high & 63)
        at += 1
    return at


@njit(cache=True, nogil=True)
def _spell_left(
    now: int,
    chance: int,
    skylines: Skylines,
    words: Bits,
    groups: Groups,
    slots: Ints,
    used: int,
) -> int:
    """Write the slots of queries that reach a row on the left; return how many there are now."""
    bit = groups.word_first[skylines.groups[chance]] << 6
    for step in range(skylines.step_first[2 * chance], skylines.step_first[2 * chance + 1]):
        age, stop = now - skylines.times[step], skylines.stops[step]
        for word in range(bit >> 6, (stop + 63) >> 6):
            if groups.low_widest[word] < age:
                continue
            bits = _within(words[word], word, bit, stop)
            while bits:
                at = 64 * word + lowest_one(bits)
                slots[used] = groups.low_slots[at]
                used += groups.low_widths[at] >= age
                bits &= bits - _ONE
        bit = stop
    return used


@njit(cache=True, nogil=True)
def _spell_right(
    now: int,
    chance: int,
    skylines: Skylines,
    words: Bits,
    groups: Groups,
    slots: Ints,
    used: int,
) -> int:
    """Write the slots of queries that reach a row on the right, and none on the left."""
    first, middle, end = skylines.step_first[2 * chance : 2 * chance + 3]
    bit = groups.word_first[skylines.groups[chance]] << 6
    for step in range(middle, end):
        age, stop = now - skylines.times[step], skylines.stops[step]
        for word in range(bit >> 6, (stop + 63) >> 6):
            if groups.high_widest[word] < age:
                continue
            bits = _within(words[word], word, bit, stop)
            while bits:
                at = 64 * word + lowest_one(bits)
                bits &= bits - _ONE
                width, low_bit = groups.high_widths[at], groups.low_of_high[at]
                if width >= age and not _spelt(low_bit, now - width, first, middle, skylines):
                    slots[used] = groups.high_slots[at]
                    used += 1
        bit = stop
    return used


@njit(cache=True, nogil=True)
def _within(bits: np.uint64, word: int, bit: int, stop: int) -> np.uint64:
    """Return the bits of a word that are in [bit, stop)."""
    if bit > word << 6:
        bits &= _ALL << np.uint64(bit & 63)
    if stop < (word + 1) << 6:
        bits &= (_ONE << np.uint64(stop & 63)) - _ONE
    return bits


@njit(cache=True, nogil=True)
def _spelt(low_bit: int, since: int, first: int, middle: int, skylines: Skylines) -> bool:
    """Whether a query is affected by a row on the left."""
    for step in range(first, middle):
        if low_bit < skylines.stops[step]:
            return bool(skylines.times[step] >= since)
    return False
