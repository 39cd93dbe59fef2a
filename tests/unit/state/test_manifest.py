"""Manifests and deltas: pure application, and a JSON form that loses nothing."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from millrace.errors import CorruptionError
from millrace.state.manifest import Delta, Manifest, StoreSpec, apply
from millrace.state.piece import Piece

SCHEMA = pa.schema([("_key", pa.uint64()), ("_time", pa.int64()), ("price", pa.float64())])


def piece(file: str, low: int = 0, high: int = 100) -> Piece:
    return Piece(file, "trades", 0, 10, (low, 0), (high, 0), 0, 9, 240)


def first() -> Manifest:
    delta = Delta(
        0,
        term=1,
        digest="abc",
        created={"trades": StoreSpec(SCHEMA), "results": StoreSpec(SCHEMA, queue=True)},
        added={
            "trades": ((piece("runs/b", 50), piece("runs/a", 0, 50)), (piece("commits/0"),)),
            "results": ((piece("runs/c"),),),
        },
        facts={"watermark": 5, "plan": {"hops": 1}},
    )
    return apply(Manifest(), delta)


def test_each_sequence_of_pieces_becomes_a_run_in_order_of_keys() -> None:
    runs = first().stores["trades"].runs

    assert [[each.file for each in run.pieces] for run in runs] == [
        ["runs/a", "runs/b"],
        ["commits/0"],
    ]
    assert [run.id for run in runs] == [0, 1]
    assert [run.epoch for run in runs] == [0, 0]


def test_a_delta_changes_a_copy() -> None:
    manifest = first()
    before = json.dumps(manifest.to_json())
    delta = Delta(
        1,
        term=1,
        dropped={"results": (0,)},
        removed=("trades",),
        facts={"watermark": 7, "plan": None},
    )

    after = apply(manifest, delta)

    assert json.dumps(manifest.to_json()) == before
    assert set(after.stores) == {"results"}
    assert after.stores["results"].runs == ()
    assert after.facts == {"watermark": 7}
    assert (after.epoch, after.term) == (1, 1)


def test_json_loses_nothing() -> None:
    manifest = first()
    text = json.dumps(manifest.to_json())

    again = Manifest.from_json(json.loads(text))

    assert json.dumps(again.to_json()) == text
    assert again.stores["trades"].schema == SCHEMA
    assert again.stores["results"].queue
    assert again.files() == {"runs/a", "runs/b", "runs/c", "commits/0"}


@pytest.mark.parametrize(("epoch", "term"), [(0, 1), (2, 1), (1, 0)])
def test_a_delta_out_of_line_is_refused(epoch: int, term: int) -> None:
    with pytest.raises(CorruptionError, match=f"commit {epoch} of term {term} does not follow"):
        apply(first(), Delta(epoch, term))


def test_overlapping_pieces_are_a_bug_of_the_caller() -> None:
    overlapping = (piece("runs/a", 0, 60), piece("runs/b", 50, 100))

    with pytest.raises(AssertionError, match="overlap"):
        apply(first(), Delta(1, 1, added={"trades": (overlapping,)}))
