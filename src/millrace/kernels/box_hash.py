"""Kernels of the hashed access method: a key's boxes are three sorted runs.

Each row goes through three loops over a cut of the batch (slot, searches, output) instead of
one. The iterations of a loop do not depend on each other, so the cache misses of many rows are
under way at the same time; that halves the time of a row at a million boxes.

A run is sorted by `bound` so that the boxes which pass the sorted column are a prefix of it. In
the first run `bound` is the interval's low end. In the other two it is the complement of its
high end: `~high` rises as `high` falls, and never overflows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Ints, Ints32
from millrace.kernels.box_bits import grown

NULL_CODE = np.iinfo(np.int64).min
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
N_RUNS = 3


@njit(cache=True, nogil=True)
def fill_slots(keys: Ints, runs: Ints32, slot_keys: Ints, slot_runs: Ints32) -> None:
    """Enter each key and the ends of its runs; `slot_keys` is full of NULL_CODE before."""
    shift = _shift(slot_keys.size)
    for key in range(keys.size):
        slot = _home(keys[key], shift)
        while slot_keys[slot] != NULL_CODE:
            slot = (slot + 1) & (slot_keys.size - 1)
        slot_keys[slot] = keys[key]
        slot_runs[slot] = runs[key]


@njit(cache=True, nogil=True)
def locate(
    keys: Ints, values: Ints, slot_keys: Ints, slot_runs: Ints32, bound: Ints
) -> tuple[Ints32, int]:
    """Return for each row the span of candidates in each run of its key, and their total."""
    shift = _shift(slot_keys.size)
    spans = np.zeros((keys.size, 2 * N_RUNS), np.int32)
    for row in range(keys.size):
        key = keys[row]
        slot = _home(key, shift)
        while slot_keys[slot] != key and slot_keys[slot] != NULL_CODE:
            slot = (slot + 1) & (slot_keys.size - 1)
        if slot_keys[slot] == key and key != NULL_CODE:
            spans[row, 0] = slot_runs[slot, 0]
            spans[row, 1] = spans[row, 2] = slot_runs[slot, 1]
            spans[row, 3] = spans[row, 4] = slot_runs[slot, 2]
            spans[row, 5] = slot_runs[slot, 3]
    n_candidates = 0
    for row in range(keys.size):
        value = values[row]
        if spans[row, 0] == spans[row, 5]:
            continue
        if value == NULL_CODE:  # only the last run, unbounded below, takes NULL
            spans[row, 1] = spans[row, 0]
            spans[row, 3] = spans[row, 2]
        else:
            spans[row, 1] = _stop(bound, spans[row, 0], spans[row, 1], value)
            spans[row, 3] = _stop(bound, spans[row, 2], spans[row, 3], ~value)
            spans[row, 5] = _stop(bound, spans[row, 4], spans[row, 5], ~value)
        for run in range(0, 2 * N_RUNS, 2):
            n_candidates += spans[row, run + 1] - spans[row, run]
    return spans, n_candidates


@njit(cache=True, nogil=True)
def _shift(n_slots: int) -> int:
    bits = 0
    while (1 << bits) < n_slots:
        bits += 1
    return 64 - bits


@njit(cache=True, nogil=True, inline="always")
def _home(key, shift):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(shift))


@njit(cache=True, nogil=True, inline="always")
def _stop(bound, first, stop, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the first position of a run whose bound is above the value."""
    size = np.int64(stop - first)
    at = np.int64(first)
    while size > 0:
        half = size >> 1
        above = bound[at + half] > value
        at = at if above else at + half + 1
        size = half if above else size - half - 1
    return at


@njit(cache=True, nogil=True, inline="always")
def _passes(codes, row, columns, checks, entry):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether the row lies in the entry's intervals on the columns that are left to check."""
    for check in range(columns.size):
        code = codes[columns[check], row]
        if code < checks[entry, 2 * check] or code > checks[entry, 2 * check + 1]:
            return False
    return True


@njit(cache=True, nogil=True)
def emit(
    codes: Ints, spans: Ints32, n_start: int, ids: Ints32, columns: Ints, checks: Ints, base: int
) -> tuple[Ints32, Ints32]:
    """Return the pairs among the candidates; rows count from `base`, buffers from `n_start`."""
    rows = np.empty(n_start, np.int32)
    boxes = np.empty(n_start, np.int32)
    used = 0
    for row in range(spans.shape[0]):
        for run in range(0, 2 * N_RUNS, 2):
            first, stop = spans[row, run], spans[row, run + 1]
            if used + stop - first > rows.size:
                n_needed = used + stop - first
                rows = grown(rows, used, n_needed)
                boxes = grown(boxes, used, n_needed)
            if columns.size == 0:
                for entry in range(first, stop):
                    rows[used] = base + row
                    boxes[used] = ids[entry]
                    used += 1
            else:
                for entry in range(first, stop):
                    if _passes(codes, row, columns, checks, entry):
                        rows[used] = base + row
                        boxes[used] = ids[entry]
                        used += 1
    return rows[:used], boxes[:used]


@njit(cache=True, nogil=True)
def count_each(
    codes: Ints, spans: Ints32, ids: Ints32, columns: Ints, checks: Ints, counts: Ints32
) -> None:
    """Add one to the count of each matching candidate."""
    for row in range(spans.shape[0]):
        for run in range(0, 2 * N_RUNS, 2):
            for entry in range(spans[row, run], spans[row, run + 1]):
                if _passes(codes, row, columns, checks, entry):
                    counts[ids[entry]] += 1


@njit(cache=True, nogil=True)
def mark_steps(spans: Ints32, steps: Ints32) -> None:
    """Note where each span begins and ends: with nothing to check, all its entries match."""
    for row in range(spans.shape[0]):
        for run in range(0, 2 * N_RUNS, 2):
            steps[spans[row, run]] += 1
            steps[spans[row, run + 1]] -= 1


@njit(cache=True, nogil=True)
def count_steps(steps: Ints32, ids: Ints32, counts: Ints32) -> None:
    """Add to each entry's count the steps up to it."""
    level = 0
    for entry in range(ids.size):
        level += steps[entry]
        counts[ids[entry]] += level
