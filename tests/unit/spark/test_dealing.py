"""Files that the driver deals to tasks: everything once, in order, in about equal pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from millrace.connectors.files import Files
from millrace.connectors.splits import FileSplit
from millrace.engine.decision import Identity
from millrace.spark.checkpoint import Checkpoint
from millrace.spark.dealing import ROWS_OF_A_TASK, dealt
from millrace.spark.tasks import Share
from millrace.state.posix_root import PosixRoot

ROWS = st.integers(0, 4) | st.integers(0, 4 * ROWS_OF_A_TASK)


def stretch(name: str, begin: int, rows: list[int]) -> Share:
    splits = [
        FileSplit(f"{name}/{at}", "parquet", 0, 1, 10, 10, n_rows) for at, n_rows in enumerate(rows)
    ]
    return Share(name, Files(name), begin, tuple(splits))


@given(
    st.lists(st.lists(ROWS, min_size=1, max_size=6), min_size=1, max_size=5),
    st.integers(0, 9),
    st.integers(1, 6),
)
def test_every_split_is_dealt_once_in_order_and_no_task_gets_much_more_than_its_part(
    streams: list[list[int]], begin: int, n_tasks: int
) -> None:
    stretches = [stretch(f"s{at}", begin, rows) for at, rows in enumerate(streams)]

    shares = dealt(stretches, n_tasks)

    numbered = [
        (each.stream, each.begin + at, split)
        for piece in shares
        for each in piece
        for at, split in enumerate(each.splits)
    ]
    assert numbered == [
        (each.stream, begin + at, split)
        for each in stretches
        for at, split in enumerate(each.splits)
    ]
    assert all(len({each.stream for each in piece}) == len(piece) > 0 for piece in shares)
    weights = [
        [max(split.n_rows, 1) for each in piece for split in each.splits] for piece in shares
    ]
    total = sum(map(sum, weights))
    assert len(shares) <= min(n_tasks, max(total // ROWS_OF_A_TASK, 1))
    widest = max(max(each) for each in weights)
    n_pieces = min(n_tasks, max(total // ROWS_OF_A_TASK, 1), len(numbered))
    assert all(sum(each) <= total / n_pieces + widest for each in weights)


def test_small_streams_share_a_task_and_large_ones_are_cut() -> None:
    small = [stretch(name, 0, [200]) for name in "abcde"]
    large = [stretch("a", 0, [10_000] * 4), stretch("b", 7, [100])]

    assert len(dealt(small, 2)) == 1
    assert [[(each.stream, each.begin) for each in piece] for piece in dealt(large, 2)] == [
        [("a", 0)],
        [("a", 2), ("b", 7)],
    ]


def test_offsets_say_up_to_where_files_are_read(tmp_path: Path) -> None:
    checkpoint = Checkpoint(PosixRoot(tmp_path))
    lines = [
        "v2",
        "{}",
        'millrace_control:{"tick": 3}',
        'millrace_a_1:{"splits": 7}',
        "rate:5",
        'millrace_b_2:{"files": 9}',
    ]
    offsets = checkpoint.path / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "4").write_text("\n".join(lines))
    (checkpoint.path / "metadata").write_text(json.dumps({"id": "q"}))

    assert checkpoint.splits(4, {"millrace_a_1", "millrace_c_3"}) == {"millrace_a_1": 7}
    assert checkpoint.splits(-1, {"millrace_a_1"}) == {}
    assert isinstance(checkpoint.identity(4), Identity)
    with pytest.raises(FileNotFoundError):
        checkpoint.splits(3, {"millrace_a_1"})
