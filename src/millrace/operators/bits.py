"""Functions of the bits of whole numbers, which are 64 and in two's complement."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from millrace.operators.compare import as_type
from millrace.operators.vectors import Datum, both_valid, datum_of, vector
from millrace.plan.types import BIGINT


def bitwise(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    """Make a function of whole numbers from one of Arrow's."""
    return lambda *numbers: kernel(*(as_type(each, BIGINT) for each in numbers))


def shift_left(number: Datum, n_places: Datum) -> Datum:
    """Multiply by 2 so many times; NULL beyond a bigint, and by less than none."""
    one, two = vector(as_type(number, BIGINT)), vector(as_type(n_places, BIGINT))
    places = np.clip(two.values, 0, 63)
    moved = one.values << places
    fits = (two.values >= 0) & (
        (moved >> places == one.values) & (two.values < 64) | (one.values == 0)
    )
    given = both_valid(one, two)
    return datum_of(np.asarray(moved), np.asarray(fits if given is None else fits & given), BIGINT)


def shift_right(number: Datum, n_places: Datum) -> Datum:
    """Divide by 2 so many times, each time down; NULL by less than none."""
    one, two = vector(as_type(number, BIGINT)), vector(as_type(n_places, BIGINT))
    moved, fits = one.values >> np.clip(two.values, 0, 63), two.values >= 0
    given = both_valid(one, two)
    return datum_of(np.asarray(moved), np.asarray(fits if given is None else fits & given), BIGINT)
