"""The strategies of window joins by name, as settings and tests choose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from millrace.sharing.select.prices import Prices
from millrace.sharing.window.dynamic import WindowDynamic
from millrace.sharing.window.indexes import JoinFirst, SelectFirst
from millrace.sharing.window.join import AnyOrder, Build, WindowJoin
from millrace.sharing.window.stabbed import Stabbed

# In the order of what `work` of each index returns; ns, measured on one machine
# (`sharing.window.calibration` does it on others).
PRICES: dict[str, Prices] = {
    "join_first": (74.0, 20.7, 10.4),
    "select_first": (1690.0, 9.1, 2.5),
    "ssi": (132.0, 148.0, 7.8, 7.5),
}


BUILDS: dict[str, Build] = {
    "join_first": JoinFirst,
    "select_first": SelectFirst,
    "ssi": Stabbed,
}


def indexed(name: str, prices: Mapping[str, Prices] = PRICES) -> WindowJoin:
    """Return a strategy that is an index, without queries."""
    if name == "join_first":
        return AnyOrder(prices[name])
    return WindowJoin(BUILDS[name], prices[name])


def dynamic(prices: Mapping[str, Prices] = PRICES) -> WindowDynamic:
    """Return the one that chooses for each driver, without queries."""
    return WindowDynamic({name: indexed(name, prices) for name in BUILDS})


STRATEGIES: dict[str, Callable[..., WindowJoin | WindowDynamic]] = {
    **{name: partial(indexed, name) for name in BUILDS},
    "dynamic": dynamic,
}
"""Each makes a strategy of prices, or of those that are known."""
