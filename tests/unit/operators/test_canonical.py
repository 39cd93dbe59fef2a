"""The canonical order against its definition, for every type a column may have."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.operators.canonical import canonical_order, ordered_by
from millrace.schema import TIMESTAMP

NAN = float("nan")
FLOATS = st.sampled_from([-0.0, 0.0, 1.5, -1.5, math.inf, -math.inf, NAN, -NAN])
INSTANTS = st.datetimes(
    datetime.datetime(1600, 1, 1),  # noqa: DTZ001  Hypothesis adds the zone
    datetime.datetime(2400, 1, 1),  # noqa: DTZ001
    timezones=st.just(datetime.UTC),
)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-3, 3),
    pa.int64(): st.sampled_from([-(2**63), -1, 0, 2**63 - 1]),
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.decimal128(38, 2): st.decimals(-(10**30), 10**30, places=2),
    pa.string(): st.text("aéz\0\U0001f600", max_size=3),
    pa.binary(): st.binary(max_size=2),
    pa.date32(): st.dates(),
    TIMESTAMP: INSTANTS,
}


def rank(value: Any) -> tuple[Any, ...]:
    """Say where a value stands: the definition, in plain Python."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        negative = math.copysign(1, value) < 0
        nan = math.isnan(value)
        return (1, nan, 0.0 if nan else value, negative if nan else not negative)
    if isinstance(value, str):
        return (1, value.encode())
    return (1, value)


def seen(value: Any) -> Any:
    """Return something that is equal only for equal bytes."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def ordered(table: pa.Table) -> list[tuple[Any, ...]]:
    names = [name for name in ("_time", "_late") if name in table.column_names]
    names += [name for name in table.column_names if name not in names]
    rows = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
    return sorted(rows, key=lambda row: tuple(rank(value) for value in row))


def visible(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(seen(value) for value in row) for row in rows]


def in_order(table: pa.Table) -> list[tuple[Any, ...]]:
    names = [name for name in ("_time", "_late") if name in table.column_names]
    names += [name for name in table.column_names if name not in names]
    taken = table.take(canonical_order(table))
    return list(zip(*(taken.column(name).to_pylist() for name in names), strict=True))


@st.composite
def a_table(draw: st.DrawFn) -> pa.Table:
    n_rows = draw(st.integers(0, 8))
    columns = {}
    for position, arrow in enumerate(draw(st.lists(st.sampled_from(list(VALUES)), max_size=3))):
        value = st.none() | VALUES[arrow]
        drawn = draw(st.lists(value, min_size=n_rows, max_size=n_rows))
        columns[f"column{position}"] = pa.array(drawn, arrow)
    late = draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows))
    time = draw(st.lists(st.integers(0, 2), min_size=n_rows, max_size=n_rows))
    return pa.table({**columns, "_late": pa.array(late, pa.bool_()), "_time": pa.array(time, "i8")})


@given(a_table())
@example(pa.table({"x": [0.0, -0.0, NAN, -NAN, None], "_time": [1] * 5}))
def test_agrees_with_comparing_row_by_row(table: pa.Table) -> None:
    assert visible(in_order(table)) == visible(ordered(table))


@given(a_table(), st.randoms(use_true_random=False), st.integers(0, 8))
def test_neither_the_spread_over_chunks_nor_their_order_matters(
    table: pa.Table, shuffler: random.Random, cut: int
) -> None:
    positions = list(range(table.num_rows))
    shuffler.shuffle(positions)
    spread = table.take(pa.array(positions, pa.int64()))
    spread = pa.concat_tables([spread.slice(cut), spread.slice(0, cut)])

    assert visible(in_order(spread)) == visible(in_order(table))


@pytest.mark.parametrize("width", [4, 8])
def test_nans_of_other_bits_have_their_place_too(width: int) -> None:
    unsigned, floating = {4: ("<u4", "<f4"), 8: ("<u8", "<f8")}[width]
    top = (1 << (8 * width)) - 1
    bits = np.array([top, top >> 1, top - 1, (top >> 1) - 1], unsigned)
    forth, back = bits.view(floating), bits[::-1].copy().view(floating)
    tables = [pa.table({"x": pa.array(each)}) for each in (forth, back)]

    found = [each.take(canonical_order(each))["x"].to_numpy().tobytes() for each in tables]

    assert found[0] == found[1]


def test_a_table_without_a_column_that_tells_rows_apart_stays_as_it_is() -> None:
    assert canonical_order(pa.table({"x": pa.nulls(3)})).to_pylist() == [0, 1, 2]


def test_decimals_compare_by_value() -> None:
    values = [decimal.Decimal(text) for text in ("10.00", "9.99", "-0.01")]
    table = pa.table({"x": pa.array(values, pa.decimal128(10, 2))})

    assert canonical_order(table).to_pylist() == [2, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["a", "b", None]))))
def test_to_order_by_some_columns_first_is_to_sort_by_them_and_then_canonically(
    rows: list[tuple[int, int, str | None]],
) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    table = pa.table(
        {
            "_key": pa.array(columns[0], pa.uint64()),
            "_time": pa.array(columns[1], pa.int64()),
            "text": pa.array(columns[2], pa.string()),
        }
    )

    found = ordered_by(table, ("_key", "_time"))

    plain = table.take(canonical_order(table))
    expected = sorted(plain.to_pylist(), key=lambda row: (row["_key"], row["_time"]))
    assert found.to_pylist() == expected
