"""Hashes against the library that defines them, and how evenly they fill the buckets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.arrays import Hashes
from millrace.kernels.hashing import NULL_HASH, combine, hash_bytes, hash_ints, set_nulls
from millrace.testing.oracle.hashes import hash_row, hash_value

N_KEYS = 200_000


def packed(values: list[bytes]) -> Hashes:
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return hash_bytes(offsets, np.frombuffer(b"".join(values), np.uint8))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_hash_as_defined(values: list[int]) -> None:
    hashes = hash_ints(np.array(values, np.int64))

    assert hashes.tolist() == [hash_value(value) for value in values]
    assert combine(hashes, hashes).tolist() == [hash_row([value, value]) for value in values]


@given(st.lists(st.binary(max_size=100)))
def test_bytes_hash_as_defined(values: list[bytes]) -> None:
    assert packed(values).tolist() == [hash_value(value) for value in values]


def test_nulls_have_a_hash_of_their_own() -> None:
    hashes = hash_ints(np.zeros(2, np.int64))
    set_nulls(hashes, np.array([True, False]))

    assert hashes.tolist() == [hash_value(0), int(NULL_HASH)]


@pytest.mark.parametrize(
    "hashes",
    [
        pytest.param(lambda: hash_ints(np.arange(N_KEYS)), id="sequential integers"),
        pytest.param(lambda: hash_ints(np.arange(N_KEYS) << 32), id="high integers"),
        pytest.param(
            lambda: hash_ints(np.arange(N_KEYS, dtype=float).view(np.int64)), id="doubles"
        ),
        pytest.param(lambda: packed([b"key-%d" % key for key in range(N_KEYS)]), id="text"),
        pytest.param(
            lambda: combine(hash_ints(np.arange(N_KEYS) % 7), hash_ints(np.arange(N_KEYS))),
            id="two columns",
        ),
    ],
)
def test_the_top_bits_fill_the_buckets_evenly(hashes) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    counts = np.bincount((hashes() >> np.uint64(54)).astype(np.int64), minlength=1024)

    expected = N_KEYS / 1024
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert 800 < chi_squared < 1260  # 1,023 degrees of freedom: five deviations either way
