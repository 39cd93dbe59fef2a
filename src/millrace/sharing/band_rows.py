"""Rows of band joins as numbers: codes cannot be subtracted, their values can.

Integers, dates and times are their own codes. The code of a double is its bits in the order of its
values, so a difference needs the double again. Drivers are put in the order in which the kernels
want them: by segment, then by rising value.

Invariant: numbers are finite and differences of integers fit in 64 bits. Rows that are not within
`reach` of this (infinities, NaN, integers beyond 2**62) are for the caller to join one by one.

Cost: 1 ns a stored row for doubles, nothing for integers; 60 ns a driver for sorting.
"""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Bools, Ints, Numbers
from millrace.kernels.bands import Probes
from millrace.sharing.drivers import Drivers
from millrace.sharing.queries import BandQueries
from millrace.sharing.stored import Stored

_LARGEST = 2**62 - 1
_BITS = np.int64(np.iinfo(np.int64).max)
_INFINITY = int(np.float64(np.inf).view(np.int64))  # its code; that of its negative is ~ of it


def within_reach(codes: Ints, *, doubles: bool) -> Bools:
    """Say which rows a band join can take."""
    largest = _INFINITY - 1 if doubles else _LARGEST
    return (codes >= ~largest) & (codes <= largest)


def numbers_of(codes: Ints, *, doubles: bool) -> Numbers:
    """Return the numbers that codes stand for.

    >>> numbers_of(np.array([0, ~_INFINITY, _INFINITY]), doubles=True).tolist()
    [0.0, -inf, inf]
    """
    if not doubles:
        return codes
    return np.where(codes < 0, codes ^ _BITS, codes).view(np.float64)


def settled(queries: BandQueries, *, doubles: bool) -> BandQueries:
    """Return bands whose ends are numbers, perhaps infinite.

    No difference is NaN: a band that begins there is empty, one that ends there has no high end.
    """
    if not doubles:
        return queries
    low, high = (np.clip(each, ~_INFINITY, _INFINITY) for each in (queries.low, queries.high))
    return BandQueries(np.where(queries.low > _INFINITY, _INFINITY + 1, low), high)


def probes_of(drivers: Drivers, stored: Stored, *, doubles: bool) -> Probes:
    """Return drivers in the order of kernels; a probe knows whose it is."""
    order = np.lexsort((drivers.codes, drivers.segments))
    segments = drivers.segments[order]
    bases = numbers_of(drivers.codes[order], doubles=doubles)
    return Probes(bases, stored.starts[segments], stored.starts[segments + 1], order)
