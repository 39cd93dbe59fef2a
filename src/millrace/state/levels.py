"""Which runs to merge next: few runs for readers, few rewrites for the disk.

Runs are classed by size: class 0 has fewer than 64 rows, each class after it four times more.
The list of runs, oldest first, should descend by class, with few runs in each:

    class   4      3 3 3      2      1 1      0 0 0 0 0        new runs come here -->

A merge takes neighbours only, so that equal rows keep the order in which they were committed.
It starts when the newest runs hold 8 of class 0 or 4 of another class, with everything newer
than those; when a larger run stands behind smaller ones; when most of a run has expired; when
a small run has kept its commit file alive for 64 epochs; and, whatever the classes, where it
is cheapest when a store has too many runs.

Of what is read by time, runs of which each ends later than the one before fall away whole, one
after the other, as those do that windows write which slide. Up to 16 of them are left alone: a
reader passes over those that have nothing for it, and merging would only write rows again.

Bounds, asserted by simulation: at most log2(rows) + 16 runs in a store, unfinished merges
included; at most `budget_rows` merged in an epoch. A row is rewritten at most about once for
each class: 3 to 4 times in a thousand epochs of one size, 5 to 9 where rows expire meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

from millrace.state.cuts import Fences, choose_cut, rows_before
from millrace.state.expiry import Outlook, expired, half_expired, overdue
from millrace.state.merge import MergeStep
from millrace.state.run_file import FENCE_ROWS
from millrace.state.store_state import Run, StoreState

SMALL_ROWS = 64
MAX_SMALL = 8
MAX_PER_CLASS = 4
MAX_INPUTS = 16
FLOOR_ROWS = 65_536
BUDGET_FACTOR = 2
SPARE_RUNS = 8
MAX_FALLING = 16

_outlooks: WeakKeyDictionary[StoreState, Outlook] = WeakKeyDictionary()


def size_class(rows: int) -> int:
    """Class a number of rows: 0 below 64, then one more for every factor of 4.

    >>> [size_class(rows) for rows in (1, 63, 64, 256, 10_000_000)]
    [0, 0, 1, 2, 9]
    """
    return (max(rows // SMALL_ROWS, 0).bit_length() + 1) // 2


def merge_budget(new_rows: int, total_rows: int) -> int:
    """Give the rows that an epoch with `new_rows` may merge: enough to keep up for ever.

    >>> merge_budget(100, 1_000_000), merge_budget(100_000, 10_000_000)
    (65536, 2000000)
    """
    return max(FLOOR_ROWS, BUDGET_FACTOR * new_rows * (size_class(total_rows) + 1))


def plan_drops(
    stores: Mapping[str, StoreState], horizon: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Name the runs that hold nothing but expired rows; merges in progress see to their own."""
    drops = {}
    for name, state in stores.items():
        if _calm(state, epoch=-1, horizon=horizon.get(name)):
            continue
        gone = tuple(run.id for run in _free(state) if expired(run, horizon.get(name)))
        if gone:
            drops[name] = gone
    return drops


def plan_merges(
    stores: Mapping[str, StoreState],
    fences: Fences,
    *,
    epoch: int,
    budget_rows: int,
    horizon: Mapping[str, int],
    by_time: Collection[str] = (),
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
    by_time
        The stores that are read by time alone.
    """
    wanted = [
        merge
        for name, state in stores.items()
        if not state.queue and not _calm(state, epoch=epoch, horizon=horizon.get(name))
        for merge in _wanted(name, state, epoch, horizon.get(name), by_time=name in by_time)
    ]
    steps = []
    for merge in sorted(wanted, key=lambda merge: (merge.rows, merge.store, merge.output)):
        # Less would not be a sound slice: see the bound in `cuts`.
        if budget_rows < min(merge.rows, FENCE_ROWS * len(merge.runs)):
            continue
        cut = choose_cut(merge.runs, budget_rows, fences)
        taken = tuple(rows_before(run, cut, fences) for run in merge.runs)
        oldest = horizon.get(merge.store)
        fold = stores[merge.store].spec.fold
        step = MergeStep(merge.store, merge.output, merge.level, taken, cut, oldest, fold)
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


def _wanted(
    name: str, state: StoreState, epoch: int, horizon: int | None, *, by_time: bool
) -> list[_Merge]:
    """Give the merges of one store that are in progress or due."""
    by_id = {run.id: run for run in state.runs}
    merges = [
        _Merge(name, run.id, run.level, tuple(by_id[id_] for id_ in run.inputs))
        for run in state.runs
        if run.inputs
    ]
    output = state.next_id
    for window in _windows(state, epoch, horizon, falling=by_time and _falling(state)):
        oldest = max(run.level for run in window)
        level = oldest if len(window) == 1 else oldest + 1
        merges.append(_Merge(name, output, level, tuple(window)))
        output += 1
    if not merges:
        _outlooks[state] = Outlook.of(state)
    return merges


def _calm(state: StoreState, *, epoch: int, horizon: int | None) -> bool:
    """Tell whether a store that had nothing to do has nothing to do still."""
    outlook = _outlooks.get(state)
    return outlook is not None and outlook.covers(epoch, horizon)


def _windows(
    state: StoreState, epoch: int, horizon: int | None, *, falling: bool
) -> list[Sequence[Run]]:
    """Give disjoint sequences of neighbours that should become one run each."""
    if falling:
        return [[run] for run in state.runs if overdue(run, epoch)]
    segments = _segments(state, horizon)
    windows = [window for segment in segments if (window := _crowded(segment))]
    if not windows and len(state.runs) > math.log2(max(state.rows, 1)) + SPARE_RUNS:
        windows = _cheapest(segments)
    taken = {run.id for window in windows for run in window}
    lone = [
        [run]
        for segment in segments
        for run in segment
        if run.id not in taken and (half_expired(run, horizon) or overdue(run, epoch))
    ]
    return windows + lone


def _falling(state: StoreState) -> bool:
    """Tell whether there are few runs, none of them being merged, which fall away in turn."""
    return (
        len(state.runs) <= MAX_FALLING
        and not any(run.inputs for run in state.runs)
        and all(older.max_time < newer.max_time for older, newer in pairwise(state.runs))
    )


def _segments(state: StoreState, horizon: int | None) -> list[list[Run]]:
    """Part the runs that no merge has claimed where one that is claimed stands between."""
    free = {run.id for run in _free(state)}
    segments: list[list[Run]] = [[]]
    for run in state.runs:
        if run.id not in free:
            segments.append([])
        elif not expired(run, horizon):
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
