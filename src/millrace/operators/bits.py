"""Functions of the bits of whole numbers, which are 64 and in two's complement."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from millrace.kernels.arrays import Bools, Ints
from millrace.operators.compare import as_type
from millrace.operators.vectors import Datum, both_valid, datum_of, vector
from millrace.plan.types import BIGINT


def bitwise(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    """Make a function of whole numbers from one of Arrow's."""
    return lambda *numbers: kernel(*(as_type(each, BIGINT) for each in numbers))


def shift_left(number: Datum, n_places: Datum) -> Datum:
    """Multiply by 2 so many times; NULL beyond a bigint, and by less than none."""

    def shift(values: Ints, places: Ints) -> tuple[Ints, Bools]:
        few = np.clip(places, 0, 63)
        moved = values << few
        return moved, (moved >> few == values) & (places < 64) | (values == 0)

    return _shifted(shift, number, n_places)


def shift_right(number: Datum, n_places: Datum) -> Datum:
    """Divide by 2 so many times, each time down; NULL by less than none."""
    return _shifted(
        lambda values, places: (values >> np.clip(places, 0, 63), np.bool_(True)), number, n_places
    )


def _shifted(
    shift: Callable[[Ints, Ints], tuple[Ints, Bools | np.bool_]], number: Datum, n_places: Datum
) -> Datum:
    """Shift where there is a number, and not by less than none; `shift` says if it fits."""
    one, two = vector(as_type(number, BIGINT)), vector(as_type(n_places, BIGINT))
    moved, fits = shift(one.values, two.values)
    valid, given = fits & (two.values >= 0), both_valid(one, two)
    return datum_of(
        np.asarray(moved), np.asarray(valid if given is None else valid & given), BIGINT
    )
