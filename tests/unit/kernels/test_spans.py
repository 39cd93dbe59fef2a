"""Spans of mapped blocks: the rows of a key and of some times, whatever else is there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.mapped import BIT
from millrace.kernels.sorted_keys import ascends, descends, distinct
from millrace.kernels.spans import copy_spans, copy_texts, spans_of_key

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 6)), min_size=1, max_size=20)
LAST_TIME = (1 << 63) - 1
NUMBERS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=5)


@given(st.lists(ROWS, max_size=4), st.integers(0, 5), st.integers(-4, 7), st.data())
def test_spans_are_the_rows_of_a_key_in_some_times(
    blocks: list[list[tuple[int, int]]], key: int, begin: int, data: st.DataObject
) -> None:
    latest = data.draw(st.just(LAST_TIME) | st.integers(begin - 1, 7))
    held = [np.array(sorted(each), np.int64).reshape(-1, 2) for each in blocks]
    columns = [(each[:, 0].astype(np.uint64), each[:, 1].copy()) for each in held]
    bases = np.array([[each.ctypes.data for each in both] for both in columns], np.uint64)
    sizes = np.array([len(each) for each in held], np.int64)

    found = spans_of_key(
        bases.reshape(len(held), 2), sizes, np.arange(len(held)), np.uint64(key), begin, latest
    )

    told = [
        (block, row)
        for block, first, count in zip(*(each.tolist() for each in found), strict=True)
        for row in range(first, first + count)
    ]
    assert told == [
        (block, row)
        for block, each in enumerate(held)
        for row, (mine, time) in enumerate(each.tolist())
        if mine == key and begin <= time <= latest
    ]
    assert (found[2] > 0).all()


@given(st.integers(0, 1 << 30), st.integers(0, 20), st.integers(0, 4))
def test_spans_are_copied_at_any_width(seed: int, skipped: int, n_spans: int) -> None:
    random = np.random.default_rng(seed)
    truths = [pa.array(random.random(70) < 0.5).slice(skipped) for _ in range(3)]
    numbers = [
        [random.integers(0, 100, 50).astype(kind) for kind in ("i1", "i2", "i4", "i8")]
        for _ in range(3)
    ]
    widths, absent = np.array([BIT, 1, 2, 4, 8, 8], np.int64), np.array([7, 8, 9], np.int64)
    epochs = [np.arange(50), None, np.arange(50) + 100]
    bases = np.array(
        [
            [
                8 * truth.buffers()[1].address + truth.offset,
                *(each.ctypes.data for each in ours),
                0 if epoch is None else epoch.ctypes.data,
            ]
            for truth, ours, epoch in zip(truths, numbers, epochs, strict=True)
        ],
        np.uint64,
    )
    blocks, firsts = random.integers(0, 3, n_spans), random.integers(0, 30, n_spans)
    counts = random.integers(1, 20, n_spans)
    n_rows = int(counts.sum())
    sizes = [(n_rows + 7) // 8, *(n_rows * width for width in (1, 2, 4, 8, 8))]
    starts = np.cumsum([0, *(-(-size // 64) * 64 for size in sizes)])

    found = copy_spans(bases, widths, blocks, firsts, counts, starts, absent)

    where = [
        (block, row)
        for block, first, count in zip(blocks, firsts, counts, strict=True)
        for row in range(first, first + count)
    ]
    bits = np.unpackbits(found[starts[0] : starts[0] + sizes[0]], bitorder="little")[:n_rows]
    assert bits.tolist() == [truths[block][row].as_py() for block, row in where]
    for at, kind in enumerate(("i1", "i2", "i4", "i8"), 1):
        values = found[starts[at] : starts[at] + sizes[at]].view(kind)
        assert values.tolist() == [numbers[block][at - 1][row] for block, row in where]
    own = found[starts[5] : starts[5] + sizes[5]].view("i8")
    expected = [
        absent[block] if epochs[block] is None else epochs[block][row] for block, row in where
    ]
    assert own.tolist() == expected


@given(
    st.lists(st.lists(st.sampled_from(["", "a", "bc", "\u00e4\u00f6"]), min_size=1), max_size=4),
    st.data(),
)
def test_texts_of_spans_are_copied(held: list[list[str]], data: st.DataObject) -> None:
    arrays = [pa.array(["skipped", *each]).slice(1) for each in held]
    bases = np.array(
        [
            [each.buffers()[1].address + 4 * each.offset, each.buffers()[2].address]
            for each in arrays
        ],
        np.uint64,
    )
    firsts = [data.draw(st.integers(0, len(each) - 1)) for each in held]
    counts = [
        data.draw(st.integers(1, len(each) - first))
        for each, first in zip(held, firsts, strict=True)
    ]
    where = np.arange(len(held)), np.array(firsts, np.int64), np.array(counts, np.int64)

    ends, copied = copy_texts(bases.reshape(len(held), 2), 0, *where)

    parts = [None, pa.py_buffer(ends), pa.py_buffer(copied)]
    found = pa.Array.from_buffers(pa.string(), len(ends) - 1, parts)
    assert found.to_pylist() == [
        text
        for each, first, count in zip(held, firsts, counts, strict=True)
        for text in each[first : first + count]
    ]


@given(NUMBERS)
def test_what_ascends_and_descends_is_told(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    shifted = [(key >> 1, time) for key, time in pairs]

    assert ascends(first, second) == all(a < b for a, b in pairwise(pairs))
    assert descends(first.astype(np.uint64), 1, second) == (shifted != sorted(shifted))
    assert distinct(first.astype(np.uint64)).tolist() == sorted(set(first.tolist()))
