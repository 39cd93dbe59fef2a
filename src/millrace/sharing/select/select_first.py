"""SelectFirst: the queries that select a driver are found by a tree, and looked for in its segment.

Good where a driver is selected by few queries, whatever is stored. It is also what the paper
compares itself with: `shared=False` forgets, as it does there, what was found for a segment's
other drivers.

Invariant: entries of node c are `node_first[c] .. node_first[c + 1]`; in each list of a node the
bounds ascend (`kernels/box_stab` has the picture).
"""

from __future__ import annotations

from typing import Self

import numpy as np

from millrace.kernels.arrays import Floats, Ints, Ints32
from millrace.kernels.box_stab import find_nodes
from millrace.kernels.select_scan import Probes
from millrace.kernels.select_stab import Listed, stab
from millrace.sharing.codes import GREATEST
from millrace.sharing.found import Descriptors, Pairs
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Load
from millrace.sharing.select.index import counted, n_holding

_PAIRED, _SHARED = 1, 2


class SelectFirst:
    """Centres of the tree, where the entries of each begin, and the two lists."""

    def __init__(self, queries: SelectQueries, slots: Ints, *, shared: bool) -> None:
        low, high = queries.driver_low, queries.driver_high
        self._shared = shared
        self._centres = np.unique(low)
        nodes = find_nodes(low, high, self._centres)
        self._node_first = np.zeros(self._centres.size + 1, np.int64)
        np.cumsum(np.bincount(nodes, minlength=self._centres.size), out=self._node_first[1:])
        orders = np.lexsort((low, nodes)), np.lexsort((~high, nodes))
        self._early, self._late = (
            Listed(
                bounds[order],
                order.astype(np.int32),
                queries.stored_low[order],
                queries.stored_high[order],
                slots[order],
            )
            for order, bounds in zip(orders, (low, ~high), strict=True)
        )
        self._low, self._high = np.sort(low), np.sort(high)

    @property
    def tree(self) -> tuple[Ints, Ints, Listed, Listed]:
        """The centres, where the entries of each begin, and the two lists."""
        return self._centres, self._node_first, self._early, self._late

    @classmethod
    def build(cls, queries: SelectQueries, slots: Ints) -> Self:
        """Index queries, none of them empty."""
        return cls(queries, slots, shared=True)

    @classmethod
    def build_alone(cls, queries: SelectQueries, slots: Ints) -> Self:
        """Index queries, none of them empty; drivers of a segment share nothing."""
        return cls(queries, slots, shared=False)

    def describe(self, probes: Probes) -> Descriptors:
        """Count the affected queries of each driver."""
        return counted(self._stab(probes, 0)[0])

    def pair(self, probes: Probes) -> Pairs:
        """Name the affected queries of each driver."""
        return Pairs(*self._stab(probes, _PAIRED)[1:])

    def _stab(self, probes: Probes, modes: int) -> tuple[Ints32, Ints, Ints]:
        modes |= _SHARED if self._shared else 0
        return stab(probes, self._centres, self._node_first, self._early, self._late, modes)

    def forget(self, positions: Ints) -> None:
        """Find these queries no more: what they want stored is nothing."""
        gone = np.zeros(self._low.size, np.bool_)
        gone[positions] = True
        for listed in (self._early, self._late):
            listed.stored_low[gone[listed.queries]] = GREATEST

    def work(self, load: Load) -> Floats:
        """Return for each driver: itself, queries that select it, steps of searches, pairs."""
        selected = n_holding(self._low, self._high, load.codes)
        searched = selected.astype(np.float64)
        if self._shared:
            # Of a segment's k drivers, each selected by a part s of all queries, k s ask for a
            # query on average, and it is looked for unless none does.
            share = np.maximum(selected, 1) / self._low.size
            asking = load.n_shared * share
            searched *= (1 - (1 - np.minimum(share, 1)) ** load.n_shared) / asking
        pairs = selected * load.share_hit(self._early.stored_low, self._early.stored_high)
        return np.stack((np.ones(len(load)), selected, searched * load.searches(), pairs))
