"""Chunks: as rows through Spark and back."""

from __future__ import annotations

import pyarrow as pa

from millrace.engine import chunk as kinds
from millrace.engine.chunk import Chunk, from_batch, pack_table, to_batch


def test_chunks_survive_the_way_through_spark() -> None:
    table = pa.table({"x": [1.5, None, float("inf")], "y": ["a", "", None]})
    chunks = [
        Chunk(0, "s", 3, 1, kinds.ROWS, "rows/s.1", pack_table(table)),
        Chunk(1, "s", 0, 2, kinds.TALLY, "s", b"{}"),
        Chunk(0, "", 0, 3, kinds.OVERSIZE, "", b""),
    ]

    batch = to_batch(chunks)

    assert batch.schema == kinds.SCHEMA
    assert list(from_batch(batch)) == chunks
    assert next(from_batch(batch)).table().equals(table)
    assert list(from_batch(to_batch([]))) == []


def test_a_table_without_rows_keeps_its_columns() -> None:
    empty = pa.table({"x": pa.array([], pa.float64())})

    assert Chunk(0, "", 0, 0, kinds.ROWS, "", pack_table(empty)).table().equals(empty)


def test_chunks_are_sorted_by_where_they_come_from() -> None:
    chunks = [Chunk(0, source, task, at, "", "", b"") for source, task, at in
              (("b", 0, 0), ("a", 1, 0), ("a", 0, 1), ("a", 0, 0))]  # fmt: skip

    assert sorted(chunks, key=lambda each: each.origin) == chunks[::-1]
