"""A batch as kernels see it: drivers that find something, and the segments they probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.kernels.select_scan import Probes
from millrace.sharing.drivers import Drivers
from millrace.sharing.stored import Stored


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Probes, and `rows`: which driver each of them is."""

    probes: Probes
    rows: Ints

    @classmethod
    def of(cls, drivers: Drivers, stored: Stored) -> Self:
        """Leave out drivers whose segment is empty, and number the segments that are left."""
        rows = np.flatnonzero(stored.lengths(drivers.segments))
        segments = drivers.segments[rows]
        is_new = np.ones(segments.size, np.bool_)
        is_new[1:] = segments[1:] != segments[:-1]
        distinct = segments[is_new]
        numbers = np.cumsum(is_new) - 1
        firsts, stops = stored.starts[distinct], stored.starts[distinct + 1]
        return cls(Probes(numbers, drivers.codes[rows], firsts, stops, stored.codes), rows)

    def __len__(self) -> int:
        return self.rows.size


def by_code(probes: Probes) -> Ints:
    """Return the order in which a sweep takes drivers."""
    return np.argsort(probes.drivers)


SAMPLE_SEGMENTS = 12
SAMPLE_QUERIES = 48


class Load:
    """Some drivers of a batch, as costs depend on them: their codes, and whom they share with.

    Things are counted for a sample of the segments and told of others by their length.
    """

    def __init__(self, batch: Batch, rows: Ints | None = None) -> None:
        probes = batch.probes
        self.probes = probes
        self.segments = probes.segments if rows is None else probes.segments[rows]
        self.codes = probes.drivers if rows is None else probes.drivers[rows]
        self.n_shared = np.bincount(probes.segments, minlength=probes.firsts.size)[self.segments]
        self.n_stored = (probes.stops - probes.firsts)[self.segments]
        self.n_drivers = len(batch)
        sizes = probes.stops - probes.firsts
        by_size = np.argsort(sizes, kind="stable")
        places = np.linspace(0, sizes.size - 1, SAMPLE_SEGMENTS).astype(np.int64)
        self.sampled = by_size[np.unique(places)]
        self._share: Floats | None = None

    def __len__(self) -> int:
        return self.codes.size

    def told(self, values: Ints | Floats) -> Floats:
        """Return for each driver what was counted for sampled segments of its segment's length."""
        sizes = self.probes.stops[self.sampled] - self.probes.firsts[self.sampled]
        told: Floats = np.interp(self.n_stored, sizes, values)
        return told

    def sampled_codes(self) -> list[Ints]:
        """Return the stored codes of the sampled segments."""
        spans = zip(self.probes.firsts[self.sampled], self.probes.stops[self.sampled], strict=True)
        return [self.probes.codes[first:stop] for first, stop in spans]

    def share_hit(self, stored_low: Ints, stored_high: Ints) -> Floats:
        """Return for each driver which part of the queries has a row in its segment.

        Some of the queries are looked for, once for all who ask: they have the same queries.
        """
        if self._share is None:
            places = np.linspace(0, stored_low.size - 1, SAMPLE_QUERIES).astype(np.int64)
            low, high = stored_low[places], stored_high[places]
            shares = [
                np.mean(np.searchsorted(codes, low) < np.searchsorted(codes, high, "right"))
                for codes in self.sampled_codes()
            ]
            self._share = self.told(np.array(shares))
        return self._share

    def searches(self) -> Floats:
        """Return how many steps a search takes among the rows that each driver meets."""
        steps: Floats = np.log2(self.n_stored + 1.0)
        return steps
