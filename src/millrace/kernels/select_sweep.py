"""Kernels of select joins by stabbing sets: a batch of drivers swept over groups of queries.

Queries are parted by their stored range; all of a group hold its point p. What a segment has of
that group is decided by two stored codes, the nearest to the left of p and the nearest to its
right: a query is affected if its range reaches one of them. So a segment and a group come to two
*prefixes*, of the group's queries by low end and by high end, and that is done once for all drivers
of a segment (`locate`).

    by low end     1 1 0 1 0 0 1 | 0 1 1     left prefix: low <= nearest to the left
    by high end    0 1 1 0 | 1 0 0 1 1 0     right prefix: high >= nearest to the right
                   a bit is set while the query selects the driver

Drivers are taken in the order of their codes; a query's two bits are set when its range begins and
cleared when it has ended, and a count before each word makes the ones of a prefix two loads and a
count. So a driver and a group cost the same however many queries there are. What begins and what
ends is one list by code, so that a driver asks once whether something is due. The state of the bits
is kept for some codes (*cells*), where a sweep can begin.

Cost: 60 ns a segment and group with a chance, 10 ns to set or to clear the bits of a query, then
6 ns a driver and group; 3 ns a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bits, Ints, Ints32
from millrace.kernels.box_bits import count_ones, lowest_one
from millrace.kernels.segments import first_above, first_not_below
from millrace.kernels.select_scan import Probes

_ONE = np.uint64(1)
_MANY = 128


class Groups(NamedTuple):
    """Groups by their points, and two lists of the queries of each, by low and by high end.

    The bits of group g begin with word `word_first[g]`, and one is always to spare; entry i of its
    lists has bit i - `shifts[g]`. `reach_low[g]` is the least low end of group g and those behind
    it, `reach_high[g]` the greatest high end of group g and those before it. High ends are
    complements, so that both lists ascend. `low_of_high` tells a query's place in the other list.
    """

    points: Ints
    word_first: Ints
    shifts: Ints
    sizes: Ints
    reach_low: Ints
    reach_high: Ints
    low: Ints
    high: Ints
    low_slots: Ints
    high_slots: Ints
    low_of_high: Ints32
    high_of_low: Ints32


class Turns(NamedTuple):
    """Where queries enter or leave, by code: their two bits, and the words of their group.

    A range is entered at its low end and left behind its high end; `steps` are 1 and -1.
    `word_stops` is -1 for a query that is gone.
    """

    codes: Ints
    steps: Ints32
    low_bits: Ints32
    high_bits: Ints32
    word_firsts: Ints32
    word_stops: Ints32


class Cells(NamedTuple):
    """The state at some codes: how many turns are behind it, and the bits."""

    codes: Ints
    turned: Ints
    low_words: Bits
    high_words: Bits


class Chances(NamedTuple):
    """For each segment, the groups it may affect and the ends of their prefixes, as bits."""

    first: Ints
    groups: Ints32
    low_stops: Ints32
    high_stops: Ints32


@njit(cache=True, nogil=True)
def locate(probes: Probes, groups: Groups) -> Chances:
    """Find for each segment the groups of which it may affect some queries."""
    first = np.zeros(probes.firsts.size + 1, np.int64)
    found = np.empty((256, 3), np.int32)
    used = 0
    n_groups = groups.points.size
    for segment in range(probes.firsts.size):
        begin, end = probes.firsts[segment], probes.stops[segment]
        at, group = begin, 0
        while group < n_groups:
            at = first_not_below(probes.codes, at, end, groups.points[group])
            left = probes.codes[at - 1] if at > begin else np.iinfo(np.int64).min
            right = probes.codes[at] if at < end else np.iinfo(np.int64).max
            stop = first_above(groups.points, group, n_groups, right)
            if stop - group + used > found.shape[0]:
                found = _longer(found, used, stop - group)
            used = _between(group, stop, left, right, groups, found, used)
            group = stop
        first[segment + 1] = used
    return Chances(first, found[:used, 0].copy(), found[:used, 1].copy(), found[:used, 2].copy())


@njit(cache=True, nogil=True)
def _longer(found: Ints32, n_used: int, n_more: int) -> Ints32:
    larger = np.empty((max(2 * found.shape[0], n_used + n_more), 3), np.int32)
    larger[:n_used] = found[:n_used]
    return larger


@njit(cache=True, nogil=True)
def _between(
    first: int, stop: int, left: int, right: int, groups: Groups, found: Ints32, used: int
) -> int:
    """Write the chances of the groups between two stored codes; return how many there are now."""
    behind = first
    while behind < stop and groups.reach_low[behind] <= left:
        behind += 1
    before = stop
    while before > behind and groups.reach_high[before - 1] >= right:
        before -= 1
    for part in range(2):
        for group in range(first if part == 0 else before, behind if part == 0 else stop):
            bit, size = groups.word_first[group] << 6, groups.sizes[group]
            entry = bit + groups.shifts[group]
            if groups.points[group] == right:  # it is in every range of the group
                n_low, n_high = size, 0
            else:
                n_low = first_above(groups.low, entry, entry + size, left) - entry
                n_high = first_above(groups.high, entry, entry + size, ~right) - entry
                if n_low == size:
                    n_high = 0
            if n_low or n_high:
                found[used, 0], found[used, 1], found[used, 2] = group, bit + n_low, bit + n_high
                used += 1
    return used


@njit(cache=True, nogil=True)
def _flip(bit: int, words: Bits) -> int:
    """Flip a bit; return its word."""
    word = bit >> 6
    words[word] ^= _ONE << np.uint64(bit & 63)
    return word


@njit(cache=True, nogil=True)
def _turn(bit: int, first: int, stop: int, words: Bits, before: Ints32, step: int) -> None:
    """Flip a bit of the group with words [first, stop); `step` is 1 if that sets it.

    To go through all counts of a group and add nothing to some takes 4 ns for 56 words; to go
    through the later ones takes 14, as nobody can foresee how many these are.
    """
    word = _flip(bit, words)
    if stop - first > _MANY:
        first = word
    counts, behind = before[first:stop], np.int32(word - first)
    added = np.int32(step)
    for at in range(counts.size):
        counts[at] += added if np.int32(at) > behind else np.int32(0)


@njit(cache=True, nogil=True)
def _recount(words: Bits, word_first: Ints, before: Ints32) -> None:
    for group in range(word_first.size - 1):
        count = 0
        for word in range(word_first[group], word_first[group + 1]):
            before[word] = count
            count += count_ones(words[word])


@njit(cache=True, nogil=True)
def _ones(stop: int, words: Bits, before: Ints32) -> int:
    """Return how many bits of a group are set before a bit."""
    word = stop >> 6
    mask = (_ONE << np.uint64(stop & 63)) - _ONE
    return int(before[word] + count_ones(words[word] & mask))


@njit(cache=True, nogil=True)
def snapshots(codes: Ints, turns: Turns, n_words: int) -> Cells:
    """Keep the state at some ascending codes."""
    turned = np.empty(codes.size, np.int64)
    low_words = np.empty((codes.size, n_words), np.uint64)
    high_words = np.empty((codes.size, n_words), np.uint64)
    low, high = np.zeros(n_words, np.uint64), np.zeros(n_words, np.uint64)
    at = 0
    for cell in range(codes.size):
        while at < turns.codes.size and turns.codes[at] <= codes[cell]:
            if turns.word_stops[at] >= 0:
                _flip(turns.low_bits[at], low)
                _flip(turns.high_bits[at], high)
            at += 1
        turned[cell] = at
        low_words[cell], high_words[cell] = low, high
    return Cells(codes, turned, low_words, high_words)


@njit(cache=True, nogil=True)
def _due(at: int, turns: Turns) -> int:
    """Return the code of a turn; behind the last there is one that no driver has."""
    return int(turns.codes[at]) if at < turns.codes.size else np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def _cell_at(code: int, cell: int, cells: Cells) -> int:
    """Return the last cell that is not behind a code, from one on; -1 is before the first."""
    while cell + 1 < cells.codes.size and cells.codes[cell + 1] <= code:
        cell += 1
    return cell


@njit(cache=True, nogil=True)
def _turn_all(
    at: int, code: int, turns: Turns, low: tuple[Bits, Ints32], high: tuple[Bits, Ints32]
) -> tuple[int, int]:
    """Do the turns from `at` on up to a code; return the next one, and when it is due."""
    due = _due(at, turns)
    while due <= code:
        first, stop, step = turns.word_firsts[at], turns.word_stops[at], turns.steps[at]
        if stop >= 0:
            _turn(turns.low_bits[at], first, stop, low[0], low[1], step)
            _turn(turns.high_bits[at], first, stop, high[0], high[1], step)
        at += 1
        due = _due(at, turns)
    return at, due


@njit(cache=True, nogil=True)
def sweep(
    probes: Probes,
    order: Ints,
    chances: Chances,
    groups: Groups,
    turning: tuple[Turns, Cells],
    described: Ints32,
    paired: tuple[Ints, Ints],
) -> tuple[int, int]:
    """Write what drivers affect; return how many descriptors, and how many pairs.

    A descriptor is (driver, group, ones of the left prefix, ones of the right); `described` has
    room for all of them, or for one, and then pairs are counted instead: exactly if `paired` has
    room and they are written, else at most.
    """
    turns, cells = turning
    word_first = groups.word_first
    n_words = word_first[-1]
    low_words, high_words = np.zeros(n_words, np.uint64), np.zeros(n_words, np.uint64)
    low_before, high_before = np.zeros(n_words, np.int32), np.zeros(n_words, np.int32)
    low, high = (low_words, low_before), (high_words, high_before)
    rows, slots = paired
    keep = int(described.shape[0] > 1)
    turned, cell, used, n_pairs = 0, -1, 0, 0
    due = _due(0, turns)
    for driver in order:
        code, segment = probes.drivers[driver], probes.segments[driver]
        cell = _cell_at(code, cell, cells)
        if cell >= 0 and 3 * (cells.turned[cell] - turned) > n_words:
            low_words[:], high_words[:] = cells.low_words[cell], cells.high_words[cell]
            turned = cells.turned[cell]
            due = _due(turned, turns)
            _recount(low_words, word_first, low_before)
            _recount(high_words, word_first, high_before)
        if due <= code:
            turned, due = _turn_all(turned, code, turns, low, high)
        n_before = n_pairs
        for chance in range(chances.first[segment], chances.first[segment + 1]):
            low_stop, high_stop = chances.low_stops[chance], chances.high_stops[chance]
            n_low = _ones(low_stop, low_words, low_before)
            n_high = _ones(high_stop, high_words, high_before)
            if slots.size:
                group = chances.groups[chance]
                first, shift = word_first[group], groups.shifts[group]
                if n_low:
                    listed = groups.low_slots
                    n_pairs = _spell(first, low_stop, low_words, shift, listed, slots, n_pairs)
                if n_high:
                    stops = (low_stop, high_stop)
                    words = (low_words, high_words)
                    n_pairs = _spell_others(group, stops, words, groups, slots, n_pairs)
            else:
                group = chances.groups[chance]
                described[used, 0], described[used, 1] = driver, group
                described[used, 2], described[used, 3] = n_low, n_high
                used += keep & (n_low + n_high > 0)
                if not keep:
                    last = word_first[group + 1] - 1
                    n_all = low_before[last] + count_ones(low_words[last])
                    n_pairs += min(n_low + n_high, n_all)
        if slots.size:
            rows[n_before:n_pairs] = driver
    return used, n_pairs


@njit(cache=True, nogil=True)
def _spell(
    first: int, stop: int, words: Bits, shift: int, listed: Ints, slots: Ints, used: int
) -> int:
    """Write the slots of the ones of a prefix; return how many are written now."""
    last = stop >> 6
    for word in range(first, last + 1):
        bits = words[word]
        if word == last:
            bits &= (_ONE << np.uint64(stop & 63)) - _ONE
        entry = 64 * word + shift
        while bits:
            slots[used] = listed[entry + lowest_one(bits)]
            bits &= bits - _ONE
            used += 1
    return used


@njit(cache=True, nogil=True)
def _spell_others(
    group: int,
    stops: tuple[int, int],
    words: tuple[Bits, Bits],
    groups: Groups,
    slots: Ints,
    used: int,
) -> int:
    """Write those of a group that are in the right prefix only, by the shorter of two ways."""
    low_stop, high_stop = stops
    first, shift = 64 * groups.word_first[group], groups.shifts[group]
    end = first + groups.sizes[group]
    if end - low_stop < high_stop - first:
        return _spell_rest((low_stop, end, high_stop), words[0], shift, groups, slots, used)
    return _spell_new((first, low_stop, high_stop), words[1], shift, groups, slots, used)


@njit(cache=True, nogil=True)
def _spell_rest(
    stops: tuple[int, int, int], words: Bits, shift: int, groups: Groups, slots: Ints, used: int
) -> int:
    """Write those that are not in the left prefix but in the right; go through what is not."""
    low_stop, end, high_stop = stops
    for word in range(low_stop >> 6, (end + 63) >> 6):
        bits = words[word]
        if word == low_stop >> 6:
            bits &= ~((_ONE << np.uint64(low_stop & 63)) - _ONE)
        while bits:
            entry = 64 * word + lowest_one(bits) + shift
            if groups.high_of_low[entry] - shift < high_stop:
                slots[used] = groups.low_slots[entry]
                used += 1
            bits &= bits - _ONE
    return used


@njit(cache=True, nogil=True)
def _spell_new(
    stops: tuple[int, int, int], words: Bits, shift: int, groups: Groups, slots: Ints, used: int
) -> int:
    """Write those that are in the right prefix but not in the left; go through the right."""
    first, low_stop, high_stop = stops
    for word in range(first >> 6, (high_stop >> 6) + 1):
        bits = words[word]
        if word == high_stop >> 6:
            bits &= (_ONE << np.uint64(high_stop & 63)) - _ONE
        while bits:
            entry = 64 * word + lowest_one(bits) + shift
            if groups.low_of_high[entry] - shift >= low_stop:
                slots[used] = groups.high_slots[entry]
                used += 1
            bits &= bits - _ONE
    return used
