"""A step: the same bytes whatever the order of chunks, in one file or in the receipt."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engine import chunk as kinds
from millrace.engine import step as steps
from millrace.engine.chunk import Chunk, pack_table
from millrace.engine.decision import Decision, Identity
from millrace.engine.step import step
from millrace.state.memory_root import MemoryRoot
from millrace.state.run import read_piece

DECISION = Decision(Identity("q", 7, "d"), 0, 1, 0, "c", {}, shards=(0, 512, 1024))
VALUES = st.sampled_from([None, -0.0, 0.0, 1.5, float("nan")])


def answers(values: list[float | None]) -> pa.Table:
    n_rows = len(values)
    return pa.table(
        {
            "_key": pa.array([9] * n_rows, pa.uint64()),
            "_time": pa.array([3] * n_rows, pa.int64()),
            "_late": pa.array([False] * n_rows),
            "x": pa.array(values, pa.float64()),
        }
    )


def chunk(task: int, table: pa.Table, *, shard: int = 0, kind: str = kinds.RESULTS) -> Chunk:
    store = "results/q.9" if kind == kinds.RESULTS else "rows/s.1"
    return Chunk(shard, "s", task, 0, kind, store, pack_table(table))


@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4))
def test_neither_the_order_of_chunks_nor_the_tasks_they_come_from_matter(
    shares: list[list[float | None]],
) -> None:
    chunks = [chunk(task, answers(values)) for task, values in enumerate(shares)]
    together = [chunk(0, answers([value for values in shares for value in values][::-1]))]

    packed = []
    for given_ in (chunks, chunks[::-1], together):
        receipt = step(given_, DECISION, MemoryRoot(), 0).receipt
        (label,) = receipt.inline
        packed.append(pack_table(receipt.inline[label].combine_chunks()))

    assert packed[0] == packed[1] == packed[2]


def test_what_is_small_rests_in_the_receipt_and_what_is_large_in_one_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, chunks = MemoryRoot(), [chunk(0, answers([1.0, 2.0])), chunk(1, answers([3.0]))]
    small = step(chunks, DECISION, root, 1).receipt
    assert root.list("") == []
    monkeypatch.setattr(steps, "INLINE_BYTES", 0)

    large = step(chunks, DECISION, root, 1).receipt
    again = step(chunks[::-1], DECISION, root, 1).receipt

    (entry,) = root.list("runs/")
    assert entry.name.startswith("runs/000000000007-512-1024-")
    (written,) = large.written
    assert written.piece is not None
    assert written == again.written[0]
    assert large.inline == {}
    stored = read_piece(root, written.piece)
    assert stored.equals(small.inline["results/q.9@1"])
    assert large.bytes_written > 0


def test_all_shards_together_are_one_run_sorted_by_key() -> None:
    def rows(key: int) -> pa.Table:
        return pa.table({"_key": pa.array([key], pa.uint64()), "_time": [1]})

    chunks = [chunk(0, rows(2**63), shard=1, kind=kinds.ROWS), chunk(0, rows(5), kind=kinds.ROWS)]

    receipt = step(chunks, DECISION, MemoryRoot()).receipt

    assert receipt.inline["rows/s.1@0"].column("_key").to_pylist() == [5, 2**63]


def test_no_chunks_are_an_empty_receipt() -> None:
    receipt = step([], DECISION, MemoryRoot(), 1).receipt

    assert (receipt.shard, receipt.written, dict(receipt.inline)) == (1, (), {})
    assert not receipt.oversize
