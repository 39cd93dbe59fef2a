"""The run store as a whole: crashes at every step, two engines, and its bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millrace import failpoints
from millrace.errors import FencedError, StoreFullError
from millrace.failpoints import InjectedCrash
from millrace.state import log, root_lock
from millrace.state.cuts import StoredFences
from millrace.state.fence import Fence
from millrace.state.lease import Lease
from millrace.state.levels import merge_budget, plan_merges
from millrace.state.manifest import Delta, Manifest, StoreSpec, commit_name
from millrace.state.memory_root import MemoryRoot
from millrace.state.merge import MergeProgress, perform
from millrace.state.order import sort_rows
from millrace.state.posix_root import PosixRoot
from millrace.state.root import Root
from millrace.state.run import pieces_of, write_runs
from millrace.state.run_store import RunStore, load_manifest, read_delta
from millrace.state.store import scan

SCHEMA = pa.schema([("_key", pa.uint64()), ("_time", pa.int64()), ("serial", pa.int64())])


def rows_of_epoch(epoch: int, n_rows: int) -> pa.Table:
    """The input of an epoch: the same whenever it is asked for."""
    rng = np.random.default_rng(epoch)
    keys = pa.array(rng.integers(0, 1 << 64, n_rows, dtype=np.uint64))
    serials = pa.array(np.arange(epoch * n_rows, (epoch + 1) * n_rows))
    times = pa.array(np.full(n_rows, epoch))
    return sort_rows(pa.table([keys, times, serials], schema=SCHEMA))


@dataclass
class Engine:
    """The least engine that goes through all steps of an epoch."""

    root: Root
    n_rows: int = 10

    def __post_init__(self) -> None:
        self.fence = Fence.acquire(self.root, who="test")
        self.store = RunStore.open(self.root, self.fence)

    @property
    def manifest(self) -> Manifest:
        return self.store.manifest

    def epoch(self) -> None:
        """Merge, write, commit, and keep the root tidy."""
        epoch = self.manifest.epoch + 1
        new = rows_of_epoch(epoch, self.n_rows)
        steps = plan_merges(
            self.manifest.stores,
            StoredFences(self.root),
            epoch=epoch,
            budget_rows=merge_budget(self.n_rows, 10_000),
            horizon={},
        )
        outputs = {f"{at}": perform(self.root, step) for at, step in enumerate(steps)}
        written = write_runs(self.root, outputs, epoch=epoch, buckets=(0, 1024)) if outputs else {}
        inline = {"new": new}
        delta = Delta(
            epoch,
            self.fence.term,
            digest=f"input {epoch}",
            created={} if epoch else {"rows": StoreSpec(SCHEMA)},
            merged=tuple(
                MergeProgress(step, written.get(f"{at}")) for at, step in enumerate(steps)
            ),
            added={"rows": ((pieces_of(commit_name(epoch), inline)["new"],),)},
            facts={"watermark": epoch},
        )
        self.store.commit(delta, inline)
        self.store.snapshot_if_due()
        if epoch % log.EVERY == 0:
            self.store.collect_garbage()

    def epochs(self, stop: int) -> None:
        while self.manifest.epoch + 1 < stop:
            self.epoch()

    def check(self) -> None:
        """Compare with the rows of all committed epochs."""
        n_epochs = self.manifest.epoch + 1
        assert self.manifest.facts.get("watermark", -1) == self.manifest.epoch
        if n_epochs:
            found = scan(self.root, self.manifest.stores["rows"])
            everything = [rows_of_epoch(epoch, self.n_rows) for epoch in range(n_epochs)]
            assert found.equals(sort_rows(pa.concat_tables(everything)))


@pytest.fixture
def _frequent_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few epochs go through snapshots and collections."""
    monkeypatch.setattr(log, "EVERY", 4)


def crashing(
    faulty: Callable[..., Any], error: BaseException, *, after: bool
) -> Iterator[tuple[MemoryRoot, Any]]:
    """Give a root that fails at its first change, then one at its second, and so on."""
    for countdown in range(1, 1_000):
        root = MemoryRoot()
        failing = faulty(root, error, countdown=countdown, after=after)
        yield root, failing
        if not failing.exhausted:
            return


@pytest.mark.usefixtures("_frequent_snapshots")
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_change_of_the_root_loses_and_doubles_nothing(
    faulty: Callable[..., Any], *, after: bool
) -> None:
    for root, failing in crashing(faulty, InjectedCrash("here"), after=after):
        committed = -1
        try:
            engine = Engine(failing)
            while engine.manifest.epoch < 12:
                engine.epoch()
                committed = engine.manifest.epoch
        except InjectedCrash:
            root_lock._held.pop(root.uri, None)  # as the end of a process does
        else:
            engine.fence.release()

        engine = Engine(root)
        engine.check()
        assert engine.manifest.epoch >= committed, "what was committed stays"
        engine.epochs(15)
        engine.check()
        engine.fence.release()


def opened_at_last(root: Root) -> Engine:
    while True:
        with suppress(StoreFullError):
            return Engine(root)


