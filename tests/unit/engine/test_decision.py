"""Decisions: what is read back is what was logged, and each attempt is logged once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.engine.decision import Decision, Identity, attempts
from millrace.errors import FencedError
from millrace.state.memory_root import MemoryRoot
from millrace.state.merge import MergeInput, MergeStep
from millrace.state.piece import Piece

PIECE = Piece("runs/a", "rows/s.1@0", 0, 9, (1, 2), (2**64 - 1, 2**63), -5, 2**63 - 1, 100)
DECISION = Decision(
    Identity("query", 7, "digest", "offsets"),
    attempt=0,
    term=3,
    clock=1_000,
    catalog="catalogs/000000000004",
    clocks={"s": {"p": -(2**62), "": 5}},
    watermarks={"s": -5},
    idle={"s": ["p"]},
    suspended=(4, 9),
    quarantined={"9": [None, "quarantined", "died", "detail"]},
    wanted={"alerts": ["counts", "rows"]},
    families=("1-abc",),
    access="hash",
    shards=(0, 341, 1024),
    spread=True,
    merges=(MergeStep("rows/s.1", 12, 1, (MergeInput(3, (PIECE,), PIECE),), (1, 2), -9),),
    segments={"s": {"p": [([1, "x"], 5), ([2, "y"], 6)]}},
    probe=True,
)


def test_what_is_read_back_is_what_was_logged() -> None:
    root = MemoryRoot()
    DECISION.write(root)

    assert Decision.read(root, DECISION.file) == DECISION


def test_attempts_are_listed_oldest_first_and_apart_from_other_epochs() -> None:
    root = MemoryRoot()
    for attempt in (2, 0, 11, 1):
        replace(DECISION, attempt=attempt).write(root)
    replace(DECISION, identity=Identity("query", 70, "")).write(root)

    listed = [Decision.read(root, each).attempt for each in attempts(root, 7)]

    assert listed == [0, 1, 2, 11]
    assert attempts(root, 8) == []


def test_an_attempt_is_logged_once_and_by_one_engine() -> None:
    root = MemoryRoot()
    DECISION.write(root)
    DECISION.write(root)

    with pytest.raises(FencedError, match=r"epochs/000000000007\.000"):
        replace(DECISION, term=4).write(root)


def test_shards_share_all_keys_without_gap() -> None:
    ranges = [DECISION.key_range(shard) for shard in range(DECISION.n_shards)]

    assert ranges[0][0] == 0
    assert ranges[0][1] == ranges[1][0]
    assert ranges[-1][1] == 1 << 64
