"""Receipts: bytes there and back, and damage on the way is noticed."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from millrace.engine.receipt import Receipt, Written
from millrace.engine.tally import Segment, Tally
from millrace.errors import CorruptionError
from millrace.operators.weighing import Weighed
from millrace.state.piece import Piece

PIECE = Piece("runs/a", "rows/s.1@2", 0, 3, (0, 1), (9, 9), 1, 8, 64)
WEIGHED = Weighed(("ssi",), {"ssi": 1.5, "lineage": 2.0}, 3)
TABLE = pa.table({"_key": pa.array([1, 2], pa.uint64()), "_time": [5, 6], "x": [None, "é"]})


def receipt() -> Receipt:
    written = (
        Written("rows/s.1", 2, 3, piece=PIECE),
        Written("results/q.4", 2, 2),
        Written("rows/s.1", 2, 0, merge=1),
    )
    tallies = (Tally("s", rows=3, segments=(Segment("p", [0], 6, 5),)),)
    made = Receipt(2, written, {"results/q.4@2": TABLE}, tallies, True, {"sort": 0.25}, 999)
    return replace(made, reaches={7: 5}, weighed={7: WEIGHED})


def test_a_receipt_survives_the_way_to_the_driver() -> None:
    sent, got = receipt(), Receipt.unpack(receipt().pack())

    assert (got.shard, got.written, got.tallies) == (sent.shard, sent.written, sent.tallies)
    assert (got.oversize, dict(got.seconds), got.bytes_written) == (True, {"sort": 0.25}, 999)
    assert (got.reaches, got.weighed) == ({7: 5}, {7: WEIGHED})
    assert list(got.inline) == ["results/q.4@2"]
    assert got.inline["results/q.4@2"].equals(TABLE)


def test_labels_tell_a_merge_from_new_rows_and_one_shard_from_another() -> None:
    labels = {each.label for each in (*receipt().written, Written("rows/s.1", 3, 1))}

    assert labels == {"rows/s.1@2", "results/q.4@2", "rows/s.1~1@2", "rows/s.1@3"}


@pytest.mark.parametrize("at", [0.0, 0.3, 0.6, 0.99])
def test_a_flipped_byte_is_noticed(at: float) -> None:
    packed = bytearray(receipt().pack())
    packed[int(at * len(packed))] ^= 1

    with pytest.raises(CorruptionError):
        Receipt.unpack(bytes(packed))
