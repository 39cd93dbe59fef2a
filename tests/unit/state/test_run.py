"""Runs against a list of rows: any slice, any ranges, any columns, any number of blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import CorruptionError, MillraceError
from millrace.state import narrow, run_file, run_layout
from millrace.state.memory_root import MemoryRoot
from millrace.state.order import sort_rows
from millrace.state.piece import KEYS, Piece
from millrace.state.posix_root import PosixRoot
from millrace.state.root import Root
from millrace.state.run import pack_runs, pieces_of, read_piece, write_runs
from millrace.state.run_file import forget, opened

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1
KEY = st.integers(0, 5) | st.sampled_from([KEYS - 1, 1 << 63])
TIME = st.integers(-3, 3) | st.sampled_from([SMALLEST, LARGEST])
ROWS = st.lists(st.tuples(KEY, TIME, st.none() | st.text(max_size=3)), max_size=40)
KEY_RANGE = st.none() | st.tuples(KEY, KEY | st.just(KEYS))
TIME_RANGE = st.none() | st.tuples(TIME, TIME | st.just(1 << 63))


@pytest.fixture(scope="module", autouse=True)
def _small_blocks() -> Iterator[None]:
    """Let a block hold seven rows, so that a few rows make many blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_layout, "BLOCK_ROWS", 7)
        patch.setattr(run_layout, "FENCE_ROWS", 4)
        patch.setattr(narrow, "LEAST_ROWS", 2)
        yield


