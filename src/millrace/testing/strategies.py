"""Hypothesis strategies: schemas, rows and well-typed expressions over them.

Values come from a few that cause trouble (NULL, NaN, -0.0, the ends of ranges, empty texts,
characters of several bytes) more often than from anywhere, and from few letters, so that equal
ones meet. Hypothesis draws; nothing here decides what is right.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as tests
from hypothesis import strategies as st

from millrace.plan.types import Kind, kind_of
from millrace.schema import Column, Schema, type_named

TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)",
    "decimal(38,6)", "text", "binary", "date", "timestamp",
)  # fmt: skip
LETTERS = "abAB%_\\ 0é日🂡"

_DOUBLES = (0.0, -0.0, 0.5, 1.0, -1.5, 2.5, 1e15, -1e300, 5e-324, math.nan, math.inf, -math.inf)
_DATES = (date.min, date.max, date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31))
_MOMENTS = (
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 30, 59, 999_999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
)


def schemas() -> st.SearchStrategy[Schema]:
    """Draw a schema of a few columns of any types."""
    types = st.lists(st.sampled_from(TYPES), min_size=1, max_size=8)
    return types.map(
        lambda drawn: Schema(
            tuple(Column(f"c{at}", type_named(each)) for at, each in enumerate(drawn))
        )
    )


WIDE = Schema(tuple(Column(f"c{at}", type_named(each)) for at, each in enumerate(TYPES)))
"""A schema with a column of every type."""


def values(arrow: pa.DataType) -> st.SearchStrategy[Any]:
    """Draw a value of a type, never NULL."""
    if tests.is_integer(arrow):
        most = 2 ** (arrow.bit_width - 1)
        small = st.integers(-3, 3)
        return st.one_of(small, st.sampled_from([-most, most - 1]), st.integers(-most, most - 1))
    if tests.is_decimal(arrow):
        return _decimals(arrow)
    if tests.is_floating(arrow):
        width = arrow.bit_width
        chosen = [each for each in _DOUBLES if width == 64 or _short(each)]
        return st.sampled_from(chosen) | st.floats(width=width)
    return _OTHERS[kind_of(arrow)]


def _short(number: float) -> bool:
    return not math.isfinite(number) or number in (0.0, 0.5, 1.0, -1.5, 2.5)


def _decimals(arrow: pa.DataType) -> st.SearchStrategy[Decimal]:
    most = 10**arrow.precision - 1
    digits = st.integers(-300, 300) | st.sampled_from([most, -most]) | st.integers(-most, most)
    return digits.map(lambda drawn: Decimal(f"{drawn}E-{arrow.scale}"))


_OTHERS: dict[Kind, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "text": st.one_of(
        st.text(LETTERS, max_size=6),
        st.sampled_from(["", "1", " -7 ", "1.25", "nan", "true", "2024-02-29", "1e3", "9" * 20]),
    ),
    "binary": st.binary(max_size=4),
    "date": st.sampled_from(_DATES) | st.dates(),
    "timestamp": st.sampled_from(_MOMENTS)
    | st.datetimes(timezones=st.just(UTC)).map(lambda drawn: drawn.replace(fold=0)),
}


def rows(schema: Schema, *, max_size: int = 6) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw rows of a schema, with NULL in any column."""
    columns = {each.name: st.none() | values(each.type) for each in schema}
    return st.lists(st.fixed_dictionaries(columns), max_size=max_size)


def batch_of(drawn: list[dict[str, Any]], schema: Schema) -> pa.RecordBatch:
    """Return drawn rows as a batch."""
    return pa.RecordBatch.from_pylist(drawn, schema=schema.to_arrow())
