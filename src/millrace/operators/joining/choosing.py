"""Choosing: whether queries are found by their lineage, or by a strategy, and by which.

Lineage asks all queries about all rows, 64 at a time; strategies look for the few that a row
affects. Which takes less follows from exact counts: of rows, of pairs with equal keys, of queries.
What is expected is in ns, and only comparisons matter. A choice stands for slabs of about the same
size, for as long as queries are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from millrace.kernels.arrays import Floats
from millrace.kernels.lineage import WORD
from millrace.operators.joining.finding import Finding, Probe
from millrace.operators.joining.pairing import Pairing
from millrace.operators.joining.prepared import Prepared
from millrace.operators.weighing import Weighed
from millrace.sharing.band_indexes import expected_of_bands
from millrace.sharing.drivers import Drivers
from millrace.sharing.hot_bands import HotBandJoin
from millrace.sharing.lineage_prices import LINEAGE
from millrace.sharing.machine_prices import machine_prices, measure_beside
from millrace.sharing.stored import Stored
from millrace.sharing.window.dynamic import WindowDynamic

AUTO, DYNAMIC = "auto", "dynamic"
BESIDE = DYNAMIC
"""What finds pairs that came in one slab, beside a strategy for what was there before."""
FEW_QUERIES = 512
"""So few queries are asked at once in less time than an index over them takes to be made."""

SAMPLE = 128
"""For so many drivers it is said what strategies take."""


class Estimating(Protocol):
    """A strategy that says what it is expected to take."""

    def estimate(self, drivers: Drivers, stored: Stored) -> Floats:
        """Return what each driver is expected to take, in ns."""
        ...


def ways(pairing: Pairing | None) -> tuple[str, ...]:
    """Return the ways that there are to find queries."""
    return (LINEAGE,) if pairing is None else (LINEAGE, *pairing.names)


def chosen(wanted: str, finding: Finding, probes: Sequence[Probe]) -> Weighed:
    """Return the way to find queries: the one that is wanted, if there is it, or the cheapest."""
    prepared, n_asking = finding.prepared, sum(len(each.drivers) for each in probes)
    if wanted in ways(prepared.pairing):
        return Weighed((wanted,), {}, n_asking)
    if len(prepared.queries) <= FEW_QUERIES:
        return Weighed((LINEAGE,), {}, n_asking)
    sizes = [size for each in probes for size in (len(each.drivers), len(each.stored))]
    magnitudes = tuple(each.bit_length() for each in sizes)
    if magnitudes not in prepared.choices:
        measure_beside()
        prepared.choices[magnitudes] = estimates(finding, probes)
    costs = prepared.choices[magnitudes]
    return Weighed((min(costs, key=costs.__getitem__),), costs, n_asking)


def estimates(finding: Finding, probes: Sequence[Probe]) -> dict[str, float]:
    """Return what each way is expected to take for some elements, in ns."""
    prepared = finding.prepared
    found = {LINEAGE: _lineage(finding, probes)}
    for probe in probes:
        for name, cost in _strategies(prepared, probe).items():
            found[name] = found.get(name, 0.0) + cost
    return found | _windowed(finding)


def _strategies(prepared: Prepared, probe: Probe) -> dict[str, float]:
    """Return what each strategy is expected to take, by some of the drivers."""
    assert prepared.pairing is not None, "queries are found by something"
    if prepared.pairing.band is not None:
        return _banded(prepared, prepared.pairing, probe)
    found = _parts(prepared.dynamic(probe.driver).strategies, probe)
    return {name: float(each.sum()) for name, each in found.items()}


def _banded(prepared: Prepared, pairing: Pairing, probe: Probe) -> dict[str, float]:
    """Return what strategies of band joins are expected to take; few of them have to be made."""
    bands = pairing.bands(prepared.queries, probe.driver)
    n_rows = probe.stored.lengths(probe.drivers.segments).astype(np.float64)
    found = expected_of_bands(bands, n_rows, machine_prices().band)
    hotspot = prepared.strategy("hotspot", probe.driver)
    assert isinstance(hotspot, HotBandJoin), "it is of that name"
    return found | {"hotspot": float(_expected(hotspot, probe).sum())}


def _windowed(finding: Finding) -> dict[str, float]:
    """Return what strategies of window joins are expected to take, with what is of the slab.

    The one that chooses for each driver comes first: where another is as good, it takes that.
    """
    prepared, found = finding.prepared, dict[str, float]()
    if prepared.pairing is None or not prepared.pairing.windowed:
        return found
    for past, slab in zip(finding.probes("past"), finding.probes("slab"), strict=True):
        beside = _parts(prepared.dynamic(slab.driver).strategies, slab)[BESIDE]
        dynamic = prepared.strategy(f"window_{DYNAMIC}", past.driver)
        assert isinstance(dynamic, WindowDynamic), "it is of that name"
        for name, costs in reversed(_parts(dynamic.strategies, past).items()):
            cost = float(costs.sum() + beside.sum())
            found[f"window_{name}"] = found.get(f"window_{name}", 0.0) + cost
    return found


def _parts(strategies: Mapping[str, Estimating], probe: Probe) -> dict[str, Floats]:
    """Return what each part of one that chooses is expected to take, and last what it takes."""
    costs = {name: _expected(each, probe) for name, each in strategies.items()}
    return {**costs, DYNAMIC: np.min([*costs.values()], axis=0)}


def _expected(strategy: Estimating, probe: Probe) -> Floats:
    """Return what a strategy is expected to take for each of some drivers, that stand for all."""
    n_drivers = len(probe.drivers)
    if not n_drivers:
        return np.zeros(1)
    some = np.unique(np.linspace(0, n_drivers - 1, SAMPLE).astype(np.int64))
    return strategy.estimate(probe.drivers.take(some), probe.stored) * n_drivers / len(some)


def _lineage(finding: Finding, probes: Sequence[Probe]) -> float:
    queries = finding.prepared.queries
    n_words, n_ranges = -(-len(queries) // WORD), max(len(queries.ranges), 1)
    n_rows = sum(map(len, finding.stems.leaves))
    n_pairs = sum(each.n_pairs for each in probes)
    cell, search = machine_prices().lineage[LINEAGE]
    searched = search * len(queries) * n_ranges
    return cell * n_words * (n_rows * n_ranges + n_pairs) + searched
