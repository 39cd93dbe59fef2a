"""By which ranges of two leaves queries are found, and the strategies that find them so.

select    a range of one leaf or of each: SelectFirst, JoinFirst, SSI, Hotspot, Dynamic, ...
window    and each query has a window of its own: SelectFirst, JoinFirst, SSI, which know how old
          what is stored is, and Dynamic, which takes one of them for each driver
band      no such range, but one of the difference of whole numbers: merge join, SSI, Hotspot
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.operators.joining.conditions import Conditions
from millrace.operators.joining.queries import Queries
from millrace.plan.expressions import Expression
from millrace.sharing.band_indexes import d_outer, merge_join, q_outer, ssi
from millrace.sharing.band_join import BandJoin
from millrace.sharing.band_table import BandTable
from millrace.sharing.codes import HIGHEST, LOWEST
from millrace.sharing.hot_bands import HotBandJoin
from millrace.sharing.hotspots import Hotspots
from millrace.sharing.machine_prices import machine_prices
from millrace.sharing.queries import BandQueries, SelectQueries, WindowQueries
from millrace.sharing.select.hotspot import ALPHA
from millrace.sharing.select.prices import Prices
from millrace.sharing.select.strategies import STRATEGIES
from millrace.sharing.select.strategy import Strategy as SelectStrategy
from millrace.sharing.window.dynamic import WindowDynamic
from millrace.sharing.window.join import WindowJoin
from millrace.sharing.window.strategies import STRATEGIES as OF_WINDOWS

Strategy: TypeAlias = BandJoin | HotBandJoin | WindowJoin | WindowDynamic | SelectStrategy
"""What finds queries for drivers, as queries come and go."""

BANDS: dict[str, Callable[[Mapping[str, Prices]], BandJoin | HotBandJoin]] = {
    "q_outer": lambda prices: BandJoin(q_outer, BandTable(doubles=False), prices),
    "d_outer": lambda prices: BandJoin(d_outer, BandTable(doubles=False), prices),
    "merge_join": lambda prices: BandJoin(merge_join, BandTable(doubles=False), prices),
    "ssi": lambda prices: BandJoin(ssi, BandTable(doubles=False), prices),
    "hotspot": lambda prices: HotBandJoin(Hotspots(ALPHA), BandTable(doubles=False), prices),
}
"""Each makes a strategy of band joins, of prices."""
WINDOWS: dict[str, Callable[[Mapping[str, Prices]], WindowJoin | WindowDynamic]] = {
    f"window_{name}": make for name, make in OF_WINDOWS.items()
}
"""Each makes a strategy of window joins, of prices, for what is stored before the slab."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """What finds queries: a range of each leaf, if it has one, or the range of a difference."""

    ranges: tuple[int | None, int | None]
    band: int | None = None
    numbers: tuple[Expression, Expression] | None = None
    """Of a band, the number of each leaf."""
    minuend: int = 0
    """Of a band, the leaf whose number the other's is taken from."""
    windowed: bool = False
    """Whether queries have windows of their own."""

    @property
    def names(self) -> tuple[str, ...]:
        """The strategies that there are."""
        if self.band is not None:
            return tuple(BANDS)
        return (*STRATEGIES, *(WINDOWS if self.windowed else ()))

    def strategy(self, name: str) -> Strategy:
        """Return a strategy without queries."""
        prices = machine_prices()
        if self.band is not None:
            return BANDS[name](prices.band)
        if name in WINDOWS:
            return WINDOWS[name](prices.window)
        return STRATEGIES[name]({**prices.select})

    def add(self, strategy: Strategy, slots: Ints, queries: Queries, driver: int) -> None:
        """Let a strategy find more queries for elements of a leaf, each in a slot that is free."""
        match strategy:
            case BandJoin() | HotBandJoin():
                strategy.add(slots, self.bands(queries, driver))
            case WindowJoin() | WindowDynamic():
                strategy.add(slots, self._windows(queries, driver))
            case _:
                strategy.add(slots, self._selects(queries, driver))

    def _selects(self, queries: Queries, driver: int) -> SelectQueries:
        return SelectQueries(*self._ends(queries, driver))

    def _windows(self, queries: Queries, driver: int) -> WindowQueries:
        low, high, least, most = self._ends(queries, driver)
        return WindowQueries(low, high, least, most, queries.sizes[1 - driver])

    def _ends(self, queries: Queries, driver: int) -> list[Ints]:
        """Return the ends of each query's ranges of drivers, and of what they ask."""
        ends = []
        for leaf in (driver, 1 - driver):
            at = self.ranges[leaf]
            if at is None:
                ends += [np.full(len(queries), LOWEST), np.full(len(queries), HIGHEST)]
            else:
                ends += [queries.ranges[at].low, queries.ranges[at].high]
        return ends

    def bands(self, queries: Queries, driver: int) -> BandQueries:
        """Return the bands of what is stored less the driver's number."""
        assert self.band is not None, "it is of bands"
        ranged = queries.ranges[self.band]
        if driver != self.minuend:
            return BandQueries(ranged.low, ranged.high)
        return BandQueries(-ranged.high, -ranged.low)


def pairing(conditions: Conditions, *, windowed: bool) -> Pairing | None:
    """Return by what the queries of a join of two leaves are found, if by anything."""
    if len(conditions.filters) != 2:
        return None
    chosen = _best(conditions, 0), _best(conditions, 1)
    if chosen != (None, None):
        return Pairing(chosen, windowed=windowed)
    for at, each in enumerate(conditions.ranges):
        if each.difference is not None:
            numbers = dict(each.difference)
            return Pairing(chosen, at, (numbers[0], numbers[1]), each.difference[0][0])
    return None


def _best(conditions: Conditions, leaf: int) -> int | None:
    """Return the range of a leaf that tells most: of one value, or else with both ends."""

    def narrowness(at: int) -> tuple[bool, int]:
        each = conditions.ranges[at]
        return bool({*each.lows} & {*each.highs}), bool(each.lows) + bool(each.highs)

    return max(conditions.ranges_of(leaf), key=narrowness, default=None)
