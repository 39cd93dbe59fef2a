"""Kernels that hash values to 64 bits, the same on every machine and for ever.

The hash of a value is XXH64 (Collet, the XXH64 specification 0.2) of its canonical bytes,
little-endian, with seed 0: 8 bytes for every number, the bytes themselves for text. NULL has
the fixed hash `NULL_HASH`. Several values are folded from left to right by `combine`, which is
XXH64 of the second hash with the first as its seed.

XXH64 was chosen because it has a published specification that other languages implement, and
because its upper bits are as good as its lower ones: the top 10 bits are a row's bucket.

Cost: 2 to 3 ns for a number, about 17 ns for a text of 10 bytes, on one busy core of ours.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bools, Bytes, Hashes, Ints, Ints32

NULL_HASH = np.uint64(0x9AE16A3B2F90404F)

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_EIGHT = np.uint64(8)
_ZERO = np.uint64(0)


@njit(cache=True, nogil=True, inline="always")
def _rotate(word, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return (word << np.uint64(count)) | (word >> np.uint64(64 - count))


@njit(cache=True, nogil=True, inline="always")
def _round(lane, word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return _rotate(lane + word * _PRIME_2, 31) * _PRIME_1


@njit(cache=True, nogil=True, inline="always")
def _finish(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    word = (word ^ (word >> np.uint64(33))) * _PRIME_2
    word = (word ^ (word >> np.uint64(29))) * _PRIME_3
    return word ^ (word >> np.uint64(32))


@njit(cache=True, nogil=True, inline="always")
def _hash_word(word, seed):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    total = seed + _PRIME_5 + _EIGHT
    total = _rotate(total ^ _round(_ZERO, word), 27) * _PRIME_1 + _PRIME_4
    return _finish(total)


@njit(cache=True, nogil=True, inline="always")
def _load(data, at, n_bytes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    word = _ZERO
    for index in range(n_bytes):
        word |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return word


@njit(cache=True, nogil=True)
def _hash_span(data, first, stop):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = first
    if stop - first >= 32:
        lane_1, lane_2 = _PRIME_1 + _PRIME_2, _PRIME_2
        lane_3, lane_4 = _ZERO, _ZERO - _PRIME_1
        while at + 32 <= stop:
            lane_1 = _round(lane_1, _load(data, at, 8))
            lane_2 = _round(lane_2, _load(data, at + 8, 8))
            lane_3 = _round(lane_3, _load(data, at + 16, 8))
            lane_4 = _round(lane_4, _load(data, at + 24, 8))
            at += 32
        total = _rotate(lane_1, 1) + _rotate(lane_2, 7) + _rotate(lane_3, 12) + _rotate(lane_4, 18)
        for lane in (lane_1, lane_2, lane_3, lane_4):
            total = (total ^ _round(_ZERO, lane)) * _PRIME_1 + _PRIME_4
    else:
        total = _PRIME_5
    total += np.uint64(stop - first)
    while at + 8 <= stop:
        total = _rotate(total ^ _round(_ZERO, _load(data, at, 8)), 27) * _PRIME_1 + _PRIME_4
        at += 8
    if at + 4 <= stop:
        total = _rotate(total ^ (_load(data, at, 4) * _PRIME_1), 23) * _PRIME_2 + _PRIME_3
        at += 4
    while at < stop:
        total = _rotate(total ^ (np.uint64(data[at]) * _PRIME_5), 11) * _PRIME_1
        at += 1
    return _finish(total)


@njit(cache=True, nogil=True)
def hash_ints(values: Ints) -> Hashes:
    """Hash each integer by its 8 bytes."""
    hashes = np.empty(values.size, np.uint64)
    for row in range(values.size):
        hashes[row] = _hash_word(np.uint64(values[row]), _ZERO)
    return hashes


@njit(cache=True, nogil=True)
def hash_bytes(offsets: Ints32, data: Bytes) -> Hashes:
    """Hash the bytes `data[offsets[i]:offsets[i + 1]]` of each value."""
    hashes = np.empty(offsets.size - 1, np.uint64)
    for row in range(offsets.size - 1):
        hashes[row] = _hash_span(data, offsets[row], offsets[row + 1])
    return hashes


@njit(cache=True, nogil=True)
def combine(left: Hashes, right: Hashes) -> Hashes:
    """Fold two hashes of each row into one; the order counts."""
    hashes = np.empty(left.size, np.uint64)
    for row in range(left.size):
        hashes[row] = _hash_word(right[row], left[row])
    return hashes


@njit(cache=True, nogil=True)
def set_nulls(hashes: Hashes, valid: Bools) -> None:
    """Give each row that is not valid the hash of NULL, in place."""
    for row in range(hashes.size):
        if not valid[row]:
            hashes[row] = NULL_HASH
