"""Kernels over columns of blocks that stand in mapped files, by the addresses of their values.

Whoever reads few rows looks into many blocks, each of many columns. To hand every one of them over
as an array costs more than what is done with it; so kernels get a table of addresses:

    bases        _key    _time   price            sizes
    block 0      0x7f…   0x7f…   0x7f…            65,536
    block 1      0x7f…   0x7f…   0x7f…            12,000

A truth is one bit: the address of a column of them is that of its first bit, eight times as large.

Invariant: for the blocks that are `chosen`, the addresses are good; whoever calls keeps the memory.

Cost: 2 us a call, 20 ns a row that is found, 2 ns a value that is gathered, 1 ns a byte of text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from millrace.kernels.arrays import Bytes, Hashes, Ints, Ints32
from millrace.kernels.containers import size_of_sets, unpack_sets
from millrace.kernels.sorted_keys import leap

BIT = 0
"""The width of a truth, which has no bytes of its own."""
_ANY = 1 << 40
"""More values than a block has, where it does not matter how many they are."""


def _pointer(_context, _address):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    def generate(_target, builder, _signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.uint64), generate


Pointer: TypeAlias = Callable[[np.uint64], Any]

pointer = cast(Pointer, intrinsic(_pointer))
"""The pointer to an address, for `carray`."""


@njit(cache=True, nogil=True)
def fenced(
    lows: Hashes, highs: Hashes, newest: Ints, epochs: Ints, wanted: Hashes, begin: int, first: int
) -> Ints:
    """Return the blocks whose fences admit one of some ascending keys, a time and an epoch."""
    found = np.empty(len(lows), np.int64)
    count = 0
    for block in range(len(lows)):
        if newest[block] < begin or epochs[block] < first:
            continue
        at = leap(wanted, lows[block], 0)
        if at < len(wanted) and wanted[at] <= highs[block]:
            found[count] = block
            count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def rows_of_ids(
    bases: Hashes, sizes: Ints, chosen: Ints, wanted: Hashes, begin: int, latest: int
) -> tuple[Ints, Ints, Hashes, Ints]:
    """Return the blocks and places of rows of some ascending keys, their keys and their times.

    They come block by block. The first columns are the keys, no two of a block equal, and the
    times; a row that is earlier than `begin` or later than `latest` is left out.
    """
    lows, highs = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
    most = 0
    for nth in range(len(chosen)):
        keys = carray(pointer(bases[chosen[nth], 0]), sizes[chosen[nth]], np.uint64)
        low = leap(wanted, keys[0], 0)
        high = leap(wanted, keys[-1], low)
        if high < len(wanted) and wanted[high] == keys[-1]:
            high += 1
        lows[nth], highs[nth] = low, high
        most += high - low
    blocks, places = np.empty(most, np.int64), np.empty(most, np.int64)
    found, when = np.empty(most, np.uint64), np.empty(most, np.int64)
    count = 0
    for nth in range(len(chosen)):
        block = chosen[nth]
        keys = carray(pointer(bases[block, 0]), sizes[block], np.uint64)
        times = carray(pointer(bases[block, 1]), sizes[block], np.int64)
        place = 0
        for row in range(lows[nth], highs[nth]):
            place = _next(keys, wanted[row], place)
            if keys[place] == wanted[row] and begin <= times[place] <= latest:
                blocks[count], places[count] = block, place
                found[count], when[count] = keys[place], times[place]
                count += 1
    return blocks[:count], places[:count], found[:count], when[:count]


@njit(cache=True, nogil=True)
def _next(keys: Hashes, wanted: np.uint64, first: int) -> int:
    """Return where the first key that is not less than `wanted` stands; mostly they are dense."""
    ahead = int(np.int64(wanted - keys[first]))
    if 0 <= ahead < len(keys) - first and keys[first + ahead] == wanted:
        return first + ahead
    return leap(keys, wanted, first)


@njit(cache=True, nogil=True)
def members_of_keys(
    bases: Hashes, sizes: Ints, chosen: Ints, wanted: Hashes, begin: int
) -> tuple[Hashes, Hashes]:
    """Return the members of the sets of some ascending keys, and the key of each.

    The columns are the keys, blocks of places, sizes and newest times of sets, and the offsets and
    bytes of their places; a set whose newest time is before `begin` is left out.
    """
    total = count_of_keys(bases, sizes, chosen, wanted, begin)
    owners, found = np.empty(total, np.uint64), np.empty(total, np.uint64)
    if total:
        _members(bases, sizes, chosen, wanted, begin, owners, found)
    return owners, found


@njit(cache=True, nogil=True)
def count_of_keys(bases: Hashes, sizes: Ints, chosen: Ints, wanted: Hashes, begin: int) -> int:
    """Return how many members `members_of_keys` would find, without unpacking them."""
    nothing = np.empty(0, np.uint64)
    return _members(bases, sizes, chosen, wanted, begin, nothing, nothing)


@njit(cache=True, nogil=True)
def _members(
    bases: Hashes,
    sizes: Ints,
    chosen: Ints,
    wanted: Hashes,
    begin: int,
    owners: Hashes,
    found: Hashes,
) -> int:
    """Return how many members there are; write them, if there is room for any."""
    at = 0
    for block in chosen:
        size = sizes[block]
        keys = carray(pointer(bases[block, 0]), size, np.uint64)
        blocks = carray(pointer(bases[block, 1]), size, np.uint64)
        counts = carray(pointer(bases[block, 2]), size, np.int32)
        newest = carray(pointer(bases[block, 3]), size, np.int64)
        offsets = carray(pointer(bases[block, 4]), size + 1, np.int32)
        data = carray(pointer(bases[block, 5]), int(offsets[size]), np.uint8)
        first = 0
        for row in range(leap(wanted, keys[0], 0), len(wanted)):
            if wanted[row] > keys[-1]:
                break
            first = leap(keys, wanted[row], first)
            stop = first
            while stop < size and keys[stop] == wanted[row]:
                stop += 1
            ends, times = offsets[first : stop + 1], newest[first:stop]
            if not len(found):
                at += size_of_sets(counts[first:stop], times, begin)
                continue
            room = found[at:]
            count = unpack_sets(
                blocks[first:stop], counts[first:stop], ends, data, times, begin, room
            )
            for member in range(at, at + count):
                owners[member] = wanted[row]
            at += count
    return at


@njit(cache=True, nogil=True)
def gather(bases: Hashes, widths: Ints, blocks: Ints, places: Ints, starts: Ints) -> Bytes:
    """Return the values of rows, one column behind the other, each from its place of `starts` on.

    Row i stands in block `blocks[i]` at `places[i]`. `widths` are those of values in bytes; columns
    of width `BIT` are packed as they were.
    """
    found = np.empty(starts[-1], np.uint8)
    ends = _ends(blocks)
    for column in range(len(widths)):
        into = np.uint64(found.ctypes.data + starts[column])
        if widths[column] == 8:
            _copy_8(bases, column, blocks, ends, places, into)
        elif widths[column] == 4:
            _copy_4(bases, column, blocks, ends, places, into)
        elif widths[column] == 2:
            _copy_2(bases, column, blocks, ends, places, into)
        elif widths[column] == 1:
            _copy_1(bases, column, blocks, ends, places, into)
        else:
            _copy_bits(bases, column, blocks, places, into)
    return found


@njit(cache=True, nogil=True)
def _ends(blocks: Ints) -> Ints:
    """Return where rows of one block that stand together end, each time they do."""
    ends = np.empty(len(blocks), np.int64)
    count = 0
    for row in range(len(blocks)):
        if row + 1 == len(blocks) or blocks[row + 1] != blocks[row]:
            ends[count] = row + 1
            count += 1
    return ends[:count]


Copy: TypeAlias = Callable[[Hashes, int, Ints, Ints, Ints, np.uint64], None]


def _copying(number: type[np.unsignedinteger[Any]]) -> Copy:
    """Return a kernel that copies the numbers of rows to a column."""

    @njit(cache=True, nogil=True)
    def copy(
        bases: Hashes, column: int, blocks: Ints, ends: Ints, places: Ints, into: np.uint64
    ) -> None:
        copied = carray(pointer(into), len(places), number)
        if 4 * len(ends) > len(places):
            for row in range(len(places)):
                values = carray(pointer(bases[blocks[row], column]), _ANY, number)
                copied[row] = values[np.uint64(places[row])]
            return
        first = 0
        for end in ends:  # so that the address of a column is looked up once for many rows
            values = carray(pointer(bases[blocks[first], column]), _ANY, number)
            for row in range(first, end):
                copied[row] = values[np.uint64(places[row])]
            first = end

    return cast(Copy, copy)


_copy_8, _copy_4 = _copying(np.uint64), _copying(np.uint32)
_copy_2, _copy_1 = _copying(np.uint16), _copying(np.uint8)


@njit(cache=True, nogil=True)
def _copy_bits(bases: Hashes, column: int, blocks: Ints, places: Ints, into: np.uint64) -> None:
    """Copy the bits of rows to a column."""
    copied = carray(pointer(into), (len(places) + 7) // 8, np.uint8)
    copied[:] = 0
    for row in range(len(places)):
        source = bases[blocks[row], column]
        bit = np.int64(source & np.uint64(7)) + places[row]
        values = carray(pointer(source >> np.uint64(3)), bit // 8 + 1, np.uint8)
        if values[bit // 8] >> (bit % 8) & 1:
            copied[row // 8] |= np.uint8(1 << (row % 8))


@njit(cache=True, nogil=True)
def gather_texts(bases: Hashes, column: int, blocks: Ints, places: Ints) -> tuple[Ints32, Bytes]:
    """Return where the texts of rows begin and end, and their bytes.

    The addresses of offsets are those of `column`, and of bytes those of the next.
    """
    ends = np.zeros(len(places) + 1, np.int32)
    total = 0
    for row in range(len(places)):
        offsets = carray(pointer(bases[blocks[row], column]), places[row] + 2, np.int32)
        total += int(offsets[places[row] + 1] - offsets[places[row]])
        ends[row + 1] = total
    assert total < 1 << 31, "an array of texts has at most 2 GB"
    data = np.empty(total, np.uint8)
    for row in range(len(places)):
        if ends[row + 1] == ends[row]:
            continue
        offsets = carray(pointer(bases[blocks[row], column]), places[row] + 2, np.int32)
        first, stop = offsets[places[row]], offsets[places[row] + 1]
        values = carray(pointer(bases[blocks[row], column + 1]), int(stop), np.uint8)
        for at in range(first, stop):
            data[ends[row] + at - first] = values[at]
    return ends, data
