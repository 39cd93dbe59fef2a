"""Where to cut the inputs of a merge so that a slice stays within its budget.

The fences of a run (the key and time of every 4,096th row) bound how many rows stand before
any cut. The cut is the greatest fence for which the sum of those bounds over all inputs fits;
its exact place in each input is then found in one block.

Invariant: a slice of k inputs takes at least one row, and at most max(budget, 4,096 k) rows
plus those that equal the cut's predecessor: rows of one key and time are never parted.

Cost: a binary search over the fences within the budget, and one block of each input.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from millrace.state.merge import MergeInput
from millrace.state.order import keys_and_times, lower_bound
from millrace.state.piece import Piece, Position
from millrace.state.root import Root
from millrace.state.run_file import FENCE_ROWS, opened
from millrace.state.store_state import Run


class Fences(Protocol):
    """What a planner may ask about the inside of a piece."""

    def within(self, piece: Piece) -> Sequence[tuple[Position, int]]:
        """Give (key, time) and row position of some rows behind the first, ascending."""

    def locate(self, piece: Piece, cut: Position) -> tuple[int, Position]:
        """Give the position, key and time of the first row at or after `cut`."""


@dataclass(frozen=True, slots=True)
class StoredFences:
    """The fences in the files of a root."""

    root: Root

    def within(self, piece: Piece) -> Sequence[tuple[Position, int]]:
        """Give (key, time) and row position of every 4,096th row behind the first."""
        if piece.rows <= FENCE_ROWS:
            return []
        keys, times = opened(self.root, piece.file).run(piece.run).fences
        first = piece.first // FENCE_ROWS + 1
        stop = -(-piece.stop // FENCE_ROWS)
        rows = range(first * FENCE_ROWS, stop * FENCE_ROWS, FENCE_ROWS)
        positions = zip(keys[first:stop].tolist(), times[first:stop].tolist(), strict=True)
        return list(zip(positions, rows, strict=True))

    def locate(self, piece: Piece, cut: Position) -> tuple[int, Position]:
        """Give the position, key and time of the first row at or after `cut`."""
        assert piece.low < cut < piece.high, "the cut is inside the piece"
        run = opened(self.root, piece.file).run(piece.run)
        fences = self.within(piece)
        fence = bisect_left(fences, cut, key=lambda each: each[0])
        # The row is behind the last fence below the cut, and not behind the next one.
        start = fences[fence - 1][1] if fence else piece.first
        bounds = run.blocks.bounds
        ordinal = int(np.searchsorted(bounds, start, side="right")) - 1
        keys, times = keys_and_times(run.block(ordinal))
        row = lower_bound(keys, times, cut)
        if row == keys.size:
            return fences[fence][1], fences[fence][0]
        return int(bounds[ordinal]) + row, (int(keys[row]), int(times[row]))


def slice_of(runs: Sequence[Run], budget_rows: int, fences: Fences) -> tuple[MergeInput, ...]:
    """Choose the next rows to merge: from each run those before one common cut."""
    if sum(run.rows for run in runs) <= budget_rows:
        return tuple(MergeInput(run.id, run.pieces) for run in runs)
    cut = _cut(runs, budget_rows, fences)
    return tuple(_before(run, cut, fences) for run in runs)


@dataclass(frozen=True, slots=True)
class _Ladder:
    """Fences of one run: fewer than `rows[i]` + 1 rows stand before `positions[i]`."""

    positions: list[Position]
    rows: list[int]
    complete: bool

    def rows_before(self, cut: Position) -> float:
        """Bound the rows before `cut` from above."""
        step = bisect_left(self.positions, cut)
        if step < len(self.rows):
            return self.rows[step]
        return self.rows[-1] if self.complete else np.inf


def _cut(runs: Sequence[Run], budget_rows: int, fences: Fences) -> Position:
    """Give the greatest fence with at most `budget_rows` before it, or the least of all."""
    ladders = [_ladder(run, budget_rows, fences) for run in runs]
    lowest = min(run.pieces[0].low for run in runs)
    found = {each for ladder in ladders for each in ladder.positions if each > lowest}
    candidates = sorted(found)

    def cost(cut: Position) -> float:
        return sum(ladder.rows_before(cut) for ladder in ladders)

    fitting = bisect_left(candidates, True, key=lambda cut: cost(cut) > budget_rows)
    return candidates[max(fitting - 1, 0)]


def _ladder(run: Run, budget_rows: int, fences: Fences) -> _Ladder:
    positions: list[Position] = []
    rows: list[int] = []
    before = 0
    for piece in run.pieces:
        if before > budget_rows:
            return _Ladder(positions, rows, complete=False)
        for position, row in ((piece.low, piece.first), *fences.within(piece)):
            positions.append(position)
            rows.append(before + row - piece.first)
        before += piece.rows
        positions.append(piece.high)
        rows.append(before)
    return _Ladder(positions, rows, complete=True)


def _before(run: Run, cut: Position, fences: Fences) -> MergeInput:
    """Take the pieces of `run` before `cut`, dividing the one that it falls into."""
    whole = [piece for piece in run.pieces if piece.high <= cut]
    following = run.pieces[len(whole) :]
    if not following or cut <= following[0].low:
        return MergeInput(run.id, tuple(whole))
    divided = following[0]
    at, low = fences.locate(divided, cut)
    if at >= divided.stop:  # the rows between the last one and `high` are none
        return MergeInput(run.id, (*whole, divided))
    taken, rest = divided.split(at, low)
    return MergeInput(run.id, (*whole, taken), rest)
