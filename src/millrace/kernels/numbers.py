"""Kernels that read numbers and truth values out of cells.

Floats take Clinger's fast path: with at most 2^53 in the digits and a power of ten up to 22,
one multiplication or division of two exact doubles is the correctly rounded result. The rest
(about none, in data that programs print) is left to the caller as EXACT.

Cost: 17 ns an integer, 30 ns a float (best of 7, on a machine four times overloaded).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bools, Bytes, Floats, Ints
from millrace.kernels.cells import EXACT, FINE, MISFIT, RANGE
from millrace.kernels.unicode import byte_at

_POWERS = 10.0 ** np.arange(23)
_MAX_EXACT = 2**53
_LOWEST = -(2**63)


@njit(cache=True, nogil=True)
def trim(data: Bytes, first: int, stop: int) -> tuple[int, int]:
    """Return the span without the spaces and tabs around it."""
    while first < stop and (data[first] == 32 or data[first] == 9):
        first += 1
    while first < stop and (data[stop - 1] == 32 or data[stop - 1] == 9):
        stop -= 1
    return first, stop


@njit(cache=True, nogil=True)
def read_ints(
    data: Bytes, firsts: Ints, stops: Ints, wanted: Bools, low: int, high: int
) -> tuple[Ints, Bytes]:
    """Read each wanted cell as an integer with `low <= value <= high`."""
    values = np.zeros(firsts.size, np.int64)
    states = np.zeros(firsts.size, np.uint8)
    for row in range(firsts.size):
        if wanted[row]:
            value, state = _read_int(data, firsts[row], stops[row])
            if state == FINE and not low <= value <= high:
                state = RANGE
            values[row] = value if state == FINE else 0
            states[row] = state
    return values, states


@njit(cache=True, nogil=True)
def _read_int(data: Bytes, first: int, stop: int) -> tuple[int, int]:
    first, stop = trim(data, first, stop)
    negative = first < stop and data[first] == 45
    if first < stop and (negative or data[first] == 43):
        first += 1
    if first == stop:
        return 0, MISFIT
    total = 0  # runs below zero, where there is room for one more
    state = FINE
    for at in range(first, stop):
        digit = byte_at(data, at) - 48
        if not 0 <= digit <= 9:
            return 0, MISFIT
        if total < -922337203685477580 or (total == -922337203685477580 and digit > 8):
            state = RANGE
        total = total * 10 - digit
    if not negative and total == _LOWEST:
        state = RANGE
    return (total if negative else -total), state


@njit(cache=True, nogil=True)
def read_floats(data: Bytes, firsts: Ints, stops: Ints, wanted: Bools) -> tuple[Floats, Bytes]:
    """Read each wanted cell as a double; EXACT asks for a slower reader."""
    values = np.zeros(firsts.size, np.float64)
    states = np.zeros(firsts.size, np.uint8)
    for row in range(firsts.size):
        if wanted[row]:
            first, stop = trim(data, firsts[row], stops[row])
            values[row], states[row] = _read_float(data, first, stop)
    return values, states


@njit(cache=True, nogil=True)
def _read_float(data: Bytes, first: int, stop: int) -> tuple[float, int]:
    mantissa, n_digits, n_fraction, exponent, shape = read_shape(data, first, stop)
    if shape != FINE:
        special = _special(data, first, stop)
        return (special, FINE) if special != 0.0 else (0.0, MISFIT)
    power = exponent - n_fraction
    if n_digits > 18 or mantissa > _MAX_EXACT or not -22 <= power <= 22:
        return 0.0, EXACT
    value = np.float64(mantissa)
    value = value * _POWERS[power] if power >= 0 else value / _POWERS[-power]
    return (-value if data[first] == 45 else value), FINE


@njit(cache=True, nogil=True)
def read_shape(data: Bytes, first: int, stop: int) -> tuple[int, int, int, int, int]:
    """Take `[+-]digits[.digits][e[+-]digits]` apart.

    Returns the digits as a number (meaningless beyond 18), how many of them count (without
    leading zeros), how many stand behind the point, the exponent, and FINE or MISFIT.
    """
    at = first + 1 if first < stop and (data[first] == 45 or data[first] == 43) else first
    mantissa, n_seen, n_digits, n_fraction, pointed = 0, 0, 0, 0, False
    while at < stop:
        digit = byte_at(data, at) - 48
        if 0 <= digit <= 9:
            n_seen += 1
            n_digits += 1 if n_digits or digit else 0
            n_fraction += 1 if pointed else 0
            mantissa = mantissa * 10 + digit if n_digits <= 18 else mantissa
        elif data[at] == 46 and not pointed:
            pointed = True
        else:
            break
        at += 1
    exponent, state = 0, FINE if n_seen else MISFIT
    if at < stop and (data[at] | 32) == 101:
        exponent, state_of_exponent = _read_int(data, at + 1, stop)
        state = MISFIT if state_of_exponent == MISFIT else state
        exponent = min(max(exponent, -100000), 100000) if state_of_exponent == FINE else 100000
    elif at < stop:
        state = MISFIT
    return mantissa, n_digits, n_fraction, exponent, state


@njit(cache=True, nogil=True)
def _special(data: Bytes, first: int, stop: int) -> float:
    """Read nan, inf or infinity in any case and with a sign; 0.0 stands for none of them."""
    sign = -1.0 if first < stop and data[first] == 45 else 1.0
    if first < stop and (data[first] == 45 or data[first] == 43):
        first += 1
    if same_word(data, first, stop, b"nan"):
        return np.nan
    if same_word(data, first, stop, b"inf") or same_word(data, first, stop, b"infinity"):
        return sign * np.inf
    return 0.0


@njit(cache=True, nogil=True)
def same_word(data: Bytes, first: int, stop: int, word: bytes) -> bool:
    """Compare letters with a lower-case word, without regard to case."""
    if stop - first != len(word):
        return False
    for index in range(len(word)):  # noqa: SIM110 - numba has no all()
        if (data[first + index] | 32) != word[index]:
            return False
    return True


@njit(cache=True, nogil=True)
def check_decimals(
    data: Bytes, firsts: Ints, stops: Ints, wanted: Bools, precision: int, scale: int
) -> Bytes:
    """Say of each wanted cell whether it is a decimal(precision, scale) without rounding."""
    states = np.zeros(firsts.size, np.uint8)
    for row in range(firsts.size):
        if wanted[row]:
            first, stop = trim(data, firsts[row], stops[row])
            states[row] = _check_decimal(data, first, stop, precision, scale)
    return states


@njit(cache=True, nogil=True)
def _check_decimal(data: Bytes, first: int, stop: int, precision: int, scale: int) -> int:
    _, n_digits, n_fraction, exponent, shape = read_shape(data, first, stop)
    if shape != FINE:
        return MISFIT
    if exponent != 0 or stop - first > 60:
        return EXACT
    at = stop - 1
    while n_fraction > 0 and data[at] == 48:  # zeros at the end of a fraction do not count
        at, n_fraction, n_digits = at - 1, n_fraction - 1, n_digits - 1
    n_digits = max(n_digits, 0)
    whole = max(n_digits - n_fraction, 0)
    return FINE if n_fraction <= scale and whole <= precision - scale else RANGE


@njit(cache=True, nogil=True)
def read_bools(data: Bytes, firsts: Ints, stops: Ints, wanted: Bools) -> tuple[Bools, Bytes]:
    """Read true, false, t, f, 1 or 0, in any case."""
    values = np.zeros(firsts.size, np.bool_)
    states = np.zeros(firsts.size, np.uint8)
    for row in range(firsts.size):
        if wanted[row]:
            first, stop = trim(data, firsts[row], stops[row])
            one = stop - first == 1
            if same_word(data, first, stop, b"true") or (one and data[first] in (49, 84, 116)):
                values[row] = True
            elif not (
                same_word(data, first, stop, b"false") or (one and data[first] in (48, 70, 102))
            ):
                states[row] = MISFIT
    return values, states
