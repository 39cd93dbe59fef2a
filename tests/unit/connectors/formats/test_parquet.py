"""Parquet files: row groups, files that do not fit, values that do not fit, broken files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.connectors.decode import ReadOptions, read_split, whole_file
from millrace.connectors.splits import CutOptions, cut_file
from millrace.errors import SourceError
from millrace.schema import Schema

SCHEMA = Schema.of("a int, s text")


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = pa.table({"extra": range(100), "a": range(100), "s": [str(at) for at in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    return str(tmp_path / "a.parquet")


def test_splits_by_row_groups_give_every_row_once(path: str) -> None:
    size = Path(path).stat().st_size
    splits = cut_file(path, "parquet", size=size, options=CutOptions(split_rows=60))

    pieces = [piece for each in splits for piece in read_split(each, SCHEMA)]

    assert [(each.first, each.stop, each.n_rows) for each in splits] == [(0, 2, 60), (2, 4, 40)]
    assert [at for piece in pieces for at in piece.ordinals.tolist()] == list(range(100))
    assert pieces[0].rows.schema == SCHEMA.to_arrow()
    assert pieces[-1].rows.column("a").to_pylist()[-1] == 99


def test_pieces_are_bounded(path: str) -> None:
    pieces = list(read_split(whole_file(path), SCHEMA, ReadOptions(piece_rows=7)))

    assert max(piece.rows.num_rows for piece in pieces) == 7
    assert sum(piece.rows.num_rows for piece in pieces) == 100


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("a int, b int", "the file lacks the column b; it has extra, a, s"),
        ("a text", "column a is int64 in the file and not text"),
    ],
)
def test_a_file_that_does_not_fit_is_one_reject(path: str, schema: str, reason: str) -> None:
    size = Path(path).stat().st_size
    splits = cut_file(path, "parquet", size=size, options=CutOptions(split_rows=1))

    pieces = [piece for each in splits for piece in read_split(each, Schema.of(schema))]

    assert len(splits) == 4
    rejects = [each for piece in pieces for each in piece.rejects.to_pylist()]
    assert rejects == [{"ordinal": 0, "reason": reason, "raw": path.encode()}]


def test_values_out_of_range_are_rejected_row_by_row(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2**40, None, -(2**40), 5], "s": list("vwxyz")})
    pq.write_table(table, tmp_path / "a.parquet")

    [decoded] = read_split(whole_file(str(tmp_path / "a.parquet")), SCHEMA)

    assert decoded.rows.column("a").to_pylist() == [1, None, 5]
    assert decoded.ordinals.tolist() == [0, 2, 4]
    assert decoded.rejects.to_pylist()[0] == {
        "ordinal": 1,
        "reason": "column a: 1099511627776 is outside the range of int",
        "raw": b'{"a": 1099511627776, "s": "w"}',
    }


def test_a_broken_footer_names_the_file(path: str) -> None:
    Path(path).write_bytes(Path(path).read_bytes()[:-20])

    with pytest.raises(SourceError, match=r'Parquet file ".*a.parquet" cannot be read') as caught:
        whole_file(path)

    assert "The reader says" in caught.value.detail


def test_a_broken_page_names_the_file(path: str) -> None:
    data = bytearray(Path(path).read_bytes())
    data[4:400] = bytes(396)
    Path(path).write_bytes(bytes(data))

    split = whole_file(path)

    with pytest.raises(SourceError, match=r'Parquet file ".*a.parquet" cannot be read'):
        list(read_split(split, Schema.of("extra bigint, a int, s text")))
