"""What a set of bands is kept in, one for each way to find the affected queries of a driver.

    q_outer      the bands as they are: every one of them bisects the stored values
    d_outer      a centred tree over the bands, which every stored row descends
    merge_join   the bands by low end, merged with the stored values for each driver
    ssi          groups of bands that hold a common point: two searches for a driver and group
    scattered    ssi, merge_join or q_outer, whichever is cheapest for a batch

All of them find the same. They are immutable, and know queries by their slots.

Cost of counting a driver's affected queries (n bands, tau groups) among m = 100,000 stored rows:
q_outer 20 to 40 ns n, merge_join 1 ns (n + m), d_outer 100 ns m and more, ssi 30 ns tau. What they
cost on a machine is measured (`sharing.band_calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from millrace.kernels.arrays import Floats, Ints, Ints32, Numbers
from millrace.kernels.band_scans import Bands, Hits, Tree, merge, probe_each, stab_each
from millrace.kernels.bands import Groups, Probes, expand_pairs, find_prefixes
from millrace.kernels.box_stab import find_nodes
from millrace.sharing.band_prices import PRICES, band_cost
from millrace.sharing.band_rows import numbers_of
from millrace.sharing.found import Descriptors, Pairs
from millrace.sharing.partition import canonical
from millrace.sharing.queries import BandQueries
from millrace.sharing.select.prices import Prices

Cost = Callable[[Floats], Floats]
"""What a driver takes, in ns, by the number of rows it meets."""
PriceTable = Mapping[str, Prices]


class BandIndex(Protocol):
    """A way to find affected queries."""

    @property
    def cost(self) -> Cost:
        """What counting affected queries takes."""
        ...

    def describe(self, probes: Probes, values: Numbers) -> Descriptors:
        """Count affected queries."""
        ...

    def pair(self, probes: Probes, values: Numbers) -> Pairs:
        """Name affected queries."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """A kernel that goes through bands or rows one by one, and what it goes through."""

    kernel: Callable[..., Hits]
    over: tuple[Any, ...]
    cost: Cost

    def describe(self, probes: Probes, values: Numbers) -> Descriptors:
        """Count affected queries."""
        counts = self.kernel(probes, values, *self.over, False).counts
        some = np.flatnonzero(counts)
        none = np.zeros(some.size, np.int32)
        drivers = probes.drivers[some].astype(np.int32)
        return Descriptors(drivers, none - np.int32(1), counts[some], none)

    def pair(self, probes: Probes, values: Numbers) -> Pairs:
        """Name affected queries."""
        found = self.kernel(probes, values, *self.over, True)
        return Pairs(probes.drivers[found.probes], found.queries)


def q_outer(
    queries: BandQueries, slots: Ints, *, doubles: bool, prices: PriceTable = PRICES
) -> BandIndex:
    """Take bands as they come."""
    bands = _bands(queries, slots, doubles=doubles)
    return Scan(probe_each, (bands,), _cost("q_outer", slots.size, prices))


def merge_join(
    queries: BandQueries, slots: Ints, *, doubles: bool, prices: PriceTable = PRICES
) -> BandIndex:
    """Sort bands by low end."""
    order = np.argsort(queries.low, kind="stable")
    bands = _bands(_some(queries, order), slots[order], doubles=doubles)
    return Scan(merge, (bands,), _cost("merge_join", slots.size, prices))


def d_outer(
    queries: BandQueries, slots: Ints, *, doubles: bool, prices: PriceTable = PRICES
) -> BandIndex:
    """Put each band at the first node on its way down a tree of low ends whose centre it holds."""
    low, high, _ = _bands(queries, slots, doubles=doubles)
    centres = np.unique(queries.low)
    nodes = find_nodes(queries.low, queries.high, centres)
    by_low, by_high = np.lexsort((low, nodes)), np.lexsort((-high, nodes))
    tree = Tree(
        numbers_of(centres, doubles=doubles),
        _offsets(nodes, centres.size),
        low[by_low],
        slots[by_low],
        -high[by_high],
        slots[by_high],
    )
    n_slots = int(slots.max(initial=-1)) + 1
    return Scan(stab_each, (tree, n_slots), _cost("d_outer", slots.size, prices))


@dataclass(frozen=True, slots=True, eq=False)
class Stabbed:
    """Groups of bands that hold a common point."""

    groups: Groups
    cost: Cost

    def describe(self, probes: Probes, values: Numbers) -> Descriptors:
        """Count affected queries by the prefixes of their groups."""
        found = find_prefixes(probes, values, self.groups)
        drivers = probes.drivers[found.probes].astype(np.int32)
        return Descriptors(drivers, found.groups, found.lefts, found.rights)

    def pair(self, probes: Probes, values: Numbers) -> Pairs:
        """Name affected queries."""
        found = find_prefixes(probes, values, self.groups)
        return Pairs(*expand_pairs(found, probes, self.groups))


def ssi(
    queries: BandQueries, slots: Ints, *, doubles: bool, prices: PriceTable = PRICES
) -> BandIndex:
    """Partition bands into as few groups as possible."""
    low, high, _ = _bands(queries, slots, doubles=doubles)
    parted = canonical(queries.low, queries.high)
    groups, starts = parted.groups, _offsets(parted.groups, parted.sizes.size)
    by_low, by_high = np.lexsort((low, groups)), np.lexsort((-high, groups))
    low_ranks, high_ranks = (_ranks(order, groups, starts) for order in (by_low, by_high))
    return Stabbed(
        Groups(
            numbers_of(parted.region_high, doubles=doubles),
            starts,
            low[by_low],
            slots[by_low],
            high_ranks[by_low],
            -high[by_high],
            slots[by_high],
            low_ranks[by_high],
        ),
        _cost("ssi", parted.sizes.size, prices),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Cheapest:
    """Several ways over the same bands; a batch goes where it is expected to take least."""

    ways: tuple[BandIndex, ...]

    @property
    def cost(self) -> Cost:
        """What counting affected queries takes."""
        return lambda n_rows: np.min([each.cost(n_rows) for each in self.ways], axis=0)

    def describe(self, probes: Probes, values: Numbers) -> Descriptors:
        """Count affected queries."""
        return self._chosen(probes).describe(probes, values)

    def pair(self, probes: Probes, values: Numbers) -> Pairs:
        """Name affected queries."""
        return self._chosen(probes).pair(probes, values)

    def _chosen(self, probes: Probes) -> BandIndex:
        n_rows = (probes.stops - probes.firsts).astype(np.float64)
        return min(self.ways, key=lambda each: float(each.cost(n_rows).sum()))


def scattered(
    queries: BandQueries, slots: Ints, *, doubles: bool, prices: PriceTable = PRICES
) -> BandIndex:
    """Keep bands that have little in common: grouped, merged with rows, or each bisecting few."""
    builds = (ssi, merge_join, q_outer)
    return Cheapest(
        tuple(build(queries, slots, doubles=doubles, prices=prices) for build in builds)
    )


def expected_of_bands(queries: BandQueries, n_rows: Floats, prices: PriceTable) -> dict[str, float]:
    """Return what each way would take for drivers that meet so many rows, without building it."""
    some = _some(queries, np.flatnonzero(queries.nonempty()))
    n_groups = canonical(some.low, some.high).sizes.size
    sizes = {way: n_groups if way == "ssi" else len(some) for way in prices}
    return {way: float(band_cost(way, size, n_rows, prices).sum()) for way, size in sizes.items()}


def _cost(way: str, n_bands: int, prices: PriceTable) -> Cost:
    return partial(band_cost, way, n_bands, prices=prices)


def _bands(queries: BandQueries, slots: Ints, *, doubles: bool) -> Bands:
    low, high = (numbers_of(each, doubles=doubles) for each in (queries.low, queries.high))
    return Bands(low, high, slots)


def _some(queries: BandQueries, rows: Ints) -> BandQueries:
    return BandQueries(queries.low[rows], queries.high[rows])


def _offsets(numbers: Ints | Ints32, n_numbers: int) -> Ints:
    """Return where the entries of each number begin when they are sorted, and where all end."""
    offsets = np.zeros(n_numbers + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=n_numbers), out=offsets[1:])
    return offsets


def _ranks(order: Ints, groups: Ints, starts: Ints) -> Ints32:
    """Return for each band its rank in its group."""
    ranks = np.empty(order.size, np.int32)
    ranks[order] = np.arange(order.size) - starts[groups[order]]
    return ranks
