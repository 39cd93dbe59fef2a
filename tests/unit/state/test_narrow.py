"""Narrow columns: what is widened is what was given, whatever the numbers, and takes less room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.state import narrow, run_layout
from millrace.state.memory_root import MemoryRoot
from millrace.state.narrow import Narrow, narrowed, stored_schema, widened
from millrace.state.run import note_keys, read_due, read_keys, read_piece, write_runs
from millrace.state.run_file import opened

KINDS: dict[pa.DataType, tuple[int, int]] = {
    pa.int16(): (-(1 << 15), (1 << 15) - 1),
    pa.int32(): (-(1 << 31), (1 << 31) - 1),
    pa.int64(): (-(1 << 63), (1 << 63) - 1),
    pa.uint32(): (0, (1 << 32) - 1),
    pa.uint64(): (0, (1 << 64) - 1),
    pa.date32(): (-(1 << 31), (1 << 31) - 1),
    pa.timestamp("us", "UTC"): (-(1 << 63), (1 << 63) - 1),
}
LEADING = [pa.field("_key", pa.uint64()), pa.field("_time", pa.int64())]


@pytest.fixture(scope="module", autouse=True)
def _small_blocks() -> Iterator[None]:
    """Let a block hold seven rows, and narrow all that have two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow, "LEAST_ROWS", 2)
        patch.setattr(run_layout, "BLOCK_ROWS", 7)
        yield


@st.composite
def a_column(draw: st.DrawFn, n_rows: int) -> pa.Array:
    """Draw numbers of a kind that lie near each other, or anywhere."""
    kind = draw(st.sampled_from(list(KINDS)))
    least, most = KINDS[kind]
    low = draw(st.integers(least, most))
    span = draw(st.sampled_from([0, 1, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, 1 << 64]))
    value = st.integers(low, min(low + span, most))
    values = draw(st.lists(value | st.none(), min_size=n_rows, max_size=n_rows))
    whole = draw(st.booleans())
    values = [low if each is None and whole else each for each in values]
    numbers = pa.int32() if kind == pa.date32() else pa.int64()
    return pa.array(values, kind if pa.types.is_integer(kind) else numbers).view(kind)


@st.composite
def a_batch(draw: st.DrawFn) -> pa.RecordBatch:
    n_rows = draw(st.integers(1, 30))
    keys = sorted(draw(st.lists(st.integers(0, 5), min_size=n_rows, max_size=n_rows)))
    texts = pa.array([None if at % 3 else str(at) for at in range(n_rows)])
    columns = [draw(a_column(n_rows)) for _ in range(draw(st.integers(1, 3)))]
    arrays = [pa.array(keys, pa.uint64()), pa.array(np.arange(n_rows)), texts, *columns]
    names = ["_key", "_time", "text", *(f"n{at}" for at in range(len(columns)))]
    return pa.RecordBatch.from_arrays(arrays, names=names)


@given(a_batch(), st.data())
def test_what_is_widened_is_what_was_given(rows: pa.RecordBatch, data: st.DataObject) -> None:
    stored, columns = narrowed(rows)

    assert stored.schema == stored_schema(rows.schema, columns)
    assert [Narrow.from_json(each.to_json()) for each in columns] == columns
    assert widened(stored, rows.schema, columns).equals(rows)
    some = pa.array(data.draw(st.lists(st.integers(0, rows.num_rows - 1))), pa.int64())
    assert widened(stored.take(some), rows.schema, columns).equals(rows.take(some))
    assert stored.nbytes <= rows.nbytes


@given(a_batch())
def test_narrow_runs_read_as_plain_ones_do(rows: pa.RecordBatch) -> None:
    root, table = MemoryRoot(), pa.Table.from_batches([rows])
    plain, thin = (
        write_runs(root, {name: table}, epoch=0, buckets=(0, 1024), narrow=["thin"])[name]
        for name in ("plain", "thin")
    )
    keys, half = np.array([1, 3, 4], np.uint64), rows.num_rows // 2

    assert read_piece(root, thin) == read_piece(root, plain) == table
    assert read_piece(root, thin, times=(half, 99)) == read_piece(root, plain, times=(half, 99))
    assert read_piece(root, thin, keys=(1, 4), columns=["n0"]) == read_piece(
        root, plain, keys=(1, 4), columns=["n0"]
    )
    assert read_keys(root, thin, keys, half) == read_keys(root, plain, keys, half)
    found = read_keys(root, thin, keys, half).column("_key").to_numpy()
    noted = np.zeros(len(keys), np.bool_)
    note_keys(root, thin, keys, half, noted)
    assert noted.tolist() == np.isin(keys, found).tolist()
    assert read_due(root, thin, (1, 4), (0, half)) == read_due(root, plain, (1, 4), (0, half))
    assert thin.bytes <= plain.bytes


@example(0, 0)
@given(st.integers(0, (1 << 62)), st.sampled_from([0, 200, 60_000, 1 << 30, 1 << 40]))
def test_numbers_take_the_bytes_that_their_span_needs(least: int, span: int) -> None:
    numbers = pa.array([least, least + span], pa.int64())
    keys = pa.array([0, 1], pa.uint64())
    rows = pa.RecordBatch.from_arrays([keys, numbers, numbers], names=["_key", "_time", "n"])

    stored, _ = narrowed(rows)

    n_bytes = {0: 0, 200: 1, 60_000: 2, 1 << 30: 4, 1 << 40: 8}[span]
    assert stored.nbytes == 2 * (8 + 8 + n_bytes), "keys and times stay as they are"


def test_a_piece_says_how_many_bytes_it_takes_in_the_file() -> None:
    root, n_rows = MemoryRoot(), 70
    columns = [np.arange(n_rows).astype(np.uint64), np.arange(n_rows), np.full(n_rows, 9)]
    table = pa.table(columns, schema=pa.schema([*LEADING, pa.field("epoch", pa.int64())]))

    piece = write_runs(root, {"r": table}, epoch=0, buckets=(0, 1024), narrow=["r"])["r"]

    run = opened(root, piece.file).run("r")
    stored = [run.block(at).rows for at in range(10)]
    assert piece.bytes == sum(each.nbytes for each in stored) == 16 * n_rows
