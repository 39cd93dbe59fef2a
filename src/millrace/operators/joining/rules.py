"""The rules by which a combination of elements is found once, for the right queries, and no others.

Elements have a total order: by time, then by leaf. A combination is found by its latest element,
the *driver*, which asks what is stored of the other leaves. All of a slab is stored before anything
of it asks (*build before probe*); so an element meets later ones too, and must let them go.

    rule        without it
    built       pairs of one slab are missed
    earlier     they are found by each of their elements
    ready       a combination of three is found in every order of asking
    together    queries get rows that one of their conditions has rejected
    sees        queries get combinations with elements from before their birth
    age         what a window has forgotten by the end of a slab is missed, or told

Each is a function of its own, which a test replaces to see that it is needed.
"""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Bits, Bools, Ints
from millrace.kernels.lineage import meet


def built(n_past: int, n_rows: int) -> Ints:  # noqa: ARG001  how many are of the past is no matter
    """Return the rows of a leaf that can be asked: also those of the slab, behind the past."""
    return np.arange(n_rows)


def earlier(times: Ints, leaf: int, driver_times: Ints, driver: int) -> Bools:
    """Say which elements of a leaf are before those of the driver's leaf that ask them."""
    found: Bools = (times <= driver_times) if leaf < driver else (times < driver_times)
    return found


def ready(leaf: int, bound: frozenset[int], done: frozenset[int]) -> bool:
    """Say whether a combination of the leaves `bound` may ask a leaf.

    What it inherits as done and does not have was joined elsewhere: it cannot become whole here.
    """
    return leaf not in bound and done <= bound


def together(one: Bits, ones: Ints, other: Bits, others: Ints) -> Bits:
    """Return for which queries a combination lives: those for which all its elements do."""
    return meet(one, ones, other, others)


def sees(entered: Ints) -> tuple[Ints, Ints]:
    """Return the epochs, as a range of each query, in which what it sees has come."""
    return entered, np.full(len(entered), np.iinfo(np.int64).max - 1)


def age(driver_times: Ints, times: Ints) -> Ints:
    """Return how old elements are when they are asked: at the time of the driver."""
    return driver_times - times