def table_of(rows: list[tuple[int, int, str | None]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    schema = pa.schema([("_key", pa.uint64()), ("_time", pa.int64()), ("text", pa.string())])
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    return sort_rows(pa.table(arrays, schema=schema))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@given(ROWS.filter(bool), KEY_RANGE, TIME_RANGE, st.data())
def test_reading_a_piece_is_filtering_its_rows(
    rows: list[tuple[int, int, str | None]],
    keys: tuple[int, int] | None,
    times: tuple[int, int] | None,
    data: st.DataObject,
) -> None:
    root = MemoryRoot()
    table = table_of(rows)
    piece = write_runs(root, {"run": table}, epoch=0, buckets=(0, 1024))["run"]
    live = rows_of(table)
    if len(rows) > 1:
        at = data.draw(st.integers(1, len(rows) - 1))
        keep_left = data.draw(st.booleans())
        piece = piece.split(at, live[at][:2])[0 if keep_left else 1]
        live = live[:at] if keep_left else live[at:]

    found = read_piece(root, piece, keys=keys, times=times)

    low_key, high_key = keys or (0, KEYS)
    low_time, high_time = times or (SMALLEST, 1 << 63)
    expected = [
        row for row in live if low_key <= row[0] < high_key and low_time <= row[1] < high_time
    ]
    assert rows_of(found) == expected
    found.validate(full=True)


@given(ROWS.filter(bool))
def test_a_piece_says_the_ends_and_times_of_its_run(
    rows: list[tuple[int, int, str | None]],
) -> None:
    piece = pieces_of("runs/a", {"run": table_of(rows)})["run"]

    places = sorted(row[:2] for row in rows)
    times = [time for _, time in places]
    assert (piece.low, piece.rows) == (places[0], len(rows))
    assert piece.high == (places[-1][0], places[-1][1] + 1)
    assert (piece.min_time, piece.max_time) == (min(times), max(times))
    assert Piece.from_json(json.loads(json.dumps(piece.to_json()))) == piece


def test_one_file_holds_many_runs_and_their_meta() -> None:
    root = MemoryRoot()
    runs = {"a": table_of([(1, 1, "x")]), "b": table_of([]), "c": table_of([(2, 2, None)] * 30)}
    pieces = write_runs(root, runs, epoch=7, buckets=(0, 512), meta={"shard": 3})

    assert set(pieces) == {"a", "c"}, "an empty run has no piece"
    assert {piece.file for piece in pieces.values()} == {root.list("")[0].name}
    assert root.list("")[0].name.startswith("runs/000000000007-0-512-")
    assert read_piece(root, pieces["c"]).equals(runs["c"])
    assert opened(root, pieces["a"].file).meta == {"shard": 3}


def test_a_task_tried_again_writes_the_same_file() -> None:
    root = MemoryRoot()
    runs = {"a": table_of([(1, 1, "x"), (2, 2, "y")])}
    chunked = {"a": pa.concat_tables([runs["a"].slice(0, 1), runs["a"].slice(1)])}

    once = write_runs(root, runs, epoch=1, buckets=(0, 1024))
    again = write_runs(root, chunked, epoch=1, buckets=(0, 1024))

    assert [piece.file for piece in once.values()] == [piece.file for piece in again.values()]
    assert len(root.list("")) == 1


def test_a_torn_file_of_an_earlier_try_is_replaced() -> None:
    root, table = MemoryRoot(), table_of([(1, 1, "a"), (2, 2, "b")])
    piece = write_runs(root, {"r": table}, epoch=3, buckets=(0, 1024))["r"]
    whole = root.get(piece.file)
    root.put(piece.file, whole[: len(whole) // 2])

    write_runs(root, {"r": table}, epoch=3, buckets=(0, 1024))

    assert root.get(piece.file) == whole


def test_columns_come_in_the_order_asked_for() -> None:
    root = MemoryRoot()
    piece = write_runs(root, {"a": table_of([(1, 5, "x")])}, epoch=1, buckets=(0, 1024))["a"]

    found = read_piece(root, piece, columns=["text", "_key"])

    assert (found.column_names, rows_of(found)) == (["text", "_key"], [("x", 1)])
    nothing = read_piece(root, piece, columns=["text"], keys=(7, 9))
    assert (nothing.column_names, nothing.num_rows) == (["text"], 0)


def test_reading_copies_nothing(posix: PosixRoot) -> None:
    piece = write_runs(
        posix, {"a": table_of([(1, time, "x") for time in range(7)])}, epoch=1, buckets=(0, 1024)
    )["a"]

    first, second = (read_piece(posix, piece).column("_time").chunk(0) for _ in range(2))

    assert first.buffers()[1].address == second.buffers()[1].address


def test_only_blocks_that_the_fences_admit_are_verified() -> None:
    root = MemoryRoot()
    table = table_of([(key, 100 - key, "x") for key in range(70)])
    (piece,) = write_runs(root, {"a": table}, epoch=1, buckets=(0, 1024)).values()
    place = opened(root, piece.file).container.sections["a:3"]
    damaged = bytearray(root.get(piece.file))
    damaged[place.offset + 100] ^= 1
    root.put(piece.file, bytes(damaged))
    forget(root)

    assert read_piece(root, piece, keys=(0, 21)).num_rows == 21
    assert read_piece(root, piece, keys=(28, 70)).num_rows == 42
    assert read_piece(root, piece, times=(0, 73)).num_rows == 42
    with pytest.raises(CorruptionError, match='damaged in section "a:3"'):
        read_piece(root, piece, keys=(20, 22))
    with pytest.raises(CorruptionError, match='damaged in section "a:3"'):
        read_piece(root, piece, times=(73, 80))


def test_any_damage_gives_an_error_or_the_same_rows() -> None:
    runs = {"a": table_of([(1, 1, "x"), (2, 0, None)]), "b": table_of([(9, 9, "yy")])}
    data = b"".join(pack_runs(runs, {"delta": 1}))
    pieces = pieces_of("runs/a", runs)
    n_noticed = 0
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        try:
            found = read_all(bytes(damaged), pieces)
        except MillraceError:
            n_noticed += 1
        else:
            assert found == runs

    assert n_noticed == len(data), "every byte is read here"


def read_all(data: bytes, pieces: dict[str, Piece]) -> dict[str, pa.Table]:
    root = MemoryRoot()
    root.put("runs/a", data)
    return {name: read_piece(root, piece) for name, piece in pieces.items()}


def test_a_run_that_is_not_there_is_told() -> None:
    root = MemoryRoot()
    piece = write_runs(root, {"a": table_of([(1, 1, "x")])}, epoch=1, buckets=(0, 1024))["a"]

    with pytest.raises(CorruptionError, match='has no run "other"'):
        opened(root, piece.file).run("other")


def test_files_are_remembered_until_they_are_forgotten(root: Root) -> None:
    pieces = write_runs(root, {"a": table_of([(1, 1, "x")])}, epoch=1, buckets=(0, 1024))
    file = opened(root, pieces["a"].file)

    assert opened(root, pieces["a"].file) is file
    forget(root, keep=[pieces["a"].file])
    assert opened(root, pieces["a"].file) is file
    forget(root)
    assert opened(root, pieces["a"].file) is not file


def test_no_more_than_so_many_files_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "REMEMBERED", 3)
    root = MemoryRoot()
    names = []
    for epoch in range(5):
        runs = {"a": table_of([(epoch, 1, "x")])}
        names.append(write_runs(root, runs, epoch=epoch, buckets=(0, 1024))["a"].file)
    files = [opened(root, name) for name in names]

    assert opened(root, names[4]) is files[4]
    assert opened(root, names[0]) is not files[0]


def test_an_unsorted_run_is_a_bug_of_the_caller() -> None:
    unsorted = table_of([(1, 1, "x"), (2, 2, "y")]).take([1, 0])

    with pytest.raises(AssertionError, match="not sorted by key and time"):
        pack_runs({"a": unsorted})
