"""Functions of dates and timestamps, in UTC."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from millrace.operators.cast import cast
from millrace.operators.vectors import Datum, by_distinct, elementwise
from millrace.plan.signatures import UNITS
from millrace.plan.types import BIGINT
from millrace.schema import TIMESTAMP

_PLAIN = pa.timestamp("us")  # without a zone, no database of zones is asked


def part(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """Make a function that returns a part of an instant as a number."""
    return lambda instant: elementwise(
        lambda rows: kernel(cast(rows, TIMESTAMP).cast(_PLAIN)).cast(BIGINT), instant
    )


def day_of_week(rows: pa.Array) -> pa.Array:
    """Number the days of the week from Sunday, which is 0."""
    return pc.day_of_week(rows, count_from_zero=True, week_start=7)


def date_trunc(unit: Datum, instant: Datum) -> Datum:
    """Return the beginning of the year, month, … in which an instant lies."""

    def cut(rows: pa.Array, word: str) -> pa.Array:
        if word.lower() not in UNITS:
            return pa.nulls(len(rows), TIMESTAMP)
        plain = cast(rows, TIMESTAMP).cast(_PLAIN)
        return pc.floor_temporal(plain, unit=word.lower()).cast(TIMESTAMP)

    return by_distinct(cut, instant, unit, result=TIMESTAMP)
