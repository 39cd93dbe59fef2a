"""The strategies of select joins by name, as settings and tests choose them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from millrace.sharing.select.bitmaps import Bitmaps
from millrace.sharing.select.dynamic import Dynamic
from millrace.sharing.select.hotspot import ALPHA, Hotspot
from millrace.sharing.select.index import Build
from millrace.sharing.select.join_first import JoinFirst
from millrace.sharing.select.prices import PRICES, Prices
from millrace.sharing.select.select_first import SelectFirst
from millrace.sharing.select.stabbed import CELLS, Stabbed
from millrace.sharing.select.strategy import Indexed, Strategy
from millrace.sharing.select.vanilla import Vanilla

BUILDS: dict[str, Build] = {
    "vanilla": Vanilla.build,
    "select_first": SelectFirst.build,
    "join_first": JoinFirst.build,
    "ssi": Stabbed.build,
    "bitmaps": Bitmaps.build,
}


def indexed(name: str, prices: dict[str, Prices] = PRICES) -> Indexed:
    """Return a strategy that is an index, without queries."""
    return Indexed(BUILDS[name], prices[name])


def ssi(prices: dict[str, Prices] = PRICES, *, n_cells: int = CELLS) -> Indexed:
    """Return SSI without queries, with a number of cells."""
    return Indexed(partial(Stabbed.build, n_cells=n_cells), prices["ssi"])


def hotspot(
    prices: dict[str, Prices] = PRICES, *, alpha: float = ALPHA, checked: bool = False
) -> Hotspot:
    """Return Hotspot without queries."""
    scattered = {name: indexed(name, prices) for name in ("select_first", "ssi")}
    return Hotspot(indexed("ssi", prices), scattered, alpha=alpha, checked=checked)


def dynamic(prices: dict[str, Prices] = PRICES, *, alpha: float = ALPHA) -> Dynamic:
    """Return Dynamic without queries."""
    strategies: dict[str, Strategy] = {name: indexed(name, prices) for name in BUILDS}
    return Dynamic(strategies | {"hotspot": hotspot(prices, alpha=alpha)})


STRATEGIES: dict[str, Callable[[dict[str, Prices]], Strategy]] = {
    **{name: partial(indexed, name) for name in BUILDS},
    "hotspot": hotspot,
    "dynamic": dynamic,
}
"""Each makes a strategy of prices."""
