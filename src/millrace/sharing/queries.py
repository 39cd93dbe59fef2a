"""Sets of queries that join the same streams by the same keys and differ in constants.

A range is closed and in codes (`sharing.codes`). One that is empty is allowed; its query matches
nothing, and no structure holds it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from millrace.kernels.arrays import Bools, Ints
from millrace.sharing.codes import as_range


@dataclass(frozen=True, slots=True, eq=False)
class SelectQueries:
    """Each selects drivers by one range and stored rows by another, and joins them by key."""

    driver_low: Ints
    driver_high: Ints
    stored_low: Ints
    stored_high: Ints

    def __post_init__(self) -> None:
        for side in ("driver", "stored"):
            low, high = as_range(getattr(self, f"{side}_low"), getattr(self, f"{side}_high"))
            object.__setattr__(self, f"{side}_low", low)
            object.__setattr__(self, f"{side}_high", high)
        assert len({getattr(self, each.name).size for each in fields(self)}) == 1, "one of each"

    def __len__(self) -> int:
        return self.driver_low.size

    def nonempty(self) -> Bools:
        """Say which queries may match something."""
        return (self.driver_low <= self.driver_high) & (self.stored_low <= self.stored_high)


@dataclass(frozen=True, slots=True, eq=False)
class WindowQueries(SelectQueries):
    """Of the stored rows each sees those that are at most `sizes` older than the driver."""

    sizes: Ints

    def nonempty(self) -> Bools:
        """Say which queries may match something; stored rows are never newer than drivers."""
        return SelectQueries.nonempty(self) & (self.sizes >= 0)


@dataclass(frozen=True, slots=True, eq=False)
class BandQueries:
    """Each joins a driver with the stored rows whose code, less the driver's, is in its range."""

    low: Ints
    high: Ints

    def __post_init__(self) -> None:
        low, high = as_range(self.low, self.high)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        assert self.low.size == self.high.size, "one of each"

    def __len__(self) -> int:
        return self.low.size

    def nonempty(self) -> Bools:
        """Say which queries may match something."""
        return np.asarray(self.low <= self.high)
