"""Where to cut the inputs of a merge so that a slice stays within its budget.

The fences of a run (the key and time of every 4,096th row) bound how many rows stand before
any cut. The cut is the greatest fence for which the sum of those bounds over all inputs fits;
its exact place in each input is then found in one block.

Invariant: a slice of k inputs takes at least one row, and with a budget of 4,096 k or more it
stays within it, unless more rows than that share one key and time: those are never parted.

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
from millrace.state.run_file import BLOCK_ROWS, FENCE_ROWS, opened
from millrace.state.store_state import Run


class Fences(Protocol):
    """What a planner may ask about the inside of a piece."""

    def within(self, piece: Piece, stop: int) -> Sequence[tuple[Position, int]]:
        """Give (key, time) and position of some rows between the first and `stop`, ascending.

        No more than `FENCE_ROWS` rows lie between two of them.
        """

    def locate(self, piece: Piece, cut: Position) -> tuple[int, Position]:
        """Give the position, key and time of the first row at or after `cut`."""


@dataclass(frozen=True, slots=True)
class StoredFences:
    """The fences in the files of a root."""

    root: Root

    def within(self, piece: Piece, stop: int) -> Sequence[tuple[Position, int]]:
        """Give (key, time) and position of every 4,096th row between the first and `stop`."""
        begin = piece.first // FENCE_ROWS + 1
        end = -(-min(stop, piece.stop) // FENCE_ROWS)
        if begin >= end:
            return []
        keys, times = opened(self.root, piece.file).run(piece.run).fences
        rows = range(begin * FENCE_ROWS, end * FENCE_ROWS, FENCE_ROWS)
        positions = zip(keys[begin:end].tolist(), times[begin:end].tolist(), strict=True)
        return list(zip(positions, rows, strict=True))

    def locate(self, piece: Piece, cut: Position) -> tuple[int, Position]:
        """Give the position, key and time of the first row at or after `cut`."""
        assert piece.low < cut < piece.high, "the cut is inside the piece"
        run = opened(self.root, piece.file).run(piece.run)
        bounds = run.blocks.bounds
        below = int(np.searchsorted(bounds, piece.first, side="right")) - 1
        if piece.stop > bounds[below + 1]:
            # The row is not before the last fence below the cut, and that is in one block.
            keys, times = run.fences
            fence = max(lower_bound(keys, times, cut) - 1, 0)
            below = max(below, fence * FENCE_ROWS // BLOCK_ROWS)
        keys, times = keys_and_times(run.block(below).rows)
        row = lower_bound(keys, times, cut)
        if row == keys.size:
            below, row = below + 1, 0
            keys, times = keys_and_times(run.block(below).rows)
        return int(bounds[below]) + row, (int(keys[row]), int(times[row]))


def choose_cut(runs: Sequence[Run], budget_rows: int, fences: Fences) -> Position | None:
    """Give the position before which the next slice takes its rows; None if it takes all."""
    if sum(run.rows for run in runs) <= budget_rows:
        return None
    ladders = [_ladder(run, budget_rows, fences) for run in runs]
    lowest = min(run.pieces[0].low for run in runs)
    found = {each for ladder in ladders for each in ladder.positions if each > lowest}
    candidates = sorted(found)

    def cost(cut: Position) -> float:
        return sum(ladder.rows_before(cut) for ladder in ladders)

    fitting = bisect_left(candidates, True, key=lambda cut: cost(cut) > budget_rows)
    if fitting == 0:  # too many rows share one key and time; they are taken together
        return lowest[0], lowest[1] + 1
    return candidates[fitting - 1]


def rows_before(run: Run, cut: Position | None, fences: Fences) -> MergeInput:
    """Take the pieces of `run` before `cut`, dividing the one that it falls into."""
    if cut is None:
        return MergeInput(run.id, run.pieces)
    whole = [piece for piece in run.pieces if piece.high <= cut]
    following = run.pieces[len(whole) :]
    if not following or cut <= following[0].low:
        return MergeInput(run.id, tuple(whole))
    divided = following[0]
    at, low = fences.locate(divided, cut)
    if at >= divided.stop:  # its bounds reach further than its rows
        return MergeInput(run.id, (*whole, divided))
    taken, rest = divided.split(at, low)
    return MergeInput(run.id, (*whole, taken), rest)


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


def _ladder(run: Run, budget_rows: int, fences: Fences) -> _Ladder:
    """Give the fences of `run` up to the first one that is beyond the budget."""
    positions: list[Position] = []
    rows: list[int] = []
    before = 0
    for piece in run.pieces:
        stop = piece.first + budget_rows - before + 2 * FENCE_ROWS
        for position, row in ((piece.low, piece.first), *fences.within(piece, stop)):
            positions.append(position)
            rows.append(before + row - piece.first)
        if stop < piece.stop:
            return _Ladder(positions, rows, complete=False)
        before += piece.rows
        positions.append(piece.high)
        rows.append(before)
    return _Ladder(positions, rows, complete=True)
