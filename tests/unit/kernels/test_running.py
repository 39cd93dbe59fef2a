"""The running maximum against its definition, and its law."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.running import running_max_before
from millrace.testing.oracle.running import max_before

N_GROUPS = 3
START = [-(2**63), 0, 5]
ROWS = st.lists(st.tuples(st.integers(-10, 10), st.integers(0, N_GROUPS - 1)))


def arrays(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([t for t, _ in rows], np.int64), np.array([g for _, g in rows], np.int32)


@given(ROWS)
def test_agrees_with_the_definition(rows: list[tuple[int, int]]) -> None:
    times, groups = arrays(rows)
    start = np.array(START, np.int64)

    before, after = running_max_before(times, groups, N_GROUPS, start)

    assert (before.tolist(), after.tolist()) == max_before(times.tolist(), groups.tolist(), START)
    assert start.tolist() == START


@given(ROWS, st.integers(0, 20))
def test_batch_cuts_do_not_matter(rows: list[tuple[int, int]], at: int) -> None:
    start = np.array(START, np.int64)
    whole, end = running_max_before(*arrays(rows), N_GROUPS, start)

    left, middle = running_max_before(*arrays(rows[:at]), N_GROUPS, start)
    right, stop = running_max_before(*arrays(rows[at:]), N_GROUPS, middle)

    assert whole.tolist() == left.tolist() + right.tolist()
    assert end.tolist() == stop.tolist()
