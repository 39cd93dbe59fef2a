"""Reading splits: the right format, and only the file that was listed."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millrace.connectors import decode
from millrace.connectors.decode import (
    FileSplit,
    decode_json_column,
    read_split,
    warm_decoders,
    whole_file,
)
from millrace.connectors.splits import CutOptions, cut_file, format_of
from millrace.errors import OutageError, SourceError
from millrace.kernels.cells import decode_base64, gather
from millrace.kernels.csv_scan import scan_records
from millrace.kernels.json_scan import scan_objects
from millrace.kernels.numbers import read_floats, read_ints
from millrace.schema import Schema

SCHEMA = Schema.of("a int")
KERNELS: list[Any] = [scan_objects, scan_records, read_ints, read_floats, gather, decode_base64]


@pytest.fixture
def split(tmp_path: Path) -> FileSplit:
    (tmp_path / "a.ndjson").write_text('{"a": 1}\n{"a": 2}\n')
    return whole_file(str(tmp_path / "a.ndjson"))


def test_a_split_survives_json(split: FileSplit) -> None:
    assert FileSplit.from_json(split.to_json()) == split


def test_a_big_file_is_cut_into_byte_ranges(split: FileSplit) -> None:
    splits = cut_file(split.path, "ndjson", size=18, options=CutOptions(split_bytes=7))

    pieces = [piece for each in splits for piece in read_split(each, SCHEMA)]

    assert [(each.first, each.stop) for each in splits] == [(0, 7), (7, 14), (14, 18)]
    assert [at for piece in pieces for at in piece.ordinals.tolist()] == [0, 9]


def test_csv_is_one_split_and_an_empty_file_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")

    assert len(cut_file("a.csv", "csv", size=10**9)) == 1
    assert len(cut_file("a.ndjson", "ndjson", size=0)) == 1
    [decoded] = read_split(whole_file(str(tmp_path / "a.csv")), SCHEMA)
    assert decoded.rows.to_pylist() == [{"a": 1}]


def test_a_file_that_grew_is_refused(split: FileSplit) -> None:
    with Path(split.path).open("a") as file:
        file.write('{"a": 3}\n')

    with pytest.raises(SourceError, match=r"a.ndjson\" changed after it was listed") as caught:
        list(read_split(split, SCHEMA))
    assert caught.value.detail == "It had 18 bytes and now has 27."


def test_a_file_rewritten_to_the_same_size_is_refused(split: FileSplit) -> None:
    os.utime(split.path, ns=(0, split.modified + 1))

    with pytest.raises(SourceError, match="changed after it was listed"):
        list(read_split(split, SCHEMA))
    assert list(read_split(replace(split, modified=0), SCHEMA))


def test_a_file_that_changes_while_it_is_read_is_refused(split: FileSplit) -> None:
    pieces = read_split(split, SCHEMA)
    next(pieces)
    os.utime(split.path, ns=(0, split.modified + 1))

    with pytest.raises(SourceError, match="changed after it was listed"):
        next(pieces)


def test_a_file_that_is_gone_is_named(split: FileSplit) -> None:
    Path(split.path).unlink()

    with pytest.raises(SourceError, match=r'file ".*a.ndjson" cannot be opened'):
        list(read_split(split, SCHEMA))


def test_a_file_whose_directory_is_gone_is_an_outage_and_read_when_it_is_back(
    split: FileSplit, tmp_path: Path
) -> None:
    directory, away = Path(split.path).parent, tmp_path.parent / f"{tmp_path.name}-away"
    before = [each.rows for each in read_split(split, SCHEMA)]
    directory.rename(away)

    with pytest.raises(OutageError, match=r'directory ".*" cannot be listed now'):
        list(read_split(split, SCHEMA))

    away.rename(directory)
    assert [each.rows for each in read_split(split, SCHEMA)] == before


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT])
def test_storage_that_does_not_answer_is_an_outage(
    split: FileSplit, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def silent(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(decode, "read_ndjson", silent)

    with pytest.raises(OutageError, match=r'file ".*a.ndjson" cannot be read now'):
        list(read_split(split, SCHEMA))


def test_an_ending_names_the_format() -> None:
    assert format_of("x/A.PARQUET") == "parquet"
    assert format_of("a.jsonl") == "ndjson"
    with pytest.raises(SourceError, match=r'file "a.txt" has an ending that names no format'):
        format_of("a.txt")


def test_warming_compiles_every_kernel_once() -> None:
    warm_decoders()
    before = [len(each.signatures) for each in KERNELS]

    decode_json_column(pa.array(['{"a": 1}']), SCHEMA)

    assert before == [len(each.signatures) for each in KERNELS]
    assert min(before) > 0
