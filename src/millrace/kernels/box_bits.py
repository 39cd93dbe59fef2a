"""Words of 64 bits, and buffers that grow: what the kernels over boxes share.

A kernel that finds pairs does not know how many there will be. It writes them to two buffers and
asks for larger ones when they are full; doubling keeps the copying below one write a pair.

Counting the bits of a column of words (one word a row, one bit a box) asks for 64 sums at once.
`add_columns` turns a square of 64 x 64 bits on its diagonal, by swapping halves six times, and
then counts whole words (Warren, Hacker's Delight, 7-3).

Cost: one cycle for a count of ones, about 350 ns for a square, a few ns for each set bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from millrace.kernels.arrays import Bits, Ints32

ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_LOW_HALF = np.uint64(0x00000000FFFFFFFF)
_SPARSE = 128  # set bits in a square, below which visiting each is cheaper than turning it


def _count_ones(_context, _word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    def generate(_target, builder, _signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _lowest_one(_context, _word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    def generate(_target, builder, _signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


Count: TypeAlias = Callable[[np.uint64], int]

count_ones = cast(Count, intrinsic(_count_ones))
"""The number of set bits of a uint64: one instruction, which LLVM can vectorise."""
lowest_one = cast(Count, intrinsic(_lowest_one))
"""The position of the lowest set bit of a uint64; 64 if there is none."""


@njit(cache=True, nogil=True)
def grown(buffer: Ints32, n_used: int, n_needed: int) -> Ints32:
    """Return a buffer of at least twice the size and `n_needed`, with what was used."""
    larger = np.empty(max(2 * buffer.size, n_needed), np.int32)
    larger[:n_used] = buffer[:n_used]
    return larger


@njit(cache=True, nogil=True)
def add_columns(square: Bits, ids: Ints32, first: int, counts: Ints32) -> None:
    """Add to `counts[ids[first + bit]]` the number of words of `square` that have that bit.

    `square` has 64 words and is destroyed. Bits beyond the last id are clear.
    """
    total = 0
    for row in range(64):
        total += count_ones(square[row])
    if total == 0:
        return
    if total < _SPARSE:
        for row in range(64):
            word = square[row]
            while word:
                counts[ids[first + lowest_one(word)]] += 1
                word &= word - _ONE
        return
    _turn(square)
    for bit in range(min(64, ids.size - first)):
        counts[ids[first + bit]] += count_ones(square[bit])


@njit(cache=True, nogil=True)
def _turn(square: Bits) -> None:
    """Swap bit j of word i with bit i of word j."""
    width = 32
    mask = _LOW_HALF
    while width:
        shift = np.uint64(width)
        for block in range(0, 64, 2 * width):
            for low in range(block, block + width):
                high = low + width
                swap = ((square[low] >> shift) ^ square[high]) & mask
                square[low] ^= swap << shift
                square[high] ^= swap
        width >>= 1
        mask ^= mask << np.uint64(width)
