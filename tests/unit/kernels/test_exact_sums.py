"""Sums that are exact whatever the order, rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels import exact_sums as exact

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SMALL = st.floats(-1e140, 1e140)
WHOLE = st.integers(-(2**63), 2**63 - 1)


def laid_out(parts: tuple[np.ndarray, np.ndarray, np.ndarray], width: int) -> np.ndarray:
    limbs = np.zeros((1, width), np.int64)
    np.add.at(limbs[0], parts[1], parts[2])
    return limbs


def rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@given(st.lists(FINITE, min_size=1, max_size=9), st.integers(1, 2**31 - 1), st.integers(0, 20))
def test_a_sum_of_doubles_is_rounded_once(values: list[float], divisor: int, scale: int) -> None:
    rows = np.zeros(len(values), np.int64)
    limbs = laid_out(exact.split_doubles(np.array(values), rows), exact.N_LIMBS)

    found = exact.rounded_quotients(limbs, 0, np.array([divisor]), scale)[0]
    assert found == rounded(sum(map(Fraction, values)) / divisor / 10**scale)


@given(st.lists(FINITE, min_size=1, max_size=9))
def test_what_is_taken_away_leaves_nothing(values: list[float]) -> None:
    rows = np.zeros(len(values), np.int64)
    limbs = laid_out(exact.split_doubles(np.array(values), rows), exact.N_LIMBS)
    back = laid_out(exact.split_doubles(-np.array(values)[::-1], rows), exact.N_LIMBS)

    assert not (limbs + back).any()


@given(st.lists(SMALL, min_size=1, max_size=7), st.integers(0, 1))
def test_a_variance_is_rounded_once(values: list[float], freedom: int) -> None:
    rows, n_values = np.zeros(len(values), np.int64), len(values)
    sums = laid_out(exact.split_doubles(np.array(values), rows), exact.N_LIMBS)
    squares = laid_out(
        exact.split_products(np.array(values), np.array(values), rows), 2 * exact.N_LIMBS + 6
    )

    found = exact.variances(sums, 0, squares, 0, np.array([n_values]), freedom)[0]
    exactly = list(map(Fraction, values))
    total = sum(exactly, Fraction(0))
    whole = n_values * sum((each * each for each in exactly), Fraction(0)) - total * total
    expected = rounded(whole / (n_values * (n_values - freedom))) if n_values > freedom else 0.0
    assert found == expected


@given(st.lists(WHOLE, min_size=1, max_size=9))
def test_whole_numbers_add_up_beyond_64_bits(values: list[int]) -> None:
    rows = np.zeros(len(values), np.int64)
    limbs = laid_out(exact.split_words(np.array(values)[:, None], 0, rows), 4)

    words, beyond = exact.whole_words(limbs)
    low, high = words[0].tolist()
    assert not beyond[0]
    assert (low & (2**64 - 1)) | (high << 64) == sum(values)
