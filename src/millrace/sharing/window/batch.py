"""A batch of a window join: that of a select join, with times, and links where they are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.kernels.arrays import Floats, Ints
from millrace.kernels.select_scan import Probes
from millrace.kernels.window_links import link
from millrace.kernels.window_scans import Moments, sample_young
from millrace.sharing.drivers import Drivers
from millrace.sharing.select.batch import Batch
from millrace.sharing.stored import Stored


class Links:
    """Links of what is stored, made for a segment when a driver first probes it."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        self._linked = np.zeros(stored.n_segments, np.bool_)
        self.previous = np.empty(len(stored), np.int64)
        self.following = np.empty(len(stored), np.int64)

    def make(self, segments: Ints) -> None:
        """See to it that some segments are linked."""
        fresh = np.unique(segments[~self._linked[segments]])
        if fresh.size:
            starts = self.stored.starts
            link(starts[fresh], starts[fresh + 1], self.stored.times, self.previous, self.following)
            self._linked[fresh] = True


@dataclass(frozen=True, slots=True, eq=False)
class WindowBatch:
    """Probes and when they were; `rows` are the drivers that they are."""

    probes: Probes
    moments: Moments
    rows: Ints
    segments: Ints
    links: Links

    @classmethod
    def of(cls, drivers: Drivers, stored: Stored, links: Links) -> WindowBatch:
        """Leave out drivers whose segment is empty."""
        batch = Batch.of(drivers, stored)
        moments = Moments(drivers.times[batch.rows], stored.times)
        return cls(batch.probes, moments, batch.rows, drivers.segments[batch.rows], links)

    def linked(self) -> Links:
        """Return the links, for those who need them."""
        self.links.make(self.segments)
        return self.links

    def n_young(self, widest: int) -> Floats:
        """Return how many rows of each probe's segment are about young enough for some window."""
        return sample_young(self.probes, self.moments, widest)

    @property
    def lengths(self) -> Ints:
        """How many rows the segment of each probe has."""
        return (self.probes.stops - self.probes.firsts)[self.probes.segments]
