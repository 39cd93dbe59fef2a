"""Kernels over containers: sets of places below 65,536, each a sorted list or a bitmap.

A list takes 2 bytes a place, a bitmap one bit for each place up to its last; whichever is smaller
is stored. Since a bitmap is only taken if it is strictly smaller, the number of places and of bytes
tell which it is. This is the idea of Roaring bitmaps (Chambi, Lemire and others, 2016).

Cost: about 2 ns a place to pack and to unpack a list, 0.3 ns a bit of a bitmap.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bytes, Hashes, Ints, Ints32, Uints16


@njit(cache=True, nogil=True)
def pack_places(places: Uints16, bounds: Ints) -> tuple[Ints32, Bytes]:
    """Pack sets of ascending places, set i from `bounds[i]` to `bounds[i + 1]`; none is empty."""
    n_sets = len(bounds) - 1
    offsets = np.zeros(n_sets + 1, np.int32)
    for number in range(n_sets):
        n_places = bounds[number + 1] - bounds[number]
        last = np.int64(places[bounds[number + 1] - 1])
        offsets[number + 1] = offsets[number] + min(2 * n_places, last // 8 + 1)
    data = np.zeros(offsets[n_sets], np.uint8)
    for number in range(n_sets):
        first, stop = bounds[number], bounds[number + 1]
        begin = np.int64(offsets[number])
        if offsets[number + 1] - begin == 2 * (stop - first):
            for at in range(first, stop):
                data[begin + 2 * (at - first)] = places[at] & 0xFF
                data[begin + 2 * (at - first) + 1] = places[at] >> 8
        else:
            for at in range(first, stop):
                data[begin + places[at] // 8] |= np.uint8(1 << (places[at] % 8))
    return offsets, data


@njit(cache=True, nogil=True)
def unpack_places(
    blocks: Hashes, counts: Ints32, offsets: Ints32, data: Bytes, newest: Ints, begin: int
) -> Hashes:
    """Return the members of sets, one behind the other: 65,536 times the set's block, and a place.

    A set of negative size lists whole members, of 8 bytes each. Sets whose newest time is before
    `begin` are left out.
    """
    found = np.empty(size_of_sets(counts, newest, begin), np.uint64)
    unpack_sets(blocks, counts, offsets, data, newest, begin, found)
    return found


@njit(cache=True, nogil=True)
def size_of_sets(counts: Ints32, newest: Ints, begin: int) -> int:
    """Return how many members sets have that are not too old."""
    total = 0
    for number in range(len(counts)):
        if newest[number] >= begin:
            total += abs(counts[number])
    return total


@njit(cache=True, nogil=True)
def unpack_sets(
    blocks: Hashes,
    counts: Ints32,
    offsets: Ints32,
    data: Bytes,
    newest: Ints,
    begin: int,
    found: Hashes,
) -> int:
    """Write the members of sets, as `unpack_places` finds them; return how many they are."""
    at = 0
    for number in range(len(counts)):
        if newest[number] < begin:
            continue
        base = blocks[number] << np.uint64(16)
        packed = data[offsets[number] : offsets[number + 1]]
        if counts[number] < 0:
            at = _whole(packed, found, at)
        elif len(packed) == 2 * counts[number]:
            at = _listed(packed, base, found, at)
        else:
            at = _marked(packed, base, found, at)
    return at


@njit(cache=True, nogil=True)
def _whole(packed: Bytes, found: Hashes, at: int) -> int:
    """Read members of 8 bytes each; return the place behind them."""
    for first in range(0, len(packed), 8):
        member = np.uint64(0)
        for byte in range(8):
            member |= np.uint64(packed[first + byte]) << np.uint64(8 * byte)
        found[at] = member
        at += 1
    return at


@njit(cache=True, nogil=True)
def _listed(packed: Bytes, base: np.uint64, found: Hashes, at: int) -> int:
    """Read places of 2 bytes each; return the place behind them."""
    for first in range(0, len(packed), 2):
        place = np.uint64(packed[first]) | np.uint64(packed[first + 1]) << np.uint64(8)
        found[at] = base + place
        at += 1
    return at


@njit(cache=True, nogil=True)
def _marked(packed: Bytes, base: np.uint64, found: Hashes, at: int) -> int:
    """Read places from a bitmap; return the place behind them."""
    for byte in range(len(packed)):
        bits = np.int64(packed[byte])
        for bit in range(8):
            if bits >> bit & 1:
                found[at] = base + np.uint64(8 * byte + bit)
                at += 1
    return at
