"""Ascending keys: what differs, what is contained, and which rows have them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.sorted_keys import contained, distinct, note_held, rows_due, rows_of_keys

KEYS = st.lists(st.integers(0, 20) | st.integers(0, 2**64 - 1), max_size=40)


def keys_of(keys: list[int]) -> np.ndarray:
    return np.array(keys, np.uint64)


@given(KEYS, KEYS)
def test_keys_are_found_among_others(some: list[int], others: list[int]) -> None:
    ascending = distinct(keys_of(some))

    found = contained(ascending, distinct(keys_of(others)))

    assert ascending.tolist() == sorted(set(some))
    assert found.tolist() == [each in others for each in sorted(set(some))]


@given(KEYS, KEYS, st.data())
def test_rows_of_keys_are_found_between_two_places(
    stored: list[int], wanted: list[int], data: st.DataObject
) -> None:
    keys, times = sorted(stored), data.draw(st.lists(st.integers(0, 9), min_size=40, max_size=40))
    first = data.draw(st.integers(0, len(keys)))
    stop = data.draw(st.integers(first, len(keys)))

    found = rows_of_keys(
        keys_of(keys), np.array(times[: len(keys)]), distinct(keys_of(wanted)), first, stop, 4
    )

    expected = [at for at in range(first, stop) if keys[at] in wanted and times[at] > 4]
    assert found.tolist() == expected


@given(KEYS, KEYS, st.data())
def test_keys_that_rows_have_are_noted_besides_those_that_were(
    stored: list[int], wanted: list[int], data: st.DataObject
) -> None:
    keys, times = sorted(stored), data.draw(st.lists(st.integers(0, 9), min_size=40, max_size=40))
    first, asked = data.draw(st.integers(0, len(keys))), distinct(keys_of(wanted))
    before = data.draw(st.lists(st.booleans(), min_size=len(asked), max_size=len(asked)))
    noted = np.array(before, np.bool_)

    note_held(keys_of(keys), np.array(times[: len(keys)]), asked, first, 4, noted)

    held = {keys[at] for at in range(first, len(keys)) if times[at] > 4}
    pairs = zip(asked.tolist(), before, strict=True)
    assert noted.tolist() == [was or key in held for key, was in pairs]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40), st.data())
def test_rows_that_fall_due_are_found(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    ordered = sorted(rows)
    begin, end = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 10))
    keys, times = (list(each) for each in zip(*ordered, strict=True)) if ordered else ([], [])

    found = rows_due(keys_of(keys), np.array(times, np.int64), begin, end)

    assert found.tolist() == [at for at, time in enumerate(times) if begin <= time < end]
