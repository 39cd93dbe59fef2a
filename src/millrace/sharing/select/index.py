"""An index of a fixed set of select joins: what each way to find the affected queries provides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from millrace.kernels.arrays import Floats, Ints, Ints32
from millrace.kernels.select_scan import Probes, Ranges
from millrace.sharing.found import Descriptors, Pairs
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select.batch import Load


class Index(Protocol):
    """Queries that are known by their positions when it was built, and told by their slots."""

    def describe(self, probes: Probes) -> Descriptors:
        """Count the affected queries of each driver."""
        ...

    def pair(self, probes: Probes) -> Pairs:
        """Name the affected queries of each driver."""
        ...

    def forget(self, positions: Ints) -> None:
        """Find these queries no more."""
        ...

    def work(self, load: Load) -> Floats:
        """Return what naming the queries of each driver asks for, `[kind of work, driver]`."""
        ...


Build: TypeAlias = Callable[[SelectQueries, Ints], Index]
"""Makes an index of queries, none of them empty, and their slots."""


def amounts(index: Index, load: Load) -> Floats:
    """Return the work of an index, and before it each driver's part of what a batch takes."""
    batch = np.full((1, len(load)), 1 / max(load.n_drivers, 1))
    return np.concatenate((batch, index.work(load)))


def ranges_of(queries: SelectQueries, slots: Ints) -> Ranges:
    """Return the ranges as kernels see them, in arrays that may be changed."""
    return Ranges(
        queries.driver_low.copy(),
        queries.driver_high.copy(),
        queries.stored_low.copy(),
        queries.stored_high.copy(),
        slots,
    )


def counted(counts: Ints32) -> Descriptors:
    """Tell numbers of affected queries that are in no group."""
    drivers = np.flatnonzero(counts).astype(np.int32)
    nothing = np.zeros(drivers.size, np.int32)
    return Descriptors(drivers, nothing - np.int32(1), counts[drivers], nothing)


def n_holding(low: Ints, high: Ints, codes: Ints) -> Ints:
    """Return how many of some ranges hold each code; their ends are sorted, either by itself."""
    return np.searchsorted(low, codes, "right") - np.searchsorted(high, codes, "left")
