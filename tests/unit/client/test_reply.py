"""Bodies: read in any pieces, and held once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.client.reply import Received, Reply
from millrace.client.request import arrow_bytes
from millrace.errors import SourceError

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


@given(st.lists(st.binary(max_size=5), max_size=8), st.lists(st.integers(0, 12), max_size=8))
def test_reading_is_cutting_the_whole(pieces: list[bytes], sizes: list[int]) -> None:
    received, whole = Received(), b"".join(pieces)
    for piece in pieces:
        received.feed(piece)

    for size in sizes:
        expected, whole = whole[:size], whole[size:]
        assert received.read(size) == expected
    assert received.read() == whole


def test_a_large_table_is_not_held_twice() -> None:
    rows, before = pa.table({"x": np.arange(8_000_000)}), pa.total_allocated_bytes()  # 64 MB
    batches = rows.to_batches(max_chunksize=100_000)
    written = arrow_bytes(pa.Table.from_batches(batches))
    pieces = [written[at : at + 65_536] for at in range(0, len(written), 65_536)]
    del written
    body = Received(*pieces)
    held = sum(map(len, pieces))
    del pieces

    table = Reply(200, ARROW, body).table()

    assert table.equals(rows)
    assert not body.read()
    assert pa.total_allocated_bytes() - before < rows.nbytes + held / 4


@pytest.mark.parametrize("body", [b"", b"<html>", arrow_bytes(pa.table({"x": [1]}))[:-200]])
def test_a_body_that_is_no_arrow_stream_is_refused_in_words(body: bytes) -> None:
    with pytest.raises(SourceError, match="not an Arrow stream"):
        Reply(200, ARROW, Received(body)).table()


def test_a_body_that_is_no_json_is_refused_in_words() -> None:
    with pytest.raises(SourceError, match="not JSON") as refused:
        Reply(200, {}, Received(b"<html>")).json()

    assert "<html>" in refused.value.detail
