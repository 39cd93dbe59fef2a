"""Lineage as bits, against rows and queries that are told one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.lineage import listed

WORDS = st.integers(0, 3).flatmap(
    lambda n_words: st.lists(
        st.lists(
            st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1),
            min_size=n_words,
            max_size=n_words,
        ),
        max_size=6,
    ).map(lambda rows: np.array(rows, np.uint64).reshape(len(rows), n_words).T.copy())
)


@given(WORDS)
def test_pairs_are_listed_by_row_and_then_by_query(bits: np.ndarray) -> None:
    rows, queries = listed(bits)

    assert list(zip(rows.tolist(), queries.tolist(), strict=True)) == [
        (row, 64 * word + bit)
        for row in range(bits.shape[1])
        for word in range(bits.shape[0])
        for bit in range(64)
        if int(bits[word, row]) >> bit & 1
    ]
