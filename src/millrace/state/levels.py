"""Which runs to merge next: few runs for readers, few rewrites for the disk.

Runs are classed by size: class 0 has fewer than 1,024 rows, each class after it four times
more. The list of runs, oldest first, should descend by class, with few runs in each:

    class   4      3 3 3      2      1 1      0 0 0 0 0        new runs come here -->

A merge takes neighbours only, so that equal rows keep the order in which they were committed.
It starts when the newest runs hold 8 of class 0 or 4 of another class, with everything newer
than those; when a larger run stands behind smaller ones; when most of a run has expired; when
a small run has kept its commit file alive for 64 epochs; and, whatever the classes, where it
is cheapest when a store has too many runs.

Bounds, asserted by simulation: at most log2(rows) + 16 runs in a store, unfinished merges
included; at most `budget_rows` merged in an epoch. Each row is rewritten about once for each
class: 7 times in a store of 10,000,000 rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.state.cuts import Fences, choose_cut, rows_before
from millrace.state.merge import MergeStep
from millrace.state.names import epoch_of, inline
from millrace.state.run_file import FENCE_ROWS
from millrace.state.store_state import Run, StoreState

SMALL_ROWS = 1_024
MAX_SMALL = 8
MAX_PER_CLASS = 4
MAX_INPUTS = 16
MAX_INLINE_AGE = 64
FLOOR_ROWS = 65_536
BUDGET_FACTOR = 2
SPARE_RUNS = 8


def size_class(rows: int) -> int:
    """Class a number of rows: 0 below 1,024, then one more for every factor of 4.

    >>> [size_class(rows) for rows in (1, 1_023, 1_024, 4_096, 10_000_000)]
    [0, 0, 1, 2, 7]
    """
    return (max(rows // SMALL_ROWS, 0).bit_length() + 1) // 2


def merge_budget(new_rows: int, total_rows: int) -> int:
    """Give the rows that an epoch with `new_rows` may merge: enough to keep up for ever.

    >>> merge_budget(100, 1_000_000), merge_budget(100_000, 10_000_000)
    (65536, 1600000)
    """
    return max(FLOOR_ROWS, BUDGET_FACTOR * new_rows * (size_class(total_rows) + 1))


def plan_drops(
    stores: Mapping[str, StoreState], horizon: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Name the runs that hold nothing but expired rows; merges in progress see to their own."""
    drops = {}
    for name, state in stores.items():
        expired = tuple(run.id for run in _free(state) if _expired(run, horizon.get(name)))
        if expired:
            drops[name] = expired
    return drops


