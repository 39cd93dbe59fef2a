"""SSI for window joins: groups of queries by their stored range are decided by skylines.

The kernels (`kernels/window_sweep`, `kernels/window_links`) have the pictures. The paper keeps a
skyline for each key and stabbing point and repairs it when queries change; links give the skyline
of any point, so queries come and go without any repair.

Invariant: a group's bits begin with a word; by low end and by high end each query has one bit.

Cost: 80 bytes a query. A batch costs 5 ns for each query that enters and leaves.
"""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Floats, Ints, Ints32
from millrace.kernels.window_scans import COUNTED, PAIRED
from millrace.kernels.window_sweep import Groups, Skylines, Turns, locate, sweep
from millrace.sharing.found import Descriptors, Pairs
from millrace.sharing.partition import canonical
from millrace.sharing.queries import WindowQueries
from millrace.sharing.select.batch import by_code
from millrace.sharing.select.index import counted, n_holding
from millrace.sharing.window.batch import WindowBatch


class Stabbed:
    """Groups, when their queries enter and leave, and windows in the order of both lists."""

    def __init__(self, queries: WindowQueries, slots: Ints) -> None:
        parted = canonical(queries.stored_low, queries.stored_high)
        word_first = np.zeros(parted.sizes.size + 1, np.int64)
        np.cumsum((parted.sizes + 63) // 64, out=word_first[1:])
        low_bits = _bits(parted.groups, queries.stored_low, word_first)
        high_bits = _bits(parted.groups, ~queries.stored_high, word_first)
        room = 64 * int(word_first[-1])
        self._groups = Groups(
            parted.region_high,
            word_first,
            parted.sizes,
            _placed(queries.stored_low, low_bits, room),
            _placed(~queries.stored_high, high_bits, room),
            _placed(slots, low_bits, room),
            _placed(slots, high_bits, room),
            _placed(low_bits, high_bits, room),
            *_widths(queries.sizes, low_bits, high_bits, word_first),
        )
        self._enter = _turns(queries.driver_low, low_bits, high_bits)
        self._leave = _turns(queries.driver_high, low_bits, high_bits)
        self._widest = int(queries.sizes.max(initial=-1))

    def describe(self, batch: WindowBatch) -> Descriptors:
        """Count the affected queries of each probe."""
        return counted(self._sweep(batch, COUNTED)[0])

    def pair(self, batch: WindowBatch) -> Pairs:
        """Name the affected queries of each probe."""
        return Pairs(*self._sweep(batch, PAIRED)[1:])

    def work(self, batch: WindowBatch) -> Floats:
        """Return for each probe: itself, groups by its part, queries to look at, turns by its part.

        Only groups that a young row reaches have queries to look at.
        """
        probes, n_groups = batch.probes, self._groups.points.size
        selected = n_holding(self._enter.codes, self._leave.codes, probes.drivers)
        n_sharing = np.bincount(probes.segments, minlength=probes.firsts.size)[probes.segments]
        reached = np.minimum(1.0, batch.n_young(self._widest) / max(n_groups, 1))
        one = np.ones(selected.size)
        turns = one * (2 * self._enter.codes.size / max(selected.size, 1))
        return np.stack((one, n_groups / n_sharing, selected * reached, turns))

    def _sweep(self, batch: WindowBatch, mode: int) -> tuple[Ints32, Ints, Ints]:
        order, skylines = by_code(batch.probes), self._skylines(batch)
        turns = self._enter, self._leave
        return sweep(batch.probes, batch.moments, order, skylines, self._groups, turns, mode)

    def _skylines(self, batch: WindowBatch) -> Skylines:
        """Find the steps of each segment as far back as one of its drivers may see."""
        probes, links = batch.probes, batch.linked()
        oldest = np.full(probes.firsts.size, np.iinfo(np.int64).max)
        np.minimum.at(oldest, probes.segments, batch.moments.drivers - self._widest)
        return locate(probes, batch.moments, links.previous, links.following, self._groups, oldest)


def _turns(codes: Ints, low_bits: Ints, high_bits: Ints) -> Turns:
    order = np.argsort(codes, kind="stable")
    return Turns(codes[order], low_bits[order], high_bits[order])


def _bits(groups: Ints, bounds: Ints, word_first: Ints) -> Ints:
    """Return the bit of each query in the order of its group by some bounds."""
    order = np.lexsort((bounds, groups))
    sizes = np.bincount(groups, minlength=word_first.size - 1)
    shifts = 64 * word_first[:-1] - (np.cumsum(sizes) - sizes)
    bits = np.empty(order.size, np.int64)
    bits[order] = np.arange(order.size) + shifts[groups[order]]
    return bits


def _placed(values: Ints, bits: Ints, room: int) -> Ints:
    placed = np.zeros(room, np.int64)
    placed[bits] = values
    return placed


def _widths(sizes: Ints, low_bits: Ints, high_bits: Ints, word_first: Ints) -> tuple[Ints, ...]:
    """Return windows by both orders of bits, and the longest of each word of both and of groups."""
    low, high = (np.full(64 * int(word_first[-1]), -1, np.int64) for _ in range(2))
    low[low_bits], high[high_bits] = sizes, sizes
    low_widest, high_widest = (each.reshape(-1, 64).max(axis=1, initial=-1) for each in (low, high))
    widest = np.maximum.reduceat(low_widest, word_first[:-1]) if sizes.size else word_first[:0]
    return low, high, low_widest, high_widest, widest
