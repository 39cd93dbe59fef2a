"""Select joins to measure: queries, stored rows and drivers, as Table I of the paper has them.

Stored rows have keys at random and codes uniform on a line of a million; drivers too. The ranges of
queries on the driver's side are about a normal middle, those on the stored side where a case wants
them: spread evenly, of a length that gives some number of groups, or in clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.partition import canonical
from millrace.sharing.queries import SelectQueries
from millrace.sharing.stored import Stored

LINE = 1_000_000
N_STORED = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """What strategies are given."""

    queries: SelectQueries
    drivers: Drivers
    stored: Stored

    def some(self, n_drivers: int) -> Drivers:
        """Return so many of the drivers, from all segments."""
        rows = np.linspace(0, len(self.drivers) - 1, n_drivers).astype(np.int64)
        return self.drivers.take(np.unique(rows))

    @property
    def tau(self) -> int:
        """How many groups the stored ranges need."""
        return canonical(self.queries.stored_low, self.queries.stored_high).sizes.size

    @classmethod
    def of(
        cls,
        random: np.random.Generator,
        ranges: tuple[Ints, Ints, Ints, Ints],
        *,
        n_drivers: int,
        n_stored: int = N_STORED,
        n_segments: int = 100,
        peaked: bool = False,
    ) -> Self:
        """Join queries with drivers and stored rows of some keys; `peaked` as in Table I.

        There the keys of stored rows are normal about the middle one, those of drivers uniform, so
        that drivers join few rows or many.
        """
        nothing = np.zeros(max(n_drivers, n_stored), np.int64)
        segments = np.sort(random.integers(0, n_segments, n_drivers))
        codes = random.integers(0, LINE, n_drivers)
        keys = random.integers(0, n_segments, n_stored)
        if peaked:
            about_middle = random.normal(n_segments / 2, n_segments / 10, n_stored)
            keys = np.clip(about_middle, 0, n_segments - 1).astype(np.int64)
        rows = random.integers(0, LINE, n_stored)
        return cls(
            SelectQueries(*ranges),
            Drivers(segments, codes, nothing[:n_drivers]),
            Stored.build(keys, rows, nothing[:n_stored], n_segments=n_segments),
        )


def about(middle: Floats, length: Floats) -> tuple[Ints, Ints]:
    """Return ranges with these middles and lengths."""
    return (middle - length / 2).astype(np.int64), (middle + length / 2).astype(np.int64)


def driver_ranges(random: np.random.Generator, n: int, share: float) -> tuple[Ints, Ints]:
    """Return ranges that select a part of the drivers each."""
    length = np.abs(random.normal(share, share / 10, n)) * LINE
    return about(np.clip(random.normal(0.5, 0.2, n), 0, 1) * LINE, length)


def with_tau(random: np.random.Generator, n: int, tau: int) -> tuple[Ints, Ints]:
    """Return ranges spread evenly, of the length at which about so many groups are needed."""
    middle, spread = random.random(n) * LINE, np.abs(random.normal(1, 0.05, n))
    shortest, longest = 1.0, float(LINE)
    for _ in range(30):
        length = (shortest * longest) ** 0.5
        found = canonical(*about(middle, spread * length)).sizes.size
        shortest, longest = (length, longest) if found > tau else (shortest, length)
    return about(middle, spread * longest)


def in_clusters(
    random: np.random.Generator, n: int, share: float, n_clusters: int = 40
) -> tuple[Ints, Ints]:
    """Return ranges, part of them in clusters on the left half, the others short on the right."""
    clustered = np.arange(n) < share * n
    centres = (np.arange(n_clusters) + 0.5) * LINE / 2 / n_clusters
    near = centres[random.integers(0, n_clusters, n)] + random.normal(0, 200, n)
    middle = np.where(clustered, near, LINE / 2 * (1 + random.random(n)))
    wide, short = np.abs(random.normal(3_000, 200, n)), np.abs(random.normal(30, 5, n))
    return about(middle, np.where(clustered, wide, short))
