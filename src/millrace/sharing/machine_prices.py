"""The prices of this machine: of select, window and band joins, and of lineage.

They are read when work is first weighed. If they have not been measured here, that is done then, in
a thread of low priority beside the work itself: once for a machine, and for some seconds. Until it
is done the prices are those that are known. `millrace warm` does it ahead of time.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock, Thread, get_native_id

from millrace.caches import cache_directory
from millrace.sharing import band_calibration, lineage_prices
from millrace.sharing.price_list import PriceList
from millrace.sharing.select import calibration as select_calibration
from millrace.sharing.select.prices import Prices
from millrace.sharing.select.strategies import BUILDS
from millrace.sharing.window import calibration as window_calibration

VARIABLE, KNOWN = "MILLRACE_PRICES", "known"
"""With this in the environment nothing is measured, and nothing that was is read."""
STALE_SECONDS = 120.0
"""Who has been measuring for so long has died."""
_NICE = 10

LISTS: dict[str, tuple[PriceList, Callable[[], dict[str, Prices]]]] = {
    "select": (select_calibration.LIST, partial(select_calibration.calibrate, BUILDS)),
    "window": (window_calibration.LIST, window_calibration.calibrate),
    "band": (band_calibration.LIST, band_calibration.calibrate),
    "lineage": (lineage_prices.LIST, lineage_prices.calibrate),
}
"""Each price list, and what measures it."""
_BEGUN = Lock()
"""Held since this process has looked whether there is something to measure."""


@dataclass(frozen=True, slots=True)
class MachinePrices:
    """Prices by the names of strategies."""

    select: Mapping[str, Prices]
    window: Mapping[str, Prices]
    band: Mapping[str, Prices]
    lineage: Mapping[str, Prices]


@cache
def machine_prices() -> MachinePrices:
    """Return the prices that were measured here, or those that are known."""
    if _known():
        return MachinePrices(**{kind: prices.known for kind, (prices, _) in LISTS.items()})
    return MachinePrices(**{kind: prices.of_machine() for kind, (prices, _) in LISTS.items()})


def measure_prices() -> None:
    """Measure what has not been measured on this machine, and go by it from now on."""
    for prices, measure in LISTS.values():
        prices.keep(measure)
    machine_prices.cache_clear()


def measure_beside() -> Thread | None:
    """Let a thread measure what has not been measured, if nobody does that already."""
    if _known() or not _BEGUN.acquire(blocking=False):
        return None
    if all(prices.path.exists() for prices, _ in LISTS.values()):
        return None
    thread = Thread(target=_measure_alone, name="millrace-prices", daemon=True)
    thread.start()
    return thread


def _known() -> bool:
    return os.environ.get(VARIABLE) == KNOWN


def _measure_alone() -> None:
    with contextlib.suppress(OSError, AttributeError):  # not everywhere has a thread one of its own
        os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICE)
    with _alone(cache_directory(os.environ) / "prices.lock") as alone:
        if alone:
            measure_prices()


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Say whether no other process is at it; if so, none is until the context ends."""
    with contextlib.suppress(OSError):
        if time.time() - lock.stat().st_mtime > STALE_SECONDS:
            lock.unlink()
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.open("x").close()
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        lock.unlink(missing_ok=True)
