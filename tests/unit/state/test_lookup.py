"""Looking keys up in a store: what is found is what a scan finds, whatever the runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.state import run as runs
from millrace.state import run_file, run_layout
from millrace.state.lookup import MOST_IDLE, Lookup, go_on, lookup
from millrace.state.manifest import StoreSpec, StoreState
from millrace.state.memory_root import MemoryRoot
from millrace.state.names import MissingError
from millrace.state.root import Root
from millrace.state.store import scan
from millrace.testing.configurations import replaced

SCHEMA = pa.schema(
    [
        ("_key", pa.uint64()),
        ("_time", pa.int64()),
        ("x", pa.int64()),
        ("truth", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("hole", pa.int32()),
        ("text", pa.string()),
        ("unsaid", pa.string()),
    ]
)
KEYS = st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=12)
TIMES = st.integers(-1, 32)
WANTED = st.lists(st.integers(0, 32), unique=True, min_size=1, max_size=8)


def stored(root: MemoryRoot, held: list[list[int]]) -> StoreState:
    """Return a store of runs, each of some keys, in blocks of four rows."""
    state = StoreState(StoreSpec(SCHEMA))
    for epoch, keys in enumerate(held):
        ordered = sorted(keys)
        made = [
            [key % 3 == 0 for key in ordered],
            ordered,
            [-key for key in ordered],
            [None if key % 5 == 0 else key for key in ordered],
            [str(key) for key in ordered],
            [None if key % 7 == 0 else str(key) for key in ordered],
        ]
        table = pa.table(
            [ordered, [5 * key % 31 for key in ordered], [epoch] * len(keys), *made], schema=SCHEMA
        )
        pieces = runs.write_runs(root, {"r": table}, epoch=epoch, buckets=(0, 1))
        state = state.with_run([pieces["r"]], epoch)
    return state


@given(st.lists(KEYS, max_size=4), WANTED, st.data())
def test_rows_of_keys_are_found_in_all_runs(
    held: list[list[int]], wanted: list[int], data: st.DataObject
) -> None:
    places = [(run_layout, "BLOCK_ROWS", 4), (run_file, "BLOCK_ROWS", 4)]
    root, keys = MemoryRoot(), np.array(sorted(wanted), np.uint64)
    with replaced(places):
        state = stored(root, held)
    first = data.draw(st.integers(0, 4))
    begin, latest = sorted(data.draw(st.tuples(TIMES, TIMES)))
    names = tuple(SCHEMA.names)
    if data.draw(st.booleans(), label="goes on"):
        earlier = StoreState(state.spec, state.runs[: data.draw(st.integers(0, len(held)))])
        lookup(root, earlier).take(keys[:2], names)
        go_on(root, {"s": earlier}, {"s": state})
    asked = lookup(root, state)

    chosen = asked.blocks(keys, begin=begin, first=first)
    taken = asked.take(keys, names, begin=begin, latest=latest)
    by_time = asked.take(keys, names, begin=begin, latest=latest, shift=2)

    rows = [row for row in scan(root, state).to_pylist() if row["_key"] in wanted]
    admitted = [row for row in rows if row["x"] >= first and row["_time"] >= begin]
    assert asked.sizes[chosen].sum() >= len(admitted)
    assert len(chosen) <= 4 * len(held)
    assert sorted(taken.to_pylist(), key=repr) == sorted(
        (row for row in rows if begin <= row["_time"] <= latest), key=repr
    )
    assert taken["_key"].to_pylist() == sorted(taken["_key"].to_pylist())
    assert sorted(by_time.to_pylist(), key=repr) == sorted(taken.to_pylist(), key=repr)
    order = [(row["_key"] >> 2, row["_time"]) for row in by_time.to_pylist()]
    assert order == sorted(order)


ANSWERS = pa.schema(
    [
        *list(SCHEMA)[:2],
        ("n", pa.int32()),
        ("truth", pa.bool_()),
        ("hole", pa.int32()),
        ("text", pa.string()),
        ("unsaid", pa.string()),
        ("list", pa.list_(pa.int64())),
    ]
)
ANSWERED = st.lists(st.tuples(st.integers(0, 5), TIMES), min_size=1, max_size=12)


@given(st.lists(st.tuples(ANSWERED, st.booleans()), max_size=5), st.integers(0, 6), st.data())
def test_all_rows_of_a_key_are_copied_with_their_epochs(
    held: list[tuple[list[tuple[int, int]], bool]], key: int, data: st.DataObject
) -> None:
    root, state, expected = MemoryRoot(), StoreState(StoreSpec(ANSWERS, queue=True)), []
    begin, latest = data.draw(TIMES), data.draw(TIMES | st.just((1 << 63) - 1))
    first = data.draw(st.integers(0, 4))
    for epoch, (rows, merged) in enumerate(held):
        stored = [
            (
                *each,
                at,
                at % 3 == 0,
                None if at % 5 == 4 else at,
                str(at),
                None if at % 7 == 6 else "x" * at,
                [at] * (at % 3),
            )
            for at, each in enumerate(sorted(rows))
        ]
        columns = [list(each) for each in zip(*stored, strict=True)]
        table, epochs = pa.table(columns, schema=ANSWERS), [epoch] * len(stored)
        if merged:
            epochs = [epoch - at % 2 for at in range(len(stored))]
            table = table.append_column("_epoch", pa.array(epochs, pa.int64()))
        with replaced([(run_layout, "BLOCK_ROWS", 4), (run_file, "BLOCK_ROWS", 4)]):
            pieces = runs.write_runs(root, {"r": table}, epoch=epoch, buckets=(0, 1))
        state = state.with_run([pieces["r"]], epoch)
        if epoch >= first:
            told = zip(stored, epochs, strict=True)
            expected += [
                (*row, own) for row, own in told if row[0] == key and begin <= row[1] <= latest
            ]

    asked = lookup(root, state)
    names = (*ANSWERS.names, "_epoch")
    spans = asked.spans(key, begin=begin, latest=latest, first=first)

    assert spans.n_rows == len(expected)
    if expected:
        copied = asked.copied(spans, names)
        found = zip(*(copied[name].to_pylist() for name in names), strict=True)
        assert list(found) == expected
        assert [each.type for each in copied.values()][:-1] == ANSWERS.types


def test_a_store_that_nobody_asks_for_long_is_not_looked_into_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, made = MemoryRoot(), list[StoreState]()

    class Watched(Lookup):
        def __init__(self, root: Root, state: StoreState) -> None:
            made.append(state)
            super().__init__(root, state)

    monkeypatch.setattr("millrace.state.lookup.Lookup", Watched)
    states = [stored(root, [[1]])]
    lookup(root, states[0])
    for epoch in range(1, MOST_IDLE + 5):
        states.append(states[-1].with_run(states[0].runs[0].pieces, epoch))
        go_on(root, {"s": states[-2]}, {"s": states[-1]})

    assert made == states[: MOST_IDLE + 1]
    lookup(root, states[-1])
    states.append(states[-1].with_run(states[0].runs[0].pieces, epoch + 1))
    go_on(root, {"s": states[-2]}, {"s": states[-1]})
    assert made[-2:] == states[-2:]


def test_a_piece_that_was_cut_shows_only_what_is_left() -> None:
    root = MemoryRoot()
    state = stored(root, [[1, 2, 3, 4, 5, 6]])
    [piece] = state.runs[0].pieces
    _, rest = piece.split(3, (4, 4))
    cut = StoreState(StoreSpec(SCHEMA)).with_run([rest], 0)

    keys = np.array([2, 3, 4, 6], np.uint64)
    found = lookup(root, cut).take(keys, ("_key", "_time"))

    assert found.column(0).to_pylist() == [4, 6]


def test_what_is_damaged_is_told_to_who_asks_for_it() -> None:
    root = MemoryRoot()
    state, key = stored(root, [[1, 2]]), np.array([1], np.uint64)
    lookup(root, state).take(key, ("_key", "_time"))
    table = pa.table([[3], [3], [1], [True], [3], [3], [3], ["3"], ["3"]], schema=SCHEMA)
    pieces = runs.write_runs(root, {"r": table}, epoch=1, buckets=(0, 1))
    after = state.with_run([pieces["r"]], 1)
    root.delete(pieces["r"].file)

    go_on(root, {"s": state}, {"s": after})

    with pytest.raises(MissingError):
        lookup(root, after).take(np.array([3], np.uint64), ("_key", "_time"))


def test_columns_of_all_kinds_are_taken() -> None:
    kinds: dict[str, list[Any]] = {
        "truth": [True, False, True],
        "hole": [1, None, 3],
        "text": ["a", "", None],
        "small": pa.array([1, 2, 3], pa.int8()),
        "real": [0.5, -0.0, math.nan],
        "when": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        "exact": pa.array([1, 2, 3], pa.decimal128(10, 2)),
        "day": pa.array([1, 2, 3], pa.date32()),
    }
    rows = pa.table({"_key": pa.array([1, 2, 3], pa.uint64()), "_time": [1, 2, 3], **kinds})
    root = MemoryRoot()
    state = StoreState(StoreSpec(rows.schema))
    for epoch in range(2):
        first = rows.slice(epoch, 2 - epoch)
        pieces = runs.write_runs(root, {"r": first}, epoch=epoch, buckets=(0, 1))
        state = state.with_run([pieces["r"]], epoch)
    state = StoreState(state.spec, state.runs[:1])

    names = tuple(rows.schema.names)
    found = lookup(root, state).take(np.array([2, 9], np.uint64), names)
    nothing = lookup(root, state).take(np.array([9], np.uint64), names)

    assert repr(found.to_pylist()) == repr(rows.slice(1, 1).to_pylist())
    assert found.schema == rows.schema
    assert nothing.to_pylist() == []
