"""Batches cut by segments, where what is kept for each segment would not fit otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from millrace.kernels.select_scan import Probes


def in_pieces(probes: Probes, most_segments: int) -> Iterator[tuple[int, Probes]]:
    """Yield the number of the first driver, and the drivers of at most so many segments."""
    for segment in range(0, probes.firsts.size, most_segments):
        stop_segment = min(segment + most_segments, probes.firsts.size)
        first, stop = np.searchsorted(probes.segments, (segment, stop_segment), "left").tolist()
        yield (
            first,
            probes._replace(
                segments=probes.segments[first:stop] - segment,
                drivers=probes.drivers[first:stop],
                firsts=probes.firsts[segment:stop_segment],
                stops=probes.stops[segment:stop_segment],
            ),
        )
