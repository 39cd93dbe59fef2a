"""What work takes: ns for each kind of work that an index does for a driver."""

from __future__ import annotations

from typing import TypeAlias

Prices: TypeAlias = tuple[float, ...]

# First that of a batch, then in the order of what `work` returns. They were measured on one machine
# (`sharing.select.calibration` does it on others); only their ratios matter.
PRICES: dict[str, Prices] = {
    "vanilla": (5000.0, 0.0, 1.07, 1.07, 39.3),
    "select_first": (33900.0, 408.0, 3.06, 6.91, 20.0),
    "join_first": (1730.0, 37.8, 23.7, 3.04, 32.9),
    "ssi": (33800.0, 124.0, 13.1, 2.55, 2.31, 96.0, 24.8),
    "bitmaps": (13200.0, 40.6, 0.644, 1.83, 1.14, 18.4),
}
