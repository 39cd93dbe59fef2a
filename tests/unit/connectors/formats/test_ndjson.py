"""NDJSON files: lines, blocks and cuts."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.connectors.formats.ndjson import read_ndjson
from millrace.connectors.formats.options import ReadOptions
from millrace.schema import Schema

SCHEMA = Schema.of("a int, s text")
Seen = tuple[list[tuple[int, object]], list[tuple[int, bytes]]]
LINES = st.lists(
    st.sampled_from(
        [b'{"a": 1}', b'{"a": 22, "s": "x"}', b"", b" ", b"{bad", b'{"a":"no"}', b"\xff"]
    )
)
ENDINGS = st.sampled_from([b"\n", b"\r\n"])


def read(data: bytes, first: int, stop: int, options: ReadOptions) -> Seen:
    rows: list[tuple[int, object]] = []
    rejects: list[tuple[int, bytes]] = []
    for piece in read_ndjson(io.BytesIO(data), (first, stop), SCHEMA, options):
        rows += zip(piece.ordinals.tolist(), piece.rows.to_pylist(), strict=True)
        columns = piece.rejects["ordinal"].to_pylist(), piece.rejects["raw"].to_pylist()
        rejects += zip(*columns, strict=True)
    return rows, rejects


@given(LINES, ENDINGS, st.booleans(), st.lists(st.integers(0, 200)), st.integers(1, 30))
@example([b"{bad"], b"\n", False, [], 1)
def test_cuts_and_blocks_do_not_matter(
    lines: list[bytes],
    ending: bytes,
    closed: bool,  # noqa: FBT001
    cuts: list[int],
    block: int,
) -> None:
    data = ending.join(lines) + (ending if closed and lines else b"")
    whole = read(data, 0, len(data), ReadOptions())

    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    small = ReadOptions(block_bytes=block, piece_rows=2)
    parts = [read(data, first, stop, small) for first, stop in pairwise(edges)]

    assert whole[0] == [row for rows, _ in parts for row in rows]
    assert whole[1] == [reject for _, rejects in parts for reject in rejects]


@given(LINES, ENDINGS)
def test_every_line_is_a_row_a_reject_or_blank(lines: list[bytes], ending: bytes) -> None:
    data = ending.join(lines)

    rows, rejects = read(data, 0, len(data), ReadOptions())

    starts = [sum(len(line) + len(ending) for line in lines[:at]) for at in range(len(lines))]
    bad = {b"{bad", b'{"a":"no"}', b"\xff"}
    good = [at for at, line in zip(starts, lines, strict=True) if line.strip() and line not in bad]
    assert [at for at, _ in rows] == good
    assert rejects == [(at, line) for at, line in zip(starts, lines, strict=True) if line in bad]


def test_a_byte_order_mark_is_passed_over() -> None:
    data = b'\xef\xbb\xbf{"a": 1}\n'

    assert read(data, 0, len(data), ReadOptions()) == ([(0, {"a": 1, "s": None})], [])


@pytest.mark.parametrize("block", [8, 64, 1 << 20])
def test_an_overlong_line_is_a_reject_and_the_next_survives(block: int) -> None:
    data = b'{"a": 1}\n{"s": "' + b"x" * 200 + b'"}\n{"a": 2}\n'
    options = ReadOptions(block_bytes=block, max_record_bytes=50)

    rows, rejects = read(data, 0, len(data), options)

    assert [at for at, _ in rows] == [0, 220 - 9 + 8]
    assert [at for at, _ in rejects] == [9]
