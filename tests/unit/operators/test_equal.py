"""Equal rows: by hash, and by value where hashes meet."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from millrace.operators.relational.equal import hashes_of, numbered, plain, same_values

ROWS = pa.record_batch(
    {
        "k": pa.array([1, None, 1, 2, None]),
        "x": pa.array([0.0, math.nan, -0.0, 0.0, math.nan]),
        "l": pa.array([[1, None], None, [1, None], [], None], pa.list_(pa.int64())),
    }
)


def test_null_and_nan_are_equal_to_themselves() -> None:
    numbers, firsts = numbered(ROWS)
    assert numbers.tolist() == [0, 1, 0, 2, 1]
    assert firsts.tolist() == [0, 1, 3]


def test_rows_with_one_hash_are_told_apart_by_their_values() -> None:
    numbers, firsts = numbered(ROWS, np.zeros(5, np.uint64))
    assert numbers.tolist() == [0, 1, 0, 2, 1]
    assert firsts.tolist() == [0, 1, 3]


def test_a_place_decides_about_the_upper_bits() -> None:
    one = hashes_of(ROWS.select(["k"])) >> np.uint64(54)
    all_of_them = hashes_of(ROWS, "k") >> np.uint64(54)
    assert one.tolist() == all_of_them.tolist()


def test_equal_numbers_have_the_same_bytes() -> None:
    assert [math.copysign(1, each) for each in plain(pa.array([-0.0, 0.0])).to_pylist()] == [1, 1]
    assert same_values(
        pa.array([math.nan, None, 1.0]), pa.array([math.nan, 1.0, 1.0])
    ).tolist() == [
        True,
        False,
        True,
    ]