@pytest.mark.usefixtures("_frequent_snapshots")
def test_a_full_disk_at_any_change_leaves_a_store_that_goes_on(faulty: Callable[..., Any]) -> None:
    for _, failing in crashing(faulty, StoreFullError("full"), after=False):
        engine = opened_at_last(failing)
        while engine.manifest.epoch < 12:
            with suppress(StoreFullError):
                engine.epoch()
        engine.check()
        engine.fence.release()


@pytest.mark.usefixtures("_frequent_snapshots")
@pytest.mark.parametrize("action", ["raise", "fail"])
@pytest.mark.parametrize(
    "point",
    [
        point
        for point in failpoints.POINTS
        if point.split(".")[0] in ("merge", "snapshot", "collect")
    ],
)
def test_a_stop_at_any_failpoint_is_survived(
    point: str, action: str, armed: Callable[..., None], posix: PosixRoot
) -> None:
    engine = Engine(posix)
    for count in (1, 2, 5):
        armed(point, action, after=count)
        with pytest.raises((InjectedCrash, OSError)):
            engine.epochs(200)
        failpoints.disarm()
        engine.fence.release()

        engine = Engine(posix)
        engine.check()
    engine.fence.release()


def test_of_two_engines_with_a_broken_lock_the_older_stops(posix: PosixRoot) -> None:
    old = Engine(posix)
    old.epoch()
    (posix.path / "lock").unlink()
    new = Engine(posix)

    with pytest.raises(FencedError, match="has been taken over"):
        old.epoch()
    with pytest.raises(FencedError):
        old.store.collect_garbage()
    new.epoch()

    assert read_delta(posix, 1).term == new.fence.term
    new.check()
    assert old.manifest.epoch == 0
    for engine in (old, new):
        engine.fence.release()


def test_of_two_commits_of_one_epoch_the_second_is_fenced(posix: PosixRoot) -> None:
    old = Engine(posix)
    old.epoch()
    (posix.path / "lock").unlink()
    new = Engine(posix)
    new.epoch()
    old.fence.check = lambda: None  # type: ignore[method-assign] # it looked just before

    with pytest.raises(FencedError, match="has been written by another engine"):
        old.epoch()

    assert load_manifest(posix).term == new.fence.term
    new.check()
    for engine in (old, new):
        engine.fence.release()


@pytest.mark.usefixtures("_frequent_snapshots")
def test_a_reader_with_a_lease_keeps_what_it_reads(posix: PosixRoot) -> None:
    engine = Engine(posix, n_rows=50)
    for _ in range(30):
        engine.epoch()
    lease = Lease.take(posix, engine.manifest.epoch, 600)
    seen = load_manifest(posix)
    expected = scan(posix, seen.stores["rows"])

    for _ in range(60):
        engine.epoch()
    assert scan(PosixRoot(posix.path), seen.stores["rows"]).equals(expected)
    held_back = len(posix.list("runs/"))
    lease.release(posix)
    engine.store.collect_garbage()

    assert len(posix.list("runs/")) < held_back
    engine.check()
    engine.fence.release()


def test_many_small_epochs_leave_few_files(posix: PosixRoot) -> None:
    engine = Engine(posix, n_rows=100)
    most = 0
    for _ in range(400):
        engine.epoch()
        if engine.manifest.epoch % 64 in (0, 63):
            most = max(most, len(posix.list("")))
    engine.check()

    assert most <= 250
    engine.fence.release()


def test_a_large_store_opens_by_its_manifest_alone(posix: PosixRoot) -> None:
    engine = Engine(posix)
    rng = np.random.default_rng(1)
    keys = np.sort(rng.integers(0, 1 << 64, 2_000_000, dtype=np.uint64))
    column = pa.array(np.arange(keys.size))
    table = pa.table([pa.array(keys), column, column], schema=SCHEMA)
    (piece,) = write_runs(posix, {"r": table}, epoch=0, buckets=(0, 1024)).values()
    created = {"rows": StoreSpec(SCHEMA)}
    engine.store.commit(Delta(0, engine.fence.term, created=created, added={"rows": ((piece,),)}))
    engine.fence.release()

    started = time.perf_counter()
    engine = Engine(posix)

    assert time.perf_counter() - started < 0.5
    assert engine.manifest.stores["rows"].rows == 2_000_000
    engine.fence.release()


def test_leftovers_of_an_epoch_that_never_committed_are_collected_later(posix: PosixRoot) -> None:
    engine = Engine(posix)
    engine.epoch()
    write_runs(posix, {"r": rows_of_epoch(7, 5)}, epoch=1, buckets=(0, 1024))

    assert engine.store.collect_garbage().names == (), "epoch 1 may be in flight"
    engine.epoch()
    assert len(engine.store.collect_garbage().names) == 1
    engine.fence.release()


def test_a_root_can_be_copied(posix: PosixRoot, tmp_path: Path) -> None:
    engine = Engine(posix)
    for _ in range(70):
        engine.epoch()
    copy = PosixRoot(tmp_path / "copy", durable=False)
    for entry in posix.list(""):
        if entry.name != "lock":
            copy.put(entry.name, posix.get(entry.name))
    engine.fence.release()

    other = Engine(copy)
    other.check()
    other.fence.release()
