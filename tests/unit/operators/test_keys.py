"""Hashes of Arrow columns: what is equal hashes alike, and nothing ever changes."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import SchemaError
from millrace.operators.keys import N_BUCKETS, bucket_of, hash_array, hash_columns
from millrace.testing.oracle.hashes import hash_row, hash_value

VALUES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=40),
    pa.decimal128(20, 2): st.integers(-(10**19), 10**19).map(lambda value: Decimal(value) / 100),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.timestamp("us", tz="UTC"): st.integers(-(2**63), 2**63 - 1),
}
# Changing one of these changes where stored rows live: never do it.
GOLDEN = [
    (pa.array([0, 1, -1]), [3803688792395291579, 11468921228449061269, 9642548396912002761]),
    (
        pa.array(["", "ACME", None]),
        [17241709254077376921, 6851245102778343941, 11160318154034397263],
    ),
    (pa.array([0.0, 12.5]), [3803688792395291579, 12848429496866593873]),
    (pa.array([True, False]), [11468921228449061269, 3803688792395291579]),
    (pa.array([Decimal("1.50")]), [1252716153174945088]),
    (pa.array([b"x" * 40]), [10551747345416853717]),
]


def physical(value: object, arrow: pa.DataType) -> object:
    if isinstance(value, Decimal):
        return value.quantize(Decimal(1).scaleb(-arrow.scale))
    return value


@given(st.data())
@pytest.mark.parametrize("arrow", list(VALUES), ids=str)
def test_every_type_hashes_as_defined_in_any_slice(arrow: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[arrow], max_size=12))
    first = data.draw(st.integers(0, len(values)))
    array = pa.array([physical(value, arrow) for value in values], arrow).slice(first)

    hashes = hash_array(array).tolist()

    assert hashes == [hash_value(physical(value, arrow)) for value in values[first:]]


@given(st.lists(st.tuples(st.none() | st.text(), st.none() | st.integers(0, 9))))
def test_several_columns_fold_from_left_to_right(rows: list[tuple[str | None, int | None]]) -> None:
    columns = [
        pa.array([a for a, _ in rows], pa.string()),
        pa.array([b for _, b in rows], pa.int8()),
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=["a", "b"])

    assert hash_columns(batch, ["a", "b"]).tolist() == [hash_row(row) for row in rows]
    assert hash_columns(batch, ["b", "a"]).tolist() == [hash_row(row[::-1]) for row in rows]


def test_values_that_sql_calls_equal_hash_alike() -> None:
    same_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    zeros = hash_array(pa.array([0.0, -0.0]))
    nans = hash_array(pa.array(same_nan))

    assert zeros[0] == zeros[1]
    assert nans[0] == nans[1]
    assert hash_array(pa.array([7], pa.int8())) == hash_array(pa.array([7], pa.int64()))
    assert hash_array(pa.array([0.5], pa.float32())) == hash_array(pa.array([0.5]))


@pytest.mark.parametrize(("array", "hashes"), GOLDEN)
def test_golden_hashes_never_change(array: pa.Array, hashes: list[int]) -> None:
    assert hash_array(array).tolist() == hashes


def test_a_bucket_is_the_top_ten_bits() -> None:
    buckets = bucket_of(np.array([0, 2**54, 2**64 - 1], np.uint64))

    assert buckets.dtype == np.uint16
    assert buckets.tolist() == [0, 1, N_BUCKETS - 1]


def test_a_column_that_does_not_exist_is_named() -> None:
    with pytest.raises(SchemaError, match='column "b" does not exist'):
        hash_columns(pa.record_batch({"a": [1]}), ["b"])
