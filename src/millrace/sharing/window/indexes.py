"""Indexes of a fixed set of window joins: those of select joins, with windows beside.

    JoinFirst     each joined pair of rows looks for its queries in a grid
    SelectFirst   the queries that select a driver look for the newest row of their range
    Stabbed       groups of queries are decided by skylines (`sharing.window.stabbed`)

All of them find the same where no stored row is newer than its driver; `JoinFirst` needs no such
order and tells rows too.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from millrace.kernels.arrays import Floats, Ints, Ints32
from millrace.kernels.window_scans import COUNTED, MET, PAIRED, join, stab
from millrace.sharing.found import Descriptors, Pairs, Triples
from millrace.sharing.queries import WindowQueries
from millrace.sharing.select.index import counted, n_holding
from millrace.sharing.select.join_first import JoinFirst as Rectangles
from millrace.sharing.select.select_first import SelectFirst as Selections
from millrace.sharing.window.batch import WindowBatch


class WindowIndex(Protocol):
    """What each way provides."""

    def describe(self, batch: WindowBatch) -> Descriptors:
        """Count the affected queries of each probe."""
        ...

    def pair(self, batch: WindowBatch) -> Pairs:
        """Name the affected queries of each probe."""
        ...

    def work(self, batch: WindowBatch) -> Floats:
        """Return what each probe asks for, `[kind of work, probe]`."""
        ...


class JoinFirst:
    """Rectangles in a grid, and their windows."""

    def __init__(self, queries: WindowQueries, slots: Ints) -> None:
        self._rectangles = Rectangles(queries, slots).rectangles
        grid = self._rectangles[0]
        width = grid.stored_cuts.size + 1
        self._inhabited = np.diff(grid.cell_first).reshape(-1, width).mean(axis=1)
        self._sizes = queries.sizes
        self._widest = int(queries.sizes.max(initial=-1))

    def describe(self, batch: WindowBatch) -> Descriptors:
        """Count the affected queries of each probe."""
        return counted(self._join(batch, COUNTED)[0])

    def pair(self, batch: WindowBatch) -> Pairs:
        """Name the affected queries of each probe."""
        return Pairs(*self._join(batch, PAIRED)[1:3])

    def work(self, batch: WindowBatch) -> Floats:
        """Return for each probe: itself, stored rows, rectangles that young ones compare with."""
        grid, _ = self._rectangles
        lines = np.searchsorted(grid.driver_cuts, batch.probes.drivers, "right")
        n_compared = batch.n_young(self._widest) * self._inhabited[lines]
        return np.stack((np.ones(lines.size), batch.lengths, n_compared))

    def meet(self, batch: WindowBatch) -> Triples:
        """Name the affected queries of each probe with all rows, also such as are newer."""
        _, probes, slots, rows = self._join(batch, MET)
        return Triples(batch.rows[probes], batch.links.stored.places[rows], slots)

    def _join(self, batch: WindowBatch, mode: int) -> tuple[Ints32, Ints, Ints, Ints]:
        return join(batch.probes, batch.moments, *self._rectangles, self._sizes, mode)


class SelectFirst:
    """A tree over the drivers' ranges, and windows."""

    def __init__(self, queries: WindowQueries, slots: Ints) -> None:
        self._tree = Selections.build_alone(queries, slots).tree
        self._low, self._high = np.sort(queries.driver_low), np.sort(queries.driver_high)
        self._sizes = queries.sizes

    def describe(self, batch: WindowBatch) -> Descriptors:
        """Count the affected queries of each probe."""
        return counted(self._stab(batch, COUNTED)[0])

    def pair(self, batch: WindowBatch) -> Pairs:
        """Name the affected queries of each probe."""
        return Pairs(*self._stab(batch, PAIRED)[1:])

    def work(self, batch: WindowBatch) -> Floats:
        """Return for each probe: itself, candidates, searches by length."""
        selected = n_holding(self._low, self._high, batch.probes.drivers)
        one = np.ones(selected.size)
        return np.stack((one, selected, selected * np.log2(batch.lengths + 1.0)))

    def _stab(self, batch: WindowBatch, mode: int) -> tuple[Ints32, Ints, Ints]:
        links = batch.linked().following
        return stab(batch.probes, batch.moments, links, self._tree, self._sizes, mode)
