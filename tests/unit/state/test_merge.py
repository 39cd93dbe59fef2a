"""Merging in slices against a list of rows: at no point is a row missing, doubled or moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace import failpoints
from millrace.state import cuts, expiry, levels, run_layout
from millrace.state.cuts import StoredFences
from millrace.state.levels import plan_drops, plan_merges
from millrace.state.manifest import Delta, Manifest, StoreSpec, apply, commit_name
from millrace.state.memory_root import MemoryRoot
from millrace.state.merge import MergeInput, MergeProgress, MergeStep, perform
from millrace.state.order import sort_rows
from millrace.state.piece import KEYS
from millrace.state.run import pack_runs, pieces_of, write_runs
from millrace.state.store import scan

SCHEMA = pa.schema([("_key", pa.uint64()), ("_time", pa.int64()), ("serial", pa.int64())])
Row = tuple[int, int, int]
PLACE = st.tuples(st.integers(0, 12) | st.just(KEYS - 1), st.integers(0, 20))
EPOCHS = st.lists(st.lists(PLACE, max_size=25), max_size=25)


@pytest.fixture(scope="module", autouse=True)
def _small_constants() -> Iterator[None]:
    """Let blocks, classes and budgets be so small that a few rows go through many slices."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (run_layout, cuts):
            patch.setattr(module, "BLOCK_ROWS", 8)
        for module in (run_layout, cuts, levels):
            patch.setattr(module, "FENCE_ROWS", 2)
        patch.setattr(levels, "SMALL_ROWS", 4)
        patch.setattr(levels, "MAX_SMALL", 3)
        patch.setattr(levels, "MAX_PER_CLASS", 2)
        patch.setattr(expiry, "MAX_INLINE_AGE", 5)
        yield


@dataclass
class Engine:
    """The least engine: it adds runs, performs merges and commits, in memory."""

    budget_rows: int
    merging: bool = True
    root: MemoryRoot = field(default_factory=MemoryRoot)
    manifest: Manifest = field(default_factory=Manifest)
    rows: list[Row] = field(default_factory=list)
    n_slices: int = 0
    serial: int = 0

    def step(self, places: list[tuple[int, int]], horizon: int | None = None) -> None:
        epoch = self.manifest.epoch + 1
        limits = {} if horizon is None else {"store": horizon}
        steps = self.plan(epoch, limits)
        new = self.table(places)
        inline = {"new": new} | {
            f"merge {at}": perform(self.root, step) for at, step in enumerate(steps) if at % 2
        }
        outputs = {f"merge {at}": perform(self.root, step) for at, step in enumerate(steps)}
        files = {name: table for name, table in outputs.items() if name not in inline}
        pieces = pieces_of(commit_name(epoch), inline)
        pieces |= write_runs(self.root, files, epoch=epoch, buckets=(0, 1024))
        delta = Delta(
            epoch,
            term=1,
            created={} if epoch else {"store": StoreSpec(SCHEMA)},
            dropped=plan_drops(self.manifest.stores, limits),
            merged=tuple(
                MergeProgress(step, pieces.get(f"merge {at}")) for at, step in enumerate(steps)
            ),
            added={"store": ((pieces["new"],),)} if places else {},
        )
        delta = Delta.from_json(json.loads(json.dumps(delta.to_json())))
        self.root.put_if_absent(commit_name(epoch), pack_runs(inline, delta.to_json()))
        self.manifest = apply(self.manifest, delta)
        self.n_slices += len(steps)

    def plan(self, epoch: int, limits: dict[str, int]) -> tuple[MergeStep, ...]:
        if not self.merging:
            return ()
        return plan_merges(
            self.manifest.stores,
            StoredFences(self.root),
            epoch=epoch,
            budget_rows=self.budget_rows,
            horizon=limits,
        )

    def table(self, places: list[tuple[int, int]]) -> pa.Table:
        fresh = [(*place, self.serial + at) for at, place in enumerate(places)]
        self.serial += len(places)
        columns = list(zip(*sorted(fresh, key=lambda row: row[:2]), strict=True)) or [(), (), ()]
        self.rows += fresh
        arrays = [pa.array(each, kind.type) for each, kind in zip(columns, SCHEMA, strict=True)]
        return pa.table(arrays, schema=SCHEMA)

    def scan(self, since: int = 0) -> list[Row]:
        found = scan(self.root, self.manifest.stores["store"], times=(since, 1 << 63))
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def expected(self, since: int = 0) -> list[Row]:
        return sorted((row for row in self.rows if row[1] >= since), key=lambda row: row[:2])


