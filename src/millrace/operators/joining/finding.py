"""Finding by an index over queries: what a strategy names is asked the rest of its conditions.

Of two leaves each query wants one range, or it wants their difference in a range. What is stored of
one leaf, by key and code, is asked by the elements of the other, and a strategy of `sharing` names
driver, partner and query without looking at all queries, or at all pairs. Everything else is asked
of what it names: the order of elements, births, windows, other ranges, and what queries share.

Cost: that of the strategy, and some 50 ns for each thing that it names in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from millrace.kernels.arrays import Bools, Ints
from millrace.operators.evaluate import evaluate
from millrace.operators.joining import rules
from millrace.operators.joining.conditions import Conditions
from millrace.operators.joining.exploring import NO_BITS, Combinations, columns_of
from millrace.operators.joining.pairing import Strategy
from millrace.operators.joining.prepared import Prepared
from millrace.operators.joining.queries import Ranged
from millrace.operators.joining.stems import Functions, Stems, truth
from millrace.operators.vectors import as_array
from millrace.sharing.band_rows import within_reach
from millrace.sharing.codes import LEAST
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Triples, expand
from millrace.sharing.stored import Stored

Part = Literal["all", "past", "slab"]
"""Of what is stored: all, what came before the slab, or what came in it."""
FEW_DRIVERS, MOST_PAIRS = 4096, 1 << 21
"""How many drivers ask at once at least, and about how many queries they may find then."""


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Elements of one leaf that ask what is stored of the other; places are those of leaves."""

    driver: int
    drivers: Drivers
    places: Ints
    stored: Stored

    @property
    def n_pairs(self) -> int:
        """How many pairs have equal keys."""
        return int(self.stored.lengths(self.drivers.segments).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """Finds combinations of two leaves for all queries of a family."""

    stems: Stems
    conditions: Conditions
    prepared: Prepared
    codes: tuple[Mapping[int, Ints], ...]
    """The codes of each leaf's rows, for each range that is of this leaf alone."""
    entered: Ints
    functions: Functions

    def probes(self, of: Part = "all") -> list[Probe]:
        """Return what the elements of each leaf ask of the other: of all, or of a part."""
        return [self._probe(driver, of) for driver in (0, 1)]

    def _probe(self, driver: int, of: Part) -> Probe:
        """Return the elements of a leaf that are new, and what is stored of the other."""
        other = 1 - driver
        by = self.stems.binding(other, frozenset({driver}))
        index = self.stems.index(other, by)
        segments = np.repeat(np.arange(len(index.keys)), np.diff(index.starts))
        there = self._codes(other)[index.places]
        past = index.places < self.stems.leaves[other].n_past
        wanted_part = {"all": True, "past": past, "slab": ~past}[of]
        kept = np.flatnonzero((there != LEAST) & wanted_part)
        # Those of a key are in order of time already.
        order = kept[np.lexsort((there[kept], segments[kept]))]
        starts = np.searchsorted(segments[order], np.arange(len(index.keys) + 1))
        stored = Stored(starts, there[order], index.times[order], index.places[order])
        rows, codes = self.stems.leaves[driver], self._codes(driver)
        numbers = self.stems.numbers(by, {driver: rows.new}, len(rows.new))
        wanted = index.wanted(numbers)
        asking = np.flatnonzero((wanted >= 0) & (codes[rows.new] != LEAST))
        asking = asking[np.argsort(wanted[asking], kind="stable")]
        at = rows.new[asking]
        return Probe(driver, Drivers(wanted[asking], codes[at], rows.times[at]), at, stored)

    def _codes(self, leaf: int) -> Ints:
        """Return the codes by which a strategy finds rows of a leaf."""
        pairing = self.prepared.pairing
        assert pairing is not None, "queries are found by something"
        rows, at = self.stems.leaves[leaf], pairing.ranges[leaf]
        if at is not None:
            return self.codes[leaf][at]
        if pairing.band is None or pairing.numbers is None:
            return np.zeros(len(rows), np.int64)
        value = as_array(evaluate(pairing.numbers[leaf], rows.rows, self.functions), len(rows))
        return self.prepared.queries.ranges[pairing.band].coder(value)

    def within_reach(self) -> bool:
        """Say whether strategies can take all rows: differences of greater numbers do not fit."""
        if self.prepared.pairing is None or self.prepared.pairing.band is None:
            return True
        codes = np.concatenate([self._codes(leaf) for leaf in (0, 1)])
        return bool(within_reach(codes[codes != LEAST], doubles=False).all())

    def found(self, probe: Probe, strategy: Strategy) -> Iterator[tuple[Combinations, Ints]]:
        """Yield combinations and the queries that want them, one of each."""
        first, n_drivers, step = 0, len(probe.drivers), FEW_DRIVERS
        while first < n_drivers:
            some = probe.drivers.cut(first, first + step)
            runs = strategy.find(some, probe.stored).runs()
            runs = replace(runs, queries=self.prepared.places[runs.queries])
            for piece in expand(runs, probe.stored):
                yield self._verified(probe, piece._replace(drivers=piece.drivers + first))
            first += step
            step = max(FEW_DRIVERS, step * MOST_PAIRS // max(len(runs.drivers), MOST_PAIRS // 4))

    def _verified(self, probe: Probe, piece: Triples) -> tuple[Combinations, Ints]:
        """Leave out what the order of elements, births, windows or other conditions forbid."""
        driver, other = probe.driver, 1 - probe.driver
        leaves, queries = self.stems.leaves, self.prepared.queries
        rows = {driver: probe.places[piece.drivers], other: piece.places}
        wanted, driver_times = piece.queries, probe.drivers.times[piece.drivers]
        times = leaves[other].times[rows[other]]
        mask = rules.earlier(times, other, driver_times, driver)
        mask &= rules.age(driver_times, times) <= queries.sizes[other][wanted]
        mask &= self.stems.agree(
            self.stems.binding(other, frozenset({driver})),
            {driver: rows[driver]},
            other,
            rows[other],
        )
        low, high = rules.sees(self.entered)
        for leaf, places in rows.items():
            epochs = leaves[leaf].epochs[places]
            mask &= (epochs >= low[wanted]) & (epochs <= high[wanted])
            for at, codes in self.codes[leaf].items():
                mask &= _inside(codes[places], queries.ranges[at], wanted)
        kept = np.flatnonzero(mask)
        rows = {leaf: places[kept] for leaf, places in rows.items()}
        return self._agreed(Combinations(rows, driver_times[kept], NO_BITS), wanted[kept])

    def _agreed(self, found: Combinations, wanted: Ints) -> tuple[Combinations, Ints]:
        """Ask what is of both leaves: of each pair once, however many queries it was found for."""
        both = [at for at, each in enumerate(self.conditions.ranges) if len(each.leaves) > 1]
        if not len(found) or not (self.conditions.checks or both):
            return found, wanted
        radix = len(self.stems.leaves[1])
        _, firsts, numbers = np.unique(
            found.rows[0] * radix + found.rows[1], return_index=True, return_inverse=True
        )
        pairs, numbers = found.take(firsts), numbers.reshape(-1)
        mask = np.ones(len(pairs), np.bool_)
        for each in self.conditions.checks:
            rows = columns_of(self.stems, pairs, [each.condition])
            mask &= truth(each.condition, rows, self.functions)
        kept = mask[numbers]
        for at in both:
            asked, ranged = self.conditions.ranges[at], self.prepared.queries.ranges[at]
            rows = columns_of(self.stems, pairs, [asked.value])
            value = as_array(evaluate(asked.value, rows, self.functions), len(pairs))
            if not (asked.hint and value.null_count):
                kept &= _inside(ranged.coder(value)[numbers], ranged, wanted)
        return found.take(np.flatnonzero(kept)), wanted[kept]


def _inside(codes: Ints, ranged: Ranged, wanted: Ints) -> Bools:
    found: Bools = (codes >= ranged.low[wanted]) & (codes <= ranged.high[wanted])
    return found
