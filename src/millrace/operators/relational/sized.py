"""Counts and sums over windows of many sizes at once, where they are told at ticks.

All windows are over the same elements and end at the same ticks; they differ in where they begin.
So the elements are cut at all beginnings and ends, added up between the cuts once, and then from
cut to cut: a window's total is what has come up to its end less what had come before its beginning.

    beginnings of windows     a       b  c             tick
    elements             . . .|. . . .|..|. . . . . . .|
    added up                  A       B  C             T           T - A, T - B, T - C

Nothing is remembered: elements are read again. The cost is one pass over the elements of the widest
window for each slab that has a tick, and a difference for each window, group and tick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.grouping import add_to_cells
from millrace.operators.relational.equal import numbered
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import Timed, rows_of, take_rows
from millrace.operators.relational.totals import RareLimbs, Sums, Totals

CELLS_AT_ONCE = 1 << 21
ANSWERS_AT_ONCE = 1 << 19


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Windows: how long each is, which elements it sees, and at which ticks it is there.

    A window sees the elements whose `sight` is its own.
    """

    sizes: Ints
    sights: Ints
    there: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What windows hold at ticks: the window, the group, the tick, and the aggregates of each."""

    windows: Ints
    groups: Ints
    times: Ints
    answers: dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class SizedTotals:
    """Totals of groups of elements in windows of many sizes."""

    totals: Totals

    def told(
        self,
        given: Timed,
        keys: pa.RecordBatch,
        sights: Ints,
        windows: Sizes,
        ticks: Ints,
        slab: Slab,
    ) -> tuple[pa.RecordBatch, Iterator[Told]]:
        """Return the keys of groups, and what each window tells of them, in pieces.

        Elements begin at their times; they may be in any order.
        """
        marked = rows_of([pa.array(sights), *keys.columns], ["", *keys.schema.names], len(given))
        groups, firsts = numbered(marked)
        begins = ticks[None, :] - windows.sizes[:, None]
        cuts = np.unique(np.concatenate((begins.ravel(), ticks + 1)))
        before = np.searchsorted(cuts, given.starts, side="right")
        places = Places(
            np.searchsorted(cuts, begins), np.searchsorted(cuts, ticks + 1), ticks, len(cuts) + 1
        )
        sighted = _Sighted(sights[firsts], windows)
        return take_rows(keys, firsts), self._pieces(given, groups, before, places, sighted, slab)

    def _pieces(
        self,
        given: Timed,
        groups: Ints,
        before: Ints,
        places: Places,
        sighted: _Sighted,
        slab: Slab,
    ) -> Iterator[Told]:
        order = np.argsort(groups, kind="stable")
        n_groups = len(sighted.groups)
        at_once = max(1, CELLS_AT_ONCE // places.n_cuts)
        for first in range(0, n_groups, at_once):
            stop = min(first + at_once, n_groups)
            low, high = np.searchsorted(groups[order], (first, stop))
            mine = order[low:high]
            cells = (groups[mine] - first) * places.n_cuts + before[mine]
            n_cells = (stop - first) * places.n_cuts
            added, rare = self.totals.added_up(given.take(mine), cells, n_cells, slab)
            shape = (stop - first, places.n_cuts, -1)
            so_far = np.cumsum(added.reshape(shape), axis=1)
            codes, rest = _cells_of(rare, n_cells)
            rest_so_far = np.cumsum(rest.reshape(shape), axis=1)
            for pairs in sighted.pairs(first, stop):
                counts = places.difference(so_far, first, pairs)
                held = counts[:, 0] > 0
                found = Triples(*(each[held] for each in pairs))
                others = places.difference(rest_so_far, first, found)
                answers = self.totals.answers(counts[held], _sums(codes, others))
                yield Told(found.windows, found.groups, places.ticks[found.ticks], answers)


class Triples(NamedTuple):
    """Groups, windows and ticks, by their numbers."""

    groups: Ints
    windows: Ints
    ticks: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where among the cuts windows begin, by window and tick; and where ticks are."""

    begins: Ints
    ends: Ints
    ticks: Ints
    n_cuts: int

    def difference(self, so_far: Ints, first: int, of: Triples) -> Ints:
        """Return what groups, of which the first has a number, have in windows at ticks."""
        groups = of.groups - first
        begins = self.begins[of.windows, of.ticks]
        found: Ints = so_far[groups, self.ends[of.ticks]] - so_far[groups, begins]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Sighted:
    """Which elements groups are of, and which windows see."""

    groups: Ints
    windows: Sizes

    def pairs(self, first: int, stop: int) -> Iterator[Triples]:
        """Yield groups of a stretch with the windows that see them, and their ticks, in pieces."""
        for sight in np.unique(self.groups[first:stop]).tolist():
            groups = first + np.flatnonzero(self.groups[first:stop] == sight)
            there = self.windows.there & (self.windows.sights == sight)[:, None]
            windows, ticks = np.nonzero(there)
            at_once = max(1, ANSWERS_AT_ONCE // max(1, len(windows)))
            for begin in range(0, len(groups), at_once):
                some = groups[begin : begin + at_once]
                yield Triples(
                    np.repeat(some, len(windows)),
                    np.tile(windows, len(some)),
                    np.tile(ticks, len(some)),
                )


def _cells_of(rare: list[RareLimbs], n_cells: int) -> tuple[list[tuple[int, int]], Ints]:
    """Return limbs that have no column of their own as columns, and which they are."""
    codes = sorted(
        {(each.slot, place) for each in rare for place in np.unique(each.places).tolist()}
    )
    cells = np.zeros((n_cells, len(codes)), np.int64)
    for each in rare:
        columns = np.zeros(len(each.places), np.int64)
        for at, (slot, place) in enumerate(codes):
            if slot == each.slot:
                columns[each.places == place] = at
        cells += add_to_cells(each.of, columns, each.values, n_cells, len(codes))
    return codes, cells


def _sums(codes: list[tuple[int, int]], values: Ints) -> Sums:
    found: Sums = {}
    for at, (slot, place) in enumerate(codes):
        found.setdefault(slot, {})[place] = values[:, at]
    return found
