"""Bitmaps: lineage as in CACQ, a bit for each query, but one bitmap for all of a segment's rows.

Good where most drivers affect many queries and there are not too many of either.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.kernels.select_bits import Lines, intersect
from millrace.kernels.select_scan import Probes
from millrace.sharing.codes import LEAST
from millrace.sharing.found import Descriptors, Pairs, joined
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Load, by_code
from millrace.sharing.select.index import counted, n_holding
from millrace.sharing.select.pieces import in_pieces

MOST_WORDS = 1 << 22  # 32 MB of bitmaps at a time


class Bitmaps:
    """Queries numbered by their stored low end, and when each enters and leaves."""

    def __init__(self, queries: SelectQueries, slots: Ints) -> None:
        order = np.argsort(queries.stored_low, kind="stable")
        enter = np.argsort(queries.driver_low[order], kind="stable")
        leave = np.argsort(queries.driver_high[order], kind="stable")
        self._numbers = np.empty(order.size, np.int64)
        self._numbers[order] = np.arange(order.size)
        self._lines = Lines(
            queries.stored_low[order],
            queries.stored_high[order],
            slots[order],
            queries.driver_low[order][enter],
            enter.astype(np.int32),
            queries.driver_high[order][leave],
            leave.astype(np.int32),
        )

    @classmethod
    def build(cls, queries: SelectQueries, slots: Ints) -> Self:
        """Index queries, none of them empty."""
        return cls(queries, slots)

    def describe(self, probes: Probes) -> Descriptors:
        """Count the affected queries of each driver."""
        found = [
            counted(intersect(piece, by_code(piece), self._lines, 0)[0]).shifted(first)
            for first, piece in in_pieces(probes, self._most_segments)
        ]
        return joined(Descriptors.none(), *found)

    def pair(self, probes: Probes) -> Pairs:
        """Name the affected queries of each driver."""
        found = [
            Pairs(*intersect(piece, by_code(piece), self._lines, 1)[1:]).shifted(first)
            for first, piece in in_pieces(probes, self._most_segments)
        ]
        return joined(Pairs.none(), *found)

    @property
    def _most_segments(self) -> int:
        return max(1, MOST_WORDS // (self._lines.slots.size // 64 + 1))

    def forget(self, positions: Ints) -> None:
        """Find these queries no more: what they want stored is nothing."""
        self._lines.stored_high[self._numbers[positions]] = LEAST

    def work(self, load: Load) -> Floats:
        """Return for each driver: itself, words, parts of a segment's walk and the sweep, pairs."""
        lines = self._lines
        one = np.ones(len(load))
        selected = n_holding(lines.enter_codes, lines.leave_codes, load.codes)
        words = one * (lines.slots.size / 64)
        last = load.probes.codes[load.probes.stops[load.segments] - 1]  # the walk ends there
        walk = (np.searchsorted(lines.stored_low, last) + load.n_stored) / load.n_shared
        sweep = one * (2 * lines.slots.size / max(load.n_drivers, 1))
        pairs = selected * load.share_hit(lines.stored_low, lines.stored_high)
        return np.stack((one, words, walk, sweep, pairs))
