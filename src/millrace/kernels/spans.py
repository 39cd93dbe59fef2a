"""Kernels over spans of rows in mapped blocks: those of one key stand together, in order of time.

Blocks are known by the addresses of their columns, as in `kernels.mapped`. Rows of a span are found
by bisection, first of the key and then of the times, and copied column by column, all at once.

Cost: 2 us a call, 0.2 us a block, and what it takes to copy memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from millrace.kernels.arrays import Bytes, Hashes, Ints, Ints32
from millrace.kernels.mapped import BIT, pointer
from millrace.kernels.sorted_keys import leap


def _memcpy(_context, _into, _source, _n_bytes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    def generate(context, builder, _signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        into, source = (builder.inttoptr(each, cgutils.voidptr_t) for each in arguments[:2])
        cgutils.raw_memcpy(builder, into, source, arguments[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.int64), generate


_copy = cast(Callable[[np.uint64, np.uint64, int], None], intrinsic(_memcpy))
"""Copy so many bytes to an address from another; a loop over them takes eight times as long."""


@njit(cache=True, nogil=True)
def spans_of_key(
    bases: Hashes, sizes: Ints, chosen: Ints, wanted: np.uint64, begin: int, latest: int
) -> tuple[Ints, Ints, Ints]:
    """Return where rows of a key and of some times stand: their blocks, first rows, and numbers.

    The first columns are the keys and the times; rows ascend by both. A block without any is left
    out.
    """
    n_chosen = len(chosen)
    blocks, firsts = np.empty(n_chosen, np.int64), np.empty(n_chosen, np.int64)
    counts = np.empty(n_chosen, np.int64)
    found = 0
    for block in chosen:
        keys = carray(pointer(bases[block, 0]), sizes[block], np.uint64)
        first = leap(keys, wanted, 0)
        stop = first if first == len(keys) or keys[first] != wanted else _behind(keys, wanted)
        times = carray(pointer(bases[block, 1]), sizes[block], np.int64)
        first = _not_before(times, begin, first, stop)
        if latest < np.iinfo(np.int64).max:
            stop = _not_before(times, latest + 1, first, stop)
        if first < stop:
            blocks[found], firsts[found], counts[found] = block, first, stop - first
            found += 1
    return blocks[:found], firsts[:found], counts[:found]


@njit(cache=True, nogil=True)
def _behind(keys: Hashes, wanted: np.uint64) -> int:
    """Return where the first key that is greater stands."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _not_before(times: Ints, wanted: int, low: int, high: int) -> int:
    """Return where the first time that is not earlier stands, of ascending ones from a place on."""
    while low < high:
        middle = (low + high) // 2
        if times[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def copy_spans(
    bases: Hashes,
    widths: Ints,
    blocks: Ints,
    firsts: Ints,
    counts: Ints,
    starts: Ints,
    absent: Ints,
) -> Bytes:
    """Return the values of spans, one column behind the other, each from its place of `starts` on.

    `widths` are those of values in bytes, or `BIT`. A column of 8 bytes that a block lacks, so that
    its address is 0, has the value that `absent` gives for the block.
    """
    found = np.empty(starts[-1], np.uint8)
    for column in range(len(widths)):
        width, into = widths[column], starts[column]
        if width == BIT:
            _copy_bits(bases, column, blocks, firsts, counts, found[into : starts[column + 1]])
            continue
        for span in range(len(blocks)):
            size, base = counts[span] * width, bases[blocks[span], column]
            if base:
                source = base + np.uint64(firsts[span] * width)
                _copy(np.uint64(found.ctypes.data + into), source, size)
            else:
                found[into : into + size].view(np.int64)[:] = absent[blocks[span]]
            into += size
    return found


@njit(cache=True, nogil=True)
def _copy_bits(
    bases: Hashes, column: int, blocks: Ints, firsts: Ints, counts: Ints, copied: Bytes
) -> None:
    """Copy the bits of spans, one behind the other, whatever bits of bytes they begin at."""
    copied[:] = 0
    into = 0
    for span in range(len(blocks)):
        source = bases[blocks[span], column]
        skipped = np.int64(source & np.uint64(7)) + firsts[span]
        n_bytes = (skipped + counts[span] + 7) // 8
        values = carray(pointer(source >> np.uint64(3)), n_bytes, np.uint8)
        for bit in range(skipped, skipped + counts[span]):
            copied[into >> 3] |= np.uint8(((values[bit >> 3] >> (bit & 7)) & 1) << (into & 7))
            into += 1


@njit(cache=True, nogil=True)
def copy_texts(
    bases: Hashes, column: int, blocks: Ints, firsts: Ints, counts: Ints
) -> tuple[Ints32, Bytes]:
    """Return where the texts of spans begin and end, and their bytes.

    The addresses of offsets are those of `column`, and of bytes those of the next.
    """
    ends = np.zeros(counts.sum() + 1, np.int32)
    total = 0
    for span in range(len(blocks)):
        first, stop = firsts[span], firsts[span] + counts[span]
        offsets = carray(pointer(bases[blocks[span], column]), stop + 1, np.int32)
        total += int(offsets[stop] - offsets[first])
    assert total < 1 << 31, "an array of texts has at most 2 GB"
    data = np.empty(total, np.uint8)
    row = into = 0
    for span in range(len(blocks)):
        first, stop = firsts[span], firsts[span] + counts[span]
        offsets = carray(pointer(bases[blocks[span], column]), stop + 1, np.int32)
        begin, size = int(offsets[first]), int(offsets[stop] - offsets[first])
        for at in range(first, stop):
            row += 1
            ends[row] = into + int(offsets[at + 1]) - begin
        if size:
            source = bases[blocks[span], column + 1] + np.uint64(begin)
            _copy(np.uint64(data.ctypes.data + into), source, size)
            into += size
    return ends, data