def plan_merges(
    stores: Mapping[str, StoreState],
    fences: Fences,
    *,
    epoch: int,
    budget_rows: int,
    horizon: Mapping[str, int],
) -> tuple[MergeStep, ...]:
    """Choose the slices that the epoch `epoch` merges: small merges first, large ones after.

    Parameters
    ----------
    fences
        Answers where a piece can be cut; `StoredFences(root)` outside of tests.
    budget_rows
        The rows that all slices together may take; see `merge_budget`.
    horizon
        By store, the time before which rows have expired. Runs that `plan_drops` names for
        the same horizon are not merged.
    """
    wanted = [
        merge
        for name, state in stores.items()
        if not state.queue
        for merge in _wanted(name, state, epoch, horizon.get(name))
    ]
    steps = []
    for merge in sorted(wanted, key=lambda merge: (merge.rows, merge.store, merge.output)):
        # Less would not be a sound slice: see the bound in `cuts`.
        if budget_rows < min(merge.rows, FENCE_ROWS * len(merge.runs)):
            continue
        cut = choose_cut(merge.runs, budget_rows, fences)
        taken = tuple(rows_before(run, cut, fences) for run in merge.runs)
        expired = horizon.get(merge.store)
        step = MergeStep(merge.store, merge.output, merge.level, taken, cut, expired)
        budget_rows -= step.rows
        steps.append(step)
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge in progress, or one that should start, and its remaining inputs."""

    store: str
    output: int
    level: int
    runs: tuple[Run, ...]

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)


def _wanted(name: str, state: StoreState, epoch: int, horizon: int | None) -> list[_Merge]:
    """Give the merges of one store that are in progress or due."""
    by_id = {run.id: run for run in state.runs}
    merges = [
        _Merge(name, run.id, run.level, tuple(by_id[id_] for id_ in run.inputs))
        for run in state.runs
        if run.inputs
    ]
    output = state.next_id
    for window in _windows(state, epoch, horizon):
        oldest = max(run.level for run in window)
        level = oldest if len(window) == 1 else oldest + 1
        merges.append(_Merge(name, output, level, tuple(window)))
        output += 1
    return merges


def _windows(state: StoreState, epoch: int, horizon: int | None) -> list[Sequence[Run]]:
    """Give disjoint sequences of neighbours that should become one run each."""
    segments = _segments(state, horizon)
    windows = [window for segment in segments if (window := _crowded(segment))]
    if not windows and len(state.runs) > math.log2(max(state.rows, 1)) + SPARE_RUNS:
        windows = _cheapest(segments)
    taken = {run.id for window in windows for run in window}
    lone = [
        [run]
        for segment in segments
        for run in segment
        if run.id not in taken and (_half_expired(run, horizon) or _pinning(run, epoch))
    ]
    return windows + lone


def _segments(state: StoreState, horizon: int | None) -> list[list[Run]]:
    """Part the runs that no merge has claimed where one that is claimed stands between."""
    free = {run.id for run in _free(state)}
    segments: list[list[Run]] = [[]]
    for run in state.runs:
        if run.id not in free:
            segments.append([])
        elif not _expired(run, horizon):
            segments[-1].append(run)
    return [segment for segment in segments if segment]


def _free(state: StoreState) -> list[Run]:
    claimed = {id_ for run in state.runs for id_ in run.inputs}
    return [run for run in state.runs if not run.inputs and run.id not in claimed]


def _crowded(segment: Sequence[Run]) -> Sequence[Run]:
    """Give the newest runs of `segment` that break the rule of the classes, or none.

    What is to be merged so far counts as one run of its summed size, so that a merge which
    would set off the next one reaches back further at once.
    """
    classes = [size_class(run.rows) for run in segment]
    first = len(segment)
    for level in range(size_class(sum(run.rows for run in segment)) + 1):
        merged = [size_class(sum(run.rows for run in segment[first:]))] * (first < len(segment))
        first = min(first, _start(classes[:first] + merged, level))
    return segment[max(first, len(segment) - MAX_INPUTS) :]


def _start(classes: Sequence[int], level: int) -> int:
    """Find how far back a merge of class `level` has to reach; past the end if it need not."""
    stop = len(classes)
    first = stop
    while first > 0 and classes[first - 1] <= level:
        first -= 1
    if classes[first:].count(level) >= (MAX_PER_CLASS if level else MAX_SMALL):
        return first
    newest = max((at for at in range(first, stop) if classes[at] == level), default=first)
    return next((at for at in range(first, newest) if classes[at] < level), stop)


def _cheapest(segments: Sequence[Sequence[Run]]) -> list[Sequence[Run]]:
    """Give the neighbours whose merge costs least for each run that it saves."""
    windows = [
        segment[first : first + n_runs]
        for segment in segments
        for n_runs in range(2, min(len(segment), MAX_INPUTS) + 1)
        for first in range(len(segment) - n_runs + 1)
    ]
    if not windows:
        return []
    return [min(windows, key=lambda runs: sum(run.rows for run in runs) / (len(runs) - 1))]


def _expired(run: Run, horizon: int | None) -> bool:
    return horizon is not None and run.max_time < horizon


def _half_expired(run: Run, horizon: int | None) -> bool:
    """Tell whether most rows have expired, if the times of a piece are spread evenly."""
    if horizon is None:
        return False
    expired = sum(
        piece.rows * min(max(horizon - piece.min_time, 0), length) / length
        for piece in run.pieces
        for length in [piece.max_time - piece.min_time + 1]
    )
    return expired > run.rows / 2


def _pinning(run: Run, epoch: int) -> bool:
    """Tell whether a run lives in commit files that should have been deleted by now."""
    return any(
        inline(piece.file) and (epoch_of(piece.file) or 0) <= epoch - MAX_INLINE_AGE
        for piece in run.pieces
    )
