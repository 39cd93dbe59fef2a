"""Functions of dates and timestamps, in UTC; what is not in the years 1 to 9999 is NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.kernels.arrays import Bools, Ints
from millrace.operators.cast import cast
from millrace.operators.vectors import Datum, by_distinct, datum_of, elementwise, vector
from millrace.plan.patterns import format_fault
from millrace.plan.signatures import UNITS
from millrace.plan.types import BIGINT, DATE, DOUBLE, TEXT
from millrace.schema import TIMESTAMP
from millrace.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND

_PLAIN = pa.timestamp("us")  # without a zone, no database of zones is asked
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICRO
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICRO
_MONDAY = 10_959 * DAY  # 2000-01-03, where buckets begin
_SIZES = {
    "week": 7 * DAY,
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
    "millisecond": MILLISECOND,
    "microsecond": 1,
}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
# English, whatever the locale of the machine.
_DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def part(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """Make a function that returns a part of an instant as a number."""
    return lambda instant: elementwise(
        lambda rows: kernel(cast(rows, TIMESTAMP).cast(_PLAIN)).cast(BIGINT), instant
    )


def milliseconds(rows: pa.Array) -> pa.Array:
    """Count the milliseconds since the minute began."""
    return pc.add(pc.multiply(pc.second(rows), 1000), pc.millisecond(rows))


def microseconds(rows: pa.Array) -> pa.Array:
    """Count the microseconds since the minute began."""
    return pc.add(pc.multiply(milliseconds(rows), 1000), pc.microsecond(rows))


def day_of_week(rows: pa.Array) -> pa.Array:
    """Number the days of the week from Sunday, which is 0."""
    return pc.day_of_week(rows, count_from_zero=True, week_start=7)


def weekday(rows: pa.Array) -> pa.Array:
    """Number the days of the week from Monday, which is 1."""
    return pc.day_of_week(rows, count_from_zero=False, week_start=1)


def dayname(instant: Datum) -> Datum:
    """Return the English name of the day."""
    return _name(part(weekday)(instant), _DAY_NAMES)


def monthname(instant: Datum) -> Datum:
    """Return the English name of the month."""
    return _name(part(pc.month)(instant), _MONTH_NAMES)


def _name(number: Datum, names: Sequence[str]) -> Datum:
    words = pa.array(names)
    return elementwise(lambda rows: words.take(pc.subtract(rows, 1)), number)


def last_day(instant: Datum) -> Datum:
    """Return the last day of the month in which an instant lies."""

    def find(rows: pa.Array) -> pa.Array:
        times = vector(rows)
        months = (times.values // DAY).astype("datetime64[D]").astype("datetime64[M]")
        days = (months + 1).astype("datetime64[D]").astype(np.int64) - 1
        return _dates(days, rows.is_valid().to_numpy(zero_copy_only=False))

    return elementwise(find, _micros(instant))


def make_date(year: Datum, month: Datum, day: Datum) -> Datum:
    """Return the day of a year, a month and a day; NULL if there is none."""

    def make(*columns: pa.Array) -> pa.Array:
        years, months, days = (vector(each.cast(BIGINT)).values for each in columns)
        there = (years >= 1) & (years <= 9999) & (months >= 1) & (months <= 12)
        there &= (days >= 1) & (days <= 31)
        number = np.where(there, (years - 1970) * 12 + months - 1, 0)
        begins, ends = (
            each.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
            for each in (number, number + 1)
        )
        found = begins + np.where(there, days, 1) - 1
        for each in columns:
            there &= each.is_valid().to_numpy(zero_copy_only=False)
        return _dates(found, there & (found < ends))

    return elementwise(make, year, month, day)


def date_trunc(unit: Datum, instant: Datum) -> Datum:
    """Return the beginning of the year, month, … in which an instant lies."""

    def cut(rows: pa.Array, word: str) -> pa.Array:
        if word.lower() not in UNITS:
            return pa.nulls(len(rows), TIMESTAMP)
        plain = cast(rows, TIMESTAMP).cast(_PLAIN)
        return pc.floor_temporal(plain, unit=word.lower()).cast(TIMESTAMP)

    return by_distinct(cut, instant, unit, result=TIMESTAMP)


def date_add(unit: Datum, number: Datum, instant: Datum) -> Datum:
    """Return an instant some units later; of a day that its month lacks, the last one."""

    def add(pairs: pa.StructArray, word: str) -> pa.Array:
        numbers, instants = (vector(each) for each in pairs.flatten())
        if word.lower() in _SIZES:
            found, lost = _shifted(instants.values, numbers.values, _SIZES[word.lower()])
        elif word.lower() in _MONTHS:
            found, lost = _in_months(instants.values, numbers.values, _MONTHS[word.lower()])
        else:
            return pa.nulls(len(pairs), TIMESTAMP)
        return _instants(found, _both_valid(pairs) & ~lost)

    pairs = elementwise(_pairs, number, _micros(instant))
    return by_distinct(add, pairs, unit, result=TIMESTAMP)


def date_diff(unit: Datum, first: Datum, last: Datum) -> Datum:
    """Return how often a new unit begins from one instant to another, below zero if backwards."""

    def count(pairs: pa.StructArray, word: str) -> pa.Array:
        if word.lower() not in UNITS:
            return pa.nulls(len(pairs), BIGINT)
        one, other = (_numbered(vector(each).values, word.lower()) for each in pairs.flatten())
        return datum_of(other - one, _both_valid(pairs), BIGINT)

    pairs = elementwise(_pairs, _micros(first), _micros(last))
    return by_distinct(count, pairs, unit, result=BIGINT)


def time_bucket(width: Datum, instant: Datum) -> Datum:
    """Return where the bucket of so many microseconds begins in which an instant lies."""

    def cut(widths: pa.Array, rows: pa.Array) -> pa.Array:
        pairs = _pairs(widths, rows)
        sizes, times = (vector(each).values for each in pairs.flatten())
        found = times - (times - _MONDAY) % np.maximum(sizes, 1)
        return _instants(found, _both_valid(pairs) & (sizes > 0))

    return elementwise(cut, width, _micros(instant))


def to_timestamp(seconds: Datum) -> Datum:
    """Return the instant so many seconds after 1970, to the nearest microsecond."""

    def read(rows: pa.Array) -> pa.Array:
        valid = rows.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_integer(rows.type):
            numbers = vector(rows.cast(BIGINT)).values
            lost = (numbers < _FIRST // SECOND) | (numbers > _LAST // SECOND)
            return _instants(np.where(lost, 0, numbers) * SECOND, valid & ~lost)
        with np.errstate(all="ignore"):
            scaled = np.rint(vector(cast(rows, DOUBLE)).values * SECOND)
        lost = ~((scaled >= _FIRST) & (scaled <= _LAST))
        return _instants(np.where(lost, 0, scaled).astype(np.int64), valid & ~lost)

    return elementwise(read, seconds)


def epoch(instant: Datum) -> Datum:
    """Return how many seconds an instant is after 1970."""
    return pc.divide(_micros(instant).cast(DOUBLE, safe=False), float(SECOND))


def epoch_ms(instant: Datum) -> Datum:
    """Return how many whole milliseconds an instant is after 1970."""

    def count(rows: pa.Array) -> pa.Array:
        valid = rows.is_valid().to_numpy(zero_copy_only=False)
        return datum_of(vector(rows).values // MILLISECOND, valid, BIGINT)

    return elementwise(count, _micros(instant))


def strftime(instant: Datum, pattern: Datum) -> Datum:
    """Print an instant by a pattern such as '%Y-%m-%d %H:%M:%S'."""

    def show(rows: pa.Array, text: str) -> pa.Array:
        if format_fault(text) is not None:
            return pa.nulls(len(rows), TEXT)
        seconds = pc.floor_temporal(rows.cast(_PLAIN), unit="second").cast(pa.timestamp("s"))
        return pc.strftime(seconds, format=text)

    return by_distinct(show, _micros(instant), pattern, result=TEXT)


# ---- microseconds ------------------------------------------------------------------------------


def _micros(instant: Datum) -> Datum:
    return cast(instant, TIMESTAMP).cast(BIGINT)


def _pairs(one: pa.Array, other: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([one.cast(BIGINT), other], names=["one", "other"])


def _both_valid(pairs: pa.StructArray) -> Bools:
    one, other = (each.is_valid().to_numpy(zero_copy_only=False) for each in pairs.flatten())
    valid: Bools = one & other
    return valid


def _dates(days: Ints, valid: Bools) -> pa.Array:
    return datum_of(days, valid, BIGINT).cast(pa.int32()).cast(DATE)


def _instants(micros: Ints, valid: Bools) -> pa.Array:
    there = valid & (micros >= _FIRST) & (micros <= _LAST)
    return datum_of(micros, there, BIGINT).cast(TIMESTAMP)


def _shifted(times: Ints, numbers: Ints, size: int) -> tuple[Ints, Bools]:
    """Add units of a fixed size; say which leave all years that there are."""
    most = (_LAST - _FIRST) // size + 1
    lost = (numbers > most) | (numbers < -most)
    return times + np.where(lost, 0, numbers) * size, lost


def _in_months(times: Ints, numbers: Ints, n_months: int) -> tuple[Ints, Bools]:
    """Add months, quarters or years."""
    most = 120_000 // n_months
    lost = (numbers > most) | (numbers < -most)
    days = (times // DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    there = months + np.where(lost, 0, numbers) * n_months
    begins, ends = there.astype("datetime64[D]"), (there + 1).astype("datetime64[D]")
    place = np.minimum(days - months.astype("datetime64[D]"), ends - begins - 1)
    return (begins + place).astype(np.int64) * DAY + times % DAY, lost


def _numbered(times: Ints, unit: str) -> Ints:
    """Number the units of time, each instant having the number of the one it lies in."""
    if unit in _MONTHS:
        months = (times // DAY).astype("datetime64[D]").astype("datetime64[M]")
        return months.astype(np.int64) // _MONTHS[unit]
    monday = 3 * DAY if unit == "week" else 0  # 1970 began on a Thursday
    numbered: Ints = (times + monday) // _SIZES[unit]
    return numbered
