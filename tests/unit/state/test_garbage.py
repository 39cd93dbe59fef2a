"""Garbage: what some manifest, reader or epoch in flight may need stays; the rest goes."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.state.garbage import collect
from millrace.state.manifest import Manifest
from millrace.state.memory_root import MemoryRoot
from millrace.state.names import epoch_of, run_file_name
from millrace.state.piece import Piece
from millrace.state.posix_root import PosixRoot
from millrace.state.store_state import StoreSpec, StoreState

SCHEMA = pa.schema([("_key", pa.uint64()), ("_time", pa.int64())])
LIVES = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), max_size=15)


def manifest_at(epoch: int, files: dict[str, tuple[int, int]]) -> Manifest:
    """A manifest that names the files alive at `epoch`: committed by it, not yet dropped."""
    state = StoreState(StoreSpec(SCHEMA))
    for name, (first, stop) in files.items():
        if first <= epoch < stop:
            state = state.with_run([Piece(name, "r", 0, 1, (0, 0), (1, 0), 0, 0, 1)], first)
    return Manifest(epoch, 1, stores={"s": state})


@given(LIVES, st.integers(0, 20), st.none() | st.integers(0, 20), st.sets(st.integers(0, 20)))
def test_no_file_goes_that_anyone_may_read(
    lives: list[tuple[int, int]], committed: int, leased: int | None, snapshots: set[int]
) -> None:
    root = MemoryRoot()
    files = {
        run_file_name(first, (0, 1024), str(at).encode()): (first, first + length)
        for at, (first, length) in enumerate(lives)
    }
    for name in files:
        root.put_if_absent(name, b"x")
    kept = sorted(epoch for epoch in snapshots if epoch <= committed)[-2:]
    keep = [manifest_at(epoch, files) for epoch in [*kept, committed]]
    lease = None if leased is None else min(leased, committed)

    gone = collect(root, keep=keep, temporary_before=0.0, oldest_lease_epoch=lease).names

    readable = set(kept) | set(range(committed if lease is None else lease, committed + 1))
    for name in gone:
        first, stop = files[name]
        assert first <= committed, "its epoch is in flight"
        assert not any(first <= epoch < stop for epoch in readable)
    if lease is None or lease == committed:
        needed = {*kept, committed}
        dead = {
            name
            for name, (first, stop) in files.items()
            if first <= committed and not any(first <= epoch < stop for epoch in needed)
        }
        assert set(gone) == dead, "and nothing dead stays"


def test_names_that_it_does_not_know_stay() -> None:
    root = MemoryRoot()
    for name in ("runs/notes.txt", "registry/000000000001", "top"):
        root.put(name, b"x")

    assert collect(root, keep=[Manifest(9, 1)], temporary_before=0.0).names == ()


def test_what_went_is_told_with_its_size(posix: PosixRoot) -> None:
    name = run_file_name(3, (0, 8), b"x")
    posix.put(name, b"seven b")
    (posix.path / "runs" / ".tmp-9-abc").write_bytes(b"123")
    assert epoch_of(name) == 3

    collected = collect(posix, keep=[Manifest(3, 1)], temporary_before=2e12)

    assert collected.names == (name, "runs/.tmp-9-abc")
    assert collected.bytes == 10
