"""The strategies of window joins by name, as settings and tests choose them."""

from __future__ import annotations

from collections.abc import Callable

from millrace.sharing.select.prices import Prices
from millrace.sharing.window.dynamic import WindowDynamic
from millrace.sharing.window.indexes import SelectFirst
from millrace.sharing.window.join import AnyOrder, WindowJoin
from millrace.sharing.window.stabbed import Stabbed

# In the order of what `work` of each index returns; ns.
PRICES: dict[str, Prices] = {
    "join_first": (1000.0, 0.6, 20.0),
    "select_first": (1000.0, 7.0, 7.0),
    "ssi": (1000.0, 100.0, 20.0, 5.0),
}


INDEXED: dict[str, Callable[[], WindowJoin]] = {
    "join_first": lambda: AnyOrder(PRICES["join_first"]),
    "select_first": lambda: WindowJoin(SelectFirst, PRICES["select_first"]),
    "ssi": lambda: WindowJoin(Stabbed, PRICES["ssi"]),
}
"""Each makes a strategy that is an index, without queries."""


def dynamic() -> WindowDynamic:
    """Return the one that chooses for each driver, without queries."""
    return WindowDynamic({name: make() for name, make in INDEXED.items()})


STRATEGIES: dict[str, Callable[[], WindowJoin | WindowDynamic]] = {**INDEXED, "dynamic": dynamic}
