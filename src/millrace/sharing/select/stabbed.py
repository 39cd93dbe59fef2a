"""SSI: queries parted by their stored range, so that a group is decided by two stored codes.

Good almost everywhere; its cost depends on how many groups there are, hardly on how many queries.
The kernels (`kernels/select_sweep`) have the picture. Agarwal, Xie, Yang and Yu keep an R-tree a
group and take one row at a time; here a batch is swept by its codes, and what a segment's rows
have of a group is found once for all drivers of the segment.

Invariants: a group's bits begin with a word and leave at least one to spare; by low end and by high
end each query has one bit; both are set in a cell's state exactly if the query selects the cell's
code and is not forgotten.

Cost: 136 bytes a query, and 1/4 byte a query and cell: 1.6 MB for 100,000 queries and 64 cells.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from millrace.kernels.arrays import Floats, Ints, Ints32
from millrace.kernels.select_scan import Probes
from millrace.kernels.select_sweep import (
    Cells,
    Chances,
    Groups,
    Turns,
    locate,
    snapshots,
    sweep,
)
from millrace.sharing.found import Descriptors, Pairs, joined
from millrace.sharing.partition import canonical
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Load, by_code
from millrace.sharing.select.pieces import in_pieces

CELLS = 64
MOST_WORDS = 1 << 21  # of the states of all cells together: 32 MB
MOST_CHANCES = 1 << 21
ALIGNED = 8
"""Words that are counted at once: a group of many has a multiple of that, and none is left over."""


class _Bits(NamedTuple):
    """Of each position: its two bits, and the words of its group."""

    low: Ints
    high: Ints
    word_first: Ints
    word_stop: Ints


class Stabbed:
    """Groups, when their queries enter and leave, and the state at some codes."""

    def __init__(self, queries: SelectQueries, slots: Ints, n_cells: int) -> None:
        self._groups, self._bits = _grouped(queries, slots)
        self._turns, self._turns_at = _turns(queries, self._bits)
        self._standing = np.append(0, np.cumsum(self._turns.steps))  # after so many turns
        ends = self._turns.codes
        n_cells = min(n_cells, ends.size, MOST_WORDS // max(int(self._groups.word_first[-1]), 1))
        codes = np.unique(ends[np.arange(1, n_cells) * ends.size // max(n_cells, 1)])
        self._cells: Cells = snapshots(codes, self._turns, int(self._groups.word_first[-1]))

    @classmethod
    def build(cls, queries: SelectQueries, slots: Ints, n_cells: int = CELLS) -> Self:
        """Index queries, none of them empty."""
        return cls(queries, slots, n_cells)

    @property
    def n_groups(self) -> int:
        """How many stabbing points there are."""
        return self._groups.points.size

    def describe(self, probes: Probes) -> Descriptors:
        """Count the affected queries of each driver, by group."""
        found = []
        for first, piece in in_pieces(probes, self._most_segments):
            order, chances = by_code(piece), locate(piece, self._groups)
            n_most = int(np.diff(chances.first)[piece.segments].sum())
            table = np.empty((n_most + 2, 4), np.int32)
            n_found, _ = self._sweep(piece, order, chances, table, 0)
            found.append(Descriptors(*table[:n_found].T).shifted(first))
        return joined(Descriptors.none(), *found)

    def pair(self, probes: Probes) -> Pairs:
        """Name the affected queries of each driver."""
        found = []
        for first, piece in in_pieces(probes, self._most_segments):
            order, chances = by_code(piece), locate(piece, self._groups)
            nothing = np.empty((1, 4), np.int32)
            _, (n_most, _) = self._sweep(piece, order, chances, nothing, 0)
            _, (n_pairs, pairs) = self._sweep(piece, order, chances, nothing, n_most)
            rows, slots = (each[: n_pairs if n_most else 0] for each in pairs)
            found.append(Pairs(rows, slots).shifted(first))
        return joined(Pairs.none(), *found)

    def _sweep(
        self, probes: Probes, order: Ints, chances: Chances, described: Ints32, n_pairs: int
    ) -> tuple[int, tuple[int, tuple[Ints, Ints]]]:
        """Return numbers of descriptors and of pairs, and the pairs if there is room for some."""
        paired = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
        turning = self._turns, self._cells
        n_described, n_pairs = sweep(
            probes, order, chances, self._groups, turning, described, paired
        )
        return n_described, (n_pairs, paired)

    @property
    def _most_segments(self) -> int:
        return max(1, MOST_CHANCES // max(self.n_groups, 1))

    def forget(self, positions: Ints) -> None:
        """Find these queries no more: their bits are clear in all states and stay so."""
        self._turns.word_stops[self._turns_at[:, positions]] = -1
        for words, bits in (
            (self._cells.low_words, self._bits.low),
            (self._cells.high_words, self._bits.high),
        ):
            for bit in bits[positions].tolist():
                words[:, bit >> 6] &= ~np.uint64(1 << (bit & 63))

    def work(self, load: Load) -> Floats:
        """Return for each driver: itself, groups, pairs, its part of what is shared.

        Shared are searches for the groups of its segment, those groups, and the sweep.
        """
        n_queries = max(self._turns.codes.size // 2, 1)
        selected = self._standing[np.searchsorted(self._turns.codes, load.codes, "right")]
        n_groups, hit = self._reached(load)
        searches = np.minimum(self.n_groups, load.n_stored) * load.searches() / load.n_shared
        n_turns = min(2 * load.n_drivers, load.n_drivers + 2 * self._cells.codes.size + 2)
        sweep = min(2 * n_queries, n_turns * n_queries / (self._cells.codes.size + 1))
        one = np.ones(len(load))
        return np.stack(
            (
                one,
                n_groups,
                selected * hit,
                searches,
                n_groups / load.n_shared,
                one * (sweep / max(load.n_drivers, 1)),
            )
        )

    def _reached(self, load: Load) -> tuple[Floats, Floats]:
        """Return how many groups, and which part of the queries, the segments of drivers reach."""
        sampled = load.sampled
        probes, groups = load.probes, self._groups
        chances = locate(
            probes._replace(firsts=probes.firsts[sampled], stops=probes.stops[sampled]), groups
        )
        n_hit = chances.low_stops + chances.high_stops - 128 * groups.word_first[chances.groups]
        sums = np.append(0, np.cumsum(np.minimum(n_hit, groups.sizes[chances.groups])))
        shares = np.diff(sums[chances.first]) / max(self._turns.codes.size // 2, 1)
        return load.told(np.diff(chances.first)), load.told(shares)


def _turns(queries: SelectQueries, bits: _Bits) -> tuple[Turns, Ints]:
    """Sort where queries enter and leave; return that, and the two places of each position."""
    n_queries = len(queries)
    codes = np.concatenate((queries.driver_low, queries.driver_high + 1))
    order = np.argsort(codes, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    steps = np.where(order < n_queries, 1, -1).astype(np.int32)
    turned = (each[order % n_queries].astype(np.int32) for each in bits)
    return Turns(codes[order], steps, *turned), places.reshape(2, n_queries)


def _grouped(queries: SelectQueries, slots: Ints) -> tuple[Groups, _Bits]:
    parted = canonical(queries.stored_low, queries.stored_high)
    word_first = np.zeros(parted.sizes.size + 1, np.int64)
    n_words = parted.sizes // 64 + 1
    n_words = np.where(n_words > ALIGNED // 2, -(-n_words // ALIGNED) * ALIGNED, n_words)
    np.cumsum(n_words, out=word_first[1:])
    starts = np.cumsum(parted.sizes) - parted.sizes
    shifts = starts - 64 * word_first[:-1]
    by_low = np.lexsort((queries.stored_low, parted.groups))
    by_high = np.lexsort((~queries.stored_high, parted.groups))
    low_places, high_places = np.empty_like(by_low), np.empty_like(by_high)
    low_places[by_low] = high_places[by_high] = np.arange(by_low.size)
    low, high = queries.stored_low[by_low], ~queries.stored_high[by_high]
    groups = Groups(
        parted.region_high,
        word_first,
        shifts,
        parted.sizes,
        np.minimum.accumulate(low[starts][::-1])[::-1].copy(),
        np.maximum.accumulate(~high[starts]),
        low,
        high,
        slots[by_low],
        slots[by_high],
        low_places[by_high].astype(np.int32),
        high_places[by_low].astype(np.int32),
    )
    shift = shifts[parted.groups]
    firsts, stops = word_first[:-1][parted.groups], word_first[1:][parted.groups]
    return groups, _Bits(low_places - shift, high_places - shift, firsts, stops)
