"""A batch of both streams: each new row meets each row of the other side once.

    new left  x old right    by a strategy: what is stored is older
    new right x old left     by its mirror image
    new left  x new right    by JoinFirst, which needs no order
    late rows x old rows     by JoinFirst too

A row is late if its segment holds a newer one. The strategy could not tell such a row from one
whose window reaches back: skylines assume that the newest stored row is the nearest in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from millrace.kernels.arrays import Bools, Ints
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Finder, Found, Triples
from millrace.sharing.queries import WindowQueries
from millrace.sharing.stored import Stored
from millrace.sharing.window.join import AnyOrder


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One stream of a join: its new rows and its old ones, in the same segments.

    `places` are the numbers by which the caller knows the new rows.
    """

    new: Drivers
    places: Ints
    old: Stored


def mirrored(queries: WindowQueries) -> WindowQueries:
    """Return queries as the other stream sees them."""
    return WindowQueries(
        queries.stored_low,
        queries.stored_high,
        queries.driver_low,
        queries.driver_high,
        queries.sizes,
    )


def late_rows(drivers: Drivers, stored: Stored) -> Bools:
    """Say which drivers are older than something that they probe."""
    newest = np.full(stored.n_segments, np.iinfo(np.int64).min)
    some = np.flatnonzero(np.diff(stored.starts))
    newest[some] = (
        np.maximum.reduceat(stored.times, stored.starts[some]) if some.size else newest[:0]
    )
    return drivers.times < newest[drivers.segments]


def meet_both(
    left: Side, right: Side, finders: tuple[Finder, Finder], joins: tuple[AnyOrder, AnyOrder]
) -> Iterator[Triples]:
    """Yield the results of all new rows: places of the left, places of the right, queries.

    Of finders and joins there are two: for drivers of the left, and mirrored for the right.
    """
    yield from _with_old(left, right.old, finders[0], joins[0])
    for found in _with_old(right, left.old, finders[1], joins[1]):
        yield Triples(found.places, found.drivers, found.queries)
    rows, n_segments = right.new, right.old.n_segments
    fresh = Stored.build(rows.segments, rows.codes, rows.times, n_segments=n_segments)
    found = joins[0].meet(left.new, fresh)
    yield Triples(left.places[found.drivers], right.places[found.places], found.queries)


def _with_old(side: Side, old: Stored, finder: Finder, join: AnyOrder) -> Iterator[Triples]:
    late = late_rows(side.new, old)
    rows = np.flatnonzero(late)
    if rows.size:
        found = join.meet(side.new.take(rows), old)
        yield found._replace(drivers=side.places[rows[found.drivers]])
    rows = np.flatnonzero(~late)
    for found in Found(finder, side.new.take(rows), old).triples():
        yield found._replace(drivers=side.places[rows[found.drivers]])
