"""What band joins cost: the work of each way for a driver, and what kinds of work cost.

    q_outer      itself, and a bisection of the rows that it meets for each band
    merge_join   itself, and a step for each band and row
    d_outer      itself, and a descent of each row in a tree of the bands
    ssi          itself, two searches for each group, and what these bisect

Amounts follow from numbers alone, so what a way would take is known without building it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from millrace.kernels.arrays import Floats
from millrace.sharing.select.prices import Prices

# In the order of what `band_work` returns; ns, measured on one machine.
PRICES: dict[str, Prices] = {
    "q_outer": (0.0, 2.7),
    "merge_join": (115.0, 1.6),
    "d_outer": (50.0, 57.0),
    "ssi": (75.0, 6.5, 2.8),
}


def band_work(way: str, n_bands: int, n_rows: Floats) -> Floats:
    """Return how much a driver does that meets so many rows: `[kind of work, driver]`.

    Of `ssi` groups count, and not their bands.
    """
    one, depth = np.ones(n_rows.size), np.log2(n_rows + 2)
    match way:
        case "q_outer":
            return np.stack((one, n_bands * depth))
        case "merge_join":
            return np.stack((one, n_bands + n_rows))
        case "d_outer":
            return np.stack((one, n_rows * np.log2(n_bands + 2)))
        case _:
            assert way == "ssi", "there is no other way"
            return np.stack((one, n_bands * one, n_bands * depth))


def band_cost(
    way: str, n_bands: int, n_rows: Floats, prices: Mapping[str, Prices] = PRICES
) -> Floats:
    """Return what counting affected queries takes a driver that meets so many rows, in ns."""
    found: Floats = np.asarray(prices[way]) @ band_work(way, n_bands, n_rows)
    return found