@settings(max_examples=40)
@given(EPOCHS, st.integers(0, 60))
def test_a_scan_gives_the_committed_rows_after_every_slice(
    epochs: list[list[tuple[int, int]]], budget_rows: int
) -> None:
    engine = Engine(budget_rows)

    for places in [*epochs, *[[]] * 8]:
        engine.step(places)
        assert engine.scan() == engine.expected()


@settings(max_examples=40)
@given(EPOCHS, st.integers(8, 60), st.lists(st.integers(0, 21), min_size=25, max_size=25))
@example([[(0, 0), (1, 9)], [(0, 1)], [(0, 2)], []], 20, [0, 0, 0, 21, *range(21)])
def test_rows_within_the_horizon_are_kept_and_the_others_never_come_back(
    epochs: list[list[tuple[int, int]]], budget_rows: int, horizons: list[int]
) -> None:
    engine = Engine(budget_rows)

    for places, horizon in zip(epochs, sorted(horizons), strict=False):
        engine.step([place for place in places if place[1] >= horizon], horizon)
        assert engine.scan(since=horizon) == engine.expected(since=horizon)


def test_merging_changes_the_number_of_runs_and_nothing_else() -> None:
    merging, lazy = Engine(64), Engine(64, merging=False)
    for engine in (merging, lazy):
        for epoch in range(60):
            engine.step([(key * epoch % 13, epoch % 5) for key in range(epoch % 11)])

    assert merging.scan() == lazy.scan()
    assert merging.n_slices > 20
    assert len(merging.manifest.stores["store"].runs) < 12
    assert len(lazy.manifest.stores["store"].runs) > 50


def test_a_large_merge_takes_many_slices_within_its_budget() -> None:
    engine = Engine(budget_rows=16)
    for epoch in range(4):
        engine.step([(key, epoch) for key in range(200)])
    unfinished = 0
    for _ in range(90):
        steps = engine.plan(engine.manifest.epoch + 1, {})
        assert sum(step.rows for step in steps) <= 16
        engine.step([])
        unfinished += any(run.inputs for run in engine.manifest.stores["store"].runs)

    assert unfinished > 40
    assert len(engine.manifest.stores["store"].runs) == 1
    assert engine.manifest.stores["store"].runs[0].level == 2
    assert engine.scan() == engine.expected()


def test_rows_of_one_key_and_time_are_not_parted() -> None:
    engine = Engine(budget_rows=16)
    for _ in range(4):
        engine.step([(1, 1)] * 50)
    for _ in range(20):
        engine.step([])

    assert [run.rows for run in engine.manifest.stores["store"].runs] == [200]
    assert engine.scan() == engine.expected()


def test_a_slice_survives_json() -> None:
    engine = Engine(8)
    engine.step([(key, 0) for key in range(9)])
    piece = engine.manifest.stores["store"].runs[0].pieces[0]
    taken, rest = piece.split(3, (3, 0))
    step = MergeStep("store", 4, 1, (MergeInput(0, (taken,), rest),), (3, 0), -7)

    again = MergeStep.from_json(json.loads(json.dumps(step.to_json())))

    assert again == step
    assert (again.rows, again.keys) == (3, (0, 4))


@pytest.mark.parametrize("point", ["merge.before", "merge.after"])
def test_a_crash_in_a_merge_changes_nothing(point: str, armed: Callable[..., None]) -> None:
    engine = Engine(64)
    for epoch in range(3):
        engine.step([(key, epoch) for key in range(3)])
    before = engine.manifest

    armed(point, "raise")
    with pytest.raises(failpoints.InjectedCrash):
        engine.step([(5, 5)])
    failpoints.disarm()
    engine.rows = engine.rows[:9]

    assert engine.manifest is before
    assert engine.scan() == engine.expected()
    engine.step([])
    assert engine.scan() == engine.expected()


def test_equal_rows_of_older_runs_come_first() -> None:
    engine = Engine(64, merging=False)
    for _ in range(5):
        engine.step([(1, 1)])
    runs = engine.manifest.stores["store"].runs
    step = MergeStep("store", 9, 1, tuple(MergeInput(run.id, run.pieces) for run in runs))

    merged = perform(engine.root, step)

    assert merged.column("serial").to_pylist() == [0, 1, 2, 3, 4]
    assert sort_rows(merged) is merged
