"""Covariances and correlations of two numbers of each row, exact and rounded once.

Like a variance, they are made of sums that are kept as limbs (`kernels.exact_sums`): of the
numbers, of their products and, for a correlation, of their squares. Each sum has places of its own:

    0   first number      128   second number      256, 512   their squares      768   products

Cost: of all sums, a division of long whole numbers in Python for each answer, some 5 microseconds.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan, sqrt

import numpy as np
import pyarrow as pa

from millrace.kernels import exact_sums as exact
from millrace.kernels.arrays import Bools, Floats, Ints
from millrace.plan.relations import Aggregate

FREEDOM = {"covar_pop": 0, "covar_samp": 1, "corr": 0}
_FIRST, _SECOND, _FIRST_SQUARE, _SECOND_SQUARE, _PRODUCT = 0, 128, 256, 512, 768
_SUMS = (_FIRST, _SECOND, _FIRST_SQUARE, _SECOND_SQUARE, _PRODUCT, 1024)


def split_pairs(aggregate: Aggregate, pairs: Floats) -> tuple[Ints, Ints, Ints]:
    """Split what is added up of pairs of finite doubles, two columns, into limbs."""
    first, second = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    rows = np.arange(len(pairs))
    parts = [
        (_FIRST, exact.split_doubles(first, rows)),
        (_SECOND, exact.split_doubles(second, rows)),
        (_PRODUCT, exact.split_products(first, second, rows)),
    ]
    if aggregate.kind == "corr":
        parts.append((_FIRST_SQUARE, exact.split_products(first, first, rows)))
        parts.append((_SECOND_SQUARE, exact.split_products(second, second, rows)))
    return (
        np.concatenate([owners for _, (owners, _, _) in parts]),
        np.concatenate([places + begin for begin, (_, places, _) in parts]),
        np.concatenate([limbs for _, (_, _, limbs) in parts]),
    )


def paired_answers(
    aggregate: Aggregate, counts: Ints, limbs: dict[int, Ints], absent: Bools
) -> pa.Array:
    """Return the aggregate of sums, by the places of their limbs; NaN of what is not finite."""
    strange: Bools = np.any(counts[:, 1:] != 0, axis=1)
    found: list[float | None] = [None] * len(counts)
    for row in np.flatnonzero(~absent).tolist():
        found[row] = nan if strange[row] else _answer(aggregate, int(counts[row, 0]), limbs, row)
    return pa.array(found, pa.float64())


def _answer(aggregate: Aggregate, n_rows: int, limbs: dict[int, Ints], row: int) -> float | None:
    sums = [
        sum(
            int(values[row]) << exact.LIMB_BITS * (place - begin)
            for place, values in limbs.items()
            if begin <= place < stop
        )
        for begin, stop in pairwise(_SUMS)
    ]
    first, second, first_squares, second_squares, products = sums
    mixed = n_rows * products - first * second
    if aggregate.kind != "corr":
        divisor = n_rows * (n_rows - FREEDOM[aggregate.kind]) << 2 * exact.BIAS
        return _quotient(mixed, divisor)
    spread = (n_rows * first_squares - first**2) * (n_rows * second_squares - second**2)
    if spread == 0:
        return None
    root = sqrt(_quotient(mixed**2, spread))
    return -root if mixed < 0 else root


def _quotient(number: int, divisor: int) -> float:
    """Divide whole numbers and round to the nearest double, as Python does."""
    try:
        return number / divisor
    except OverflowError:
        return inf if number > 0 else -inf
