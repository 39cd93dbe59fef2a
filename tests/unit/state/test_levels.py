"""The merge policy by simulation: bounds that hold over thousands of epochs of any sizes.

The rows of a simulated piece are spread evenly over its keys, so that a store of a billion
rows costs nothing; what is checked is the planning, with the real transitions of a store.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.state.expiry import MAX_INLINE_AGE
from millrace.state.levels import (
    FLOOR_ROWS,
    merge_budget,
    plan_drops,
    plan_merges,
    size_class,
)
from millrace.state.merge import MergeProgress, MergeStep
from millrace.state.names import inline
from millrace.state.piece import KEYS, Piece, Position
from millrace.state.run_file import FENCE_ROWS
from millrace.state.store_state import StoreSpec, StoreState

SCHEMA = pa.schema([("_key", pa.uint64()), ("_time", pa.int64())])


class EvenFences:
    """Fences of pieces whose keys are evenly spread."""

    def within(self, piece: Piece, stop: int) -> list[tuple[Position, int]]:
        first = piece.first // FENCE_ROWS + 1
        rows = range(first * FENCE_ROWS, min(stop, piece.stop), FENCE_ROWS)
        return [((key_at(piece, row), 0), row) for row in rows]

    def locate(self, piece: Piece, cut: Position) -> tuple[int, Position]:
        span = piece.high[0] - piece.low[0]
        row = piece.first - (-(cut[0] - piece.low[0]) * piece.rows // span)
        return row, (key_at(piece, row), 0)


def key_at(piece: Piece, row: int) -> int:
    return piece.low[0] + (row - piece.first) * (piece.high[0] - piece.low[0]) // piece.rows


@dataclass
class Simulation:
    """A store that grows by one run an epoch, and is merged as planned."""

    retention: int | None = None
    by_time: bool = False
    state: StoreState = field(default_factory=lambda: StoreState(StoreSpec(SCHEMA)))
    epoch: int = 0
    added: int = 0
    written: int = 0

    def step(self, new_rows: int) -> None:
        drops = plan_drops({"store": self.state}, self.horizon)
        steps = self.plan(new_rows)
        merged_rows = sum(step.rows for step in steps)
        assert merged_rows <= merge_budget(new_rows, self.state.rows)

        before = self.state.rows
        self.state = self.state.without(drops.get("store", ()))
        dropped = before - self.state.rows
        for step in steps:
            self.state = self.state.merged(MergeProgress(step, self.output(step)))
        assert self.state.rows == before - dropped, "no row twice, none lost"
        if new_rows:
            self.state = self.state.with_run([self.fresh(new_rows)], self.epoch)
        self.check()
        self.epoch += 1
        self.added += new_rows
        self.written += merged_rows

    @property
    def horizon(self) -> dict[str, int]:
        return {} if self.retention is None else {"store": self.epoch - self.retention}

    def plan(self, new_rows: int = 0) -> tuple[MergeStep, ...]:
        budget = merge_budget(new_rows, self.state.rows)
        return plan_merges(
            {"store": self.state},
            EvenFences(),
            epoch=self.epoch,
            budget_rows=budget,
            horizon=self.horizon,
            by_time=("store",) if self.by_time else (),
        )

    def fresh(self, rows: int) -> Piece:
        file = f"commits/{self.epoch:012d}"
        return Piece(file, "new", 0, rows, (0, 0), (KEYS, 0), self.epoch, self.epoch, 50 * rows)

    def output(self, step: MergeStep) -> Piece:
        """Describe what a slice would write; expired rows are left in, which is harder."""
        pieces = [piece for each in step.inputs for piece in each.pieces]
        low, high = min(piece.low for piece in pieces), max(piece.high for piece in pieces)
        high = min(high, step.cut or high)
        earliest = max(min(piece.min_time for piece in pieces), step.horizon or 0)
        latest = max(earliest, *(piece.max_time for piece in pieces))
        file = f"runs/{self.epoch:012d}-0-1024-{0:016x}.run"
        return Piece(file, "m", 0, step.rows, low, high, earliest, latest, 50 * step.rows)

    def check(self) -> None:
        limit = math.log2(max(self.state.rows, 1)) + 16
        assert len(self.state.runs) <= limit, [run.rows for run in self.state.runs]
        for run in self.state.runs:
            assert all(left.high <= right.low for left, right in pairwise(run.pieces))


def forever(size: Callable[[int], int]) -> Iterator[int]:
    return map(size, itertools.count())


def sizes_of(kind: str) -> Iterator[int]:
    """Give the rows of one epoch after another."""
    rng = np.random.default_rng(7)
    return {
        "one row": forever(lambda _: 1),
        "a hundred": forever(lambda _: 100),
        "thousands": forever(lambda _: 5_000),
        "a million": forever(lambda _: 1_000_000),
        "any size": forever(lambda _: int(2 ** rng.uniform(0, 22))),
        "rarely huge": forever(lambda _: 10_000_000 if rng.random() < 0.01 else 10),
        "one huge": forever(lambda epoch: 50_000_000 if epoch == 5 else 3),
        "often none": forever(lambda _: int(rng.integers(0, 2) * rng.integers(0, 5_000))),
        "bursts": forever(lambda epoch: 200_000 if epoch // 50 % 2 else 20),
        "sawtooth": forever(lambda epoch: 4 ** (epoch % 12)),
        "reverse sawtooth": forever(lambda epoch: 4 ** (11 - epoch % 12)),
    }[kind]


MOST_WRITTEN = {
    "one row": 10.0,
    "a hundred": 8.0,
    "thousands": 6.0,
    "a million": 7.0,
    "any size": 6.0,
    "rarely huge": 3.0,
    "one huge": 3.0,
    "often none": 8.0,
    "bursts": 7.0,
    "sawtooth": 6.0,
    "reverse sawtooth": 8.0,
}


@pytest.mark.parametrize(("retention", "by_time"), [(None, False), (100, False), (100, True)])
@pytest.mark.parametrize("kind", MOST_WRITTEN)
def test_runs_stay_few_and_rewrites_rare(
    kind: str, retention: int | None, *, by_time: bool
) -> None:
    simulation = Simulation(retention, by_time)
    n_epochs = 300 if kind in ("a million", "sawtooth", "reverse sawtooth", "one huge") else 1_000

    for new_rows in itertools.islice(sizes_of(kind), n_epochs):
        simulation.step(new_rows)

    assert simulation.written <= MOST_WRITTEN[kind] * simulation.added


@settings(max_examples=10)
@given(st.lists(st.integers(0, 22), min_size=1, max_size=12), st.integers(1, 80))
def test_runs_stay_few_for_any_repeated_sizes(exponents: list[int], repeats: int) -> None:
    simulation = Simulation()

    for exponent in exponents:
        for _ in range(repeats):
            simulation.step(2**exponent)


def test_a_quiet_store_comes_to_rest() -> None:
    simulation = Simulation()
    for new_rows in itertools.islice(sizes_of("any size"), 100):
        simulation.step(new_rows)
    for _ in range(1_000):
        simulation.step(0)

    assert all(not run.inputs for run in simulation.state.runs)
    assert not simulation.plan()


def test_runs_leave_their_commit_files_within_64_epochs() -> None:
    simulation = Simulation()
    simulation.step(5)
    for _ in range(MAX_INLINE_AGE - 1):
        simulation.step(0)
    assert [inline(piece.file) for run in simulation.state.runs for piece in run.pieces] == [True]

    simulation.step(0)

    assert [inline(piece.file) for run in simulation.state.runs for piece in run.pieces] == [False]


def test_a_run_that_has_expired_is_dropped_unread() -> None:
    simulation = Simulation(retention=10)
    simulation.step(100_000)
    for _ in range(10):
        simulation.step(0)
    assert simulation.state.rows == 100_000

    simulation.step(0)

    assert simulation.state.runs == ()
    assert simulation.written == 0


def test_a_run_that_has_half_expired_is_rewritten() -> None:
    state = StoreState(StoreSpec(SCHEMA))
    piece = Piece("runs/a", "new", 0, 50_000, (0, 0), (KEYS, 0), 0, 99, 1)
    state = state.with_run([piece], epoch=0)

    def planned(horizon: int) -> int:
        limit, stores = {"s": horizon}, {"s": state}
        steps = plan_merges(stores, EvenFences(), epoch=1, budget_rows=FLOOR_ROWS, horizon=limit)
        return len(steps)

    assert [planned(50), planned(51)] == [0, 1]


def test_what_falls_away_in_turn_is_not_merged_where_it_is_read_by_time() -> None:
    by_time, by_key = Simulation(10, by_time=True), Simulation(10)

    for simulation in (by_time, by_key):
        for _ in range(100):
            simulation.step(60_000)

    assert by_time.written == 0 < by_key.written
    assert [run.epoch for run in by_time.state.runs] == list(range(89, 100))


def test_what_falls_due_together_is_merged_as_elsewhere() -> None:
    state = StoreState(StoreSpec(SCHEMA, fold=True))
    for epoch in range(4):
        piece = Piece(f"runs/{epoch}", "new", 0, 10_000, (0, 0), (KEYS, 0), 0, 99, 1)
        state = state.with_run([piece], epoch)
    stores = {"s": state}

    [step] = plan_merges(
        stores, EvenFences(), epoch=4, budget_rows=FLOOR_ROWS, horizon={}, by_time=stores
    )

    assert step.rows == 40_000


def test_a_queue_is_never_merged() -> None:
    state = StoreState(StoreSpec(SCHEMA, queue=True))
    for epoch in range(100):
        piece = Piece(f"commits/{epoch:012d}", "new", 0, 5, (0, 0), (KEYS, 0), 0, 0, 1)
        state = state.with_run([piece], epoch)

    steps = plan_merges(
        {"results": state}, EvenFences(), epoch=100, budget_rows=FLOOR_ROWS, horizon={}
    )

    assert steps == ()


def test_a_plan_is_the_same_each_time_and_survives_json() -> None:
    simulation = Simulation()
    for new_rows in itertools.islice(sizes_of("any size"), 60):
        simulation.step(new_rows)
        steps = simulation.plan()

        assert steps == simulation.plan()
        stored = json.loads(json.dumps([step.to_json() for step in steps]))
        assert tuple(map(MergeStep.from_json, stored)) == steps


def test_many_stores_share_one_budget() -> None:
    stores = {}
    for name in ("a", "b", "c"):
        state = StoreState(StoreSpec(SCHEMA))
        for epoch in range(8):
            rows = 10_000_000 if name == "b" else 900
            piece = Piece("runs/a", "new", 0, rows, (0, 0), (KEYS, 0), 0, 0, 1)
            state = state.with_run([piece], epoch)
        stores[name] = state

    steps = plan_merges(stores, EvenFences(), epoch=8, budget_rows=FLOOR_ROWS, horizon={})

    assert [step.store for step in steps] == ["a", "c", "b"], "small merges come first"
    assert FLOOR_ROWS / 2 < sum(step.rows for step in steps) <= FLOOR_ROWS


@given(st.integers(1, 10**10))
def test_classes_grow_by_a_factor_of_four(rows: int) -> None:
    expected = 0 if rows < 64 else 1 + int(math.log(rows // 64, 4) + 1e-9)

    assert size_class(rows) == expected


def test_a_plan_does_not_depend_on_what_was_planned_before() -> None:
    simulation = Simulation(retention=30)
    for new_rows in itertools.islice(sizes_of("often none"), 300):
        simulation.step(new_rows)
        fresh = replace(simulation.state)  # equal, but nobody has looked at it
        seen = simulation.plan(), plan_drops({"store": simulation.state}, simulation.horizon)
        simulation.state = fresh

        assert seen == (
            simulation.plan(),
            plan_drops({"store": fresh}, simulation.horizon),
        )
        simulation.plan()
