"""Arrivals: rows keep their places, and nothing that cannot be read is lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from millrace.connectors.files import Files
from millrace.connectors.splits import FileSplit
from millrace.engine.arrivals import from_rows, from_splits
from millrace.engine.streams import StreamSpec
from millrace.errors import SchemaError
from millrace.schema import Schema

STAMPED = Schema.of("x bigint, ts timestamp")
TYPED = StreamSpec("s", STAMPED, "ts")
ORDERED = StreamSpec("s", Schema.of("at int, ts timestamp"), "ts", order=("at",))
TEXT = StreamSpec(
    "s", Schema.of("x bigint, ts timestamp, part text"), "ts", text="body", partition="part",
    order=("part",),
)  # fmt: skip
STAMPS = pa.array([5, 6], pa.timestamp("us", "UTC"))


def test_rows_stand_where_they_are_counted_or_where_their_order_says() -> None:
    plain = pa.record_batch({"x": [1, 2], "ts": STAMPS, "more": ["a", "b"]})
    ordered = pa.record_batch({"at": pa.array([90, 91], pa.int32()), "ts": STAMPS})

    assert from_rows(TYPED, plain, origin="o", first=7).places.to_pylist() == [7, 8]
    assert from_rows(TYPED, plain, origin="o").rows.schema == STAMPED.to_arrow()
    assert from_rows(ORDERED, ordered, origin="o", first=7).places.to_pylist() == [90, 91]


def test_a_place_that_is_null_is_counted() -> None:
    rows = pa.record_batch({"at": pa.array([90, None], pa.int32()), "ts": STAMPS})

    assert from_rows(ORDERED, rows, origin="o", first=7).places.to_pylist() == [7, 8]


def test_columns_that_do_not_fit_are_named() -> None:
    with pytest.raises(SchemaError, match='column "ts" is missing'):
        from_rows(TYPED, pa.record_batch({"x": [1, 2]}), origin="o")


def test_text_becomes_rows_and_what_is_not_json_is_kept_as_it_is() -> None:
    texts = ['{"x": 1, "ts": 5}', "{", None, '{"x": "y", "ts": 6}', '{"x": null, "ts": 7}']
    rows = pa.record_batch({"body": texts, "part": list("abcde"), "unread": [0] * 5})

    arrived = from_rows(TEXT, rows, origin="o", first=100)

    assert arrived.rows.to_pydict()["x"] == [1, None]
    assert arrived.rows.column("part").to_pylist() == ["a", "e"]
    assert arrived.places.to_pylist() == [100, 104]
    assert arrived.rejects is not None
    assert arrived.rejects.column("ordinal").to_pylist() == [101, 102, 103]
    assert arrived.rejects.column("raw").to_pylist()[::2] == [b"{", b'{"x": "y", "ts": 6}']


def test_a_file_that_breaks_off_is_read_up_to_there_and_said_to_be_damaged(
    tmp_path: Path,
) -> None:
    good, gone = tmp_path / "good.ndjson", tmp_path / "gone.ndjson"
    good.write_text('{"x": 1, "ts": 5}\nnonsense\n{"x": 2, "ts": 6}\n')
    size = good.stat().st_size
    splits = [FileSplit(str(path), "ndjson", 0, size, size) for path in (gone, good)]

    arrived = list(from_splits(TYPED, Files(str(tmp_path)), splits, begin=40))

    rows = [x for each in arrived for x in each.rows.column("x").to_pylist()]
    rejects = [
        (each.origin, row["raw"])
        for each in arrived
        if each.rejects is not None
        for row in each.rejects.to_pylist()
    ]
    assert rows == [1, 2]
    assert rejects == [(str(gone), str(gone).encode()), (str(good), b"nonsense")]
    assert {tuple(each.begin or ()) for each in arrived} == {(40,)}
