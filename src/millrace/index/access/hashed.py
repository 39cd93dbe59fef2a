"""HASH: the boxes of one key lie together, sorted so that those that match come first.

For conditions such as `symbol = ? AND price > ?`. The key finds a slot of an open-addressing
table, and the slot three runs of entries. Each run is sorted by one end of the interval on a
second column, the most selective of the rest, so that the entries which pass it are a prefix:

    symbol = 7       price > ?            price < ?            no end below
    bound            101  120  250        ~90   ~60            ~END
    price = 130      ###  ###  .          .     .              ###

A binary search finds where the prefix ends; nothing beyond it is looked at. Further columns are
checked entry by entry from `checks`, where the intervals of one entry are neighbours.

Invariant: entries of a key are `slot_runs[slot, 0] .. slot_runs[slot, 3]`; inside each of its
three runs `bound` does not fall.

Cost: 0.15 us a row at n = 1,000,000, 10,000 keys, 5 of a key's 100 boxes matching; 0.2 us to
count, which writes to a million counters. 3 ns for each candidate that is checked.
Memory: 20 bytes an entry, 16 more for each further column, 24 to 96 a key.
"""

from __future__ import annotations

import numpy as np

from millrace.index.access.access import (
    LAST_VALUE,
    NULL_CODE,
    Pairs,
    constrained_columns,
    cuts_of,
    held_shares,
    inhabited,
    joined,
    n_cuts,
    shared,
)
from millrace.index.access.statistics import Arrays, Mode, Statistics, Work
from millrace.kernels import box_hash
from millrace.kernels.arrays import Ints, Ints32

CUT_ROWS = 4096


def possible(low: Ints, high: Ints) -> bool:
    """Whether some column is one point in every box."""
    return bool(_key_columns(low, high).size)


def _key_columns(low: Ints, high: Ints) -> Ints:
    points = (low == high) & (low != NULL_CODE) | (low > high)
    return np.flatnonzero(points.all(axis=1) & (low.shape[1] > 0))


def build(low: Ints, high: Ints, *, column: int | None = None) -> Arrays:
    """Index by `column`, or by the key column with the most keys."""
    some = inhabited(low, high)
    if column is None:
        columns = _key_columns(low, high)
        column = int(max(columns, key=lambda each: np.unique(low[each, some]).size))
    second = _second_column(low[:, some], high[:, some], column)
    order, keys, runs, bound = _sorted_runs(low[:, some], high[:, some], column, second)
    ids = some[order]
    checked = _checked_columns(low[:, ids], high[:, ids], column, second)
    checks = np.empty((ids.size, 2 * checked.size), np.int64)
    checks[:, 0::2] = low[np.ix_(checked, ids)].T
    checks[:, 1::2] = high[np.ix_(checked, ids)].T
    slot_keys, slot_runs = _slots(keys, runs)
    statistics = Statistics(
        n=low.shape[1],
        n_columns=checked.size,
        n_cuts=keys.size,
        column=column,
        other_column=second,
        n_cut_rows=CUT_ROWS,
    )
    return {
        "statistics": statistics.stored(),
        "slot_keys": slot_keys,
        "slot_runs": slot_runs,
        "bound": bound,
        "ids": ids.astype(np.int32),
        "columns": checked,
        "checks": checks,
    }


def _second_column(low: Ints, high: Ints, column: int) -> int:
    """Return the most selective column but the key; the key itself if it stands alone."""
    if low.shape[0] == 1:
        return column
    shares = held_shares(low, high)
    shares[column] = 1001
    return int(np.argmin(shares))


def _sorted_runs(
    low: Ints, high: Ints, column: int, second: int
) -> tuple[Ints, Ints, Ints32, Ints]:
    """Return the order of entries, the keys, the four ends of each key's runs, the bounds."""
    lows, highs = low[second], high[second]
    run = np.where(lows > NULL_CODE + 1, 0, np.where(lows > NULL_CODE, 1, 2))
    bound = np.where(run == 0, lows, ~highs)
    order = np.lexsort((bound, run, low[column]))
    keys, firsts = np.unique(low[column, order], return_index=True)
    in_run = np.add.reduceat(run[order][:, None] == np.arange(3), firsts) if keys.size else 0
    runs = np.zeros((keys.size, 4), np.int32)
    runs[:, 0] = firsts
    runs[:, 1:] = firsts[:, None] + np.cumsum(in_run, axis=1) if keys.size else 0
    return order, keys, runs, bound[order]


def _checked_columns(low: Ints, high: Ints, column: int, second: int) -> Ints:
    """Return the columns that neither the key nor the runs decide."""
    needed = constrained_columns(low, high)
    needed[column] = False
    if second != column:
        needed[second] = ((low[second] > NULL_CODE + 1) & (high[second] < LAST_VALUE)).any()
    return np.flatnonzero(needed)


def _slots(keys: Ints, runs: Ints32) -> tuple[Ints, Ints32]:
    n_slots = 1 << max(2, int(2 * keys.size).bit_length())
    slot_keys = np.full(n_slots, NULL_CODE, np.int64)
    slot_runs = np.zeros((n_slots, 4), np.int32)
    box_hash.fill_slots(keys, runs, slot_keys, slot_runs)
    return slot_keys, slot_runs


def _located(arrays: Arrays, codes: Ints) -> tuple[Ints32, int]:
    statistics = Statistics.of(arrays)
    return box_hash.locate(
        codes[statistics.column],
        codes[statistics.other_column],
        *(shared(arrays[name]) for name in ("slot_keys", "slot_runs", "bound")),
    )


def pairs(arrays: Arrays, codes: Ints) -> Pairs:
    """Return the pairs, in the order of rows."""
    ids, columns, checks = (shared(arrays[name]) for name in ("ids", "columns", "checks"))
    pieces = []
    for first, piece in cuts_of(codes, CUT_ROWS):
        spans, n_candidates = _located(arrays, piece)
        n_start = n_candidates // 8 + 64 if columns.size else n_candidates
        pieces.append(box_hash.emit(piece, spans, n_start, ids, columns, checks, first))
    return joined(pieces)


def count(arrays: Arrays, codes: Ints, counts: Ints32) -> None:
    """Add up matches; whole spans at once where there is nothing to check and much to add."""
    ids, columns, checks = (shared(arrays[name]) for name in ("ids", "columns", "checks"))
    steps = None
    for first, piece in cuts_of(codes, CUT_ROWS):
        spans, n_candidates = _located(arrays, piece)
        n_expected = n_candidates * (codes.shape[1] - first) / piece.shape[1]
        if steps is None and columns.size == 0 and 2 * n_expected > ids.size:
            steps = np.zeros(ids.size + 1, np.int32)
        if steps is None:
            box_hash.count_each(piece, spans, ids, columns, checks, counts)
        else:
            box_hash.mark_steps(spans, steps)
    if steps is not None:
        box_hash.count_steps(steps, ids, counts)


def work(arrays: Arrays, sample: Ints, n_rows: int, mode: Mode) -> Work:
    """Return cuts, rows, candidates without checks, and candidates with them."""
    _, n_candidates = _located(arrays, shared(sample))
    scaled = n_candidates / max(1, sample.shape[1]) * n_rows
    rows = n_cuts(n_rows, CUT_ROWS), float(n_rows)
    if arrays["columns"].size:
        return *rows, 0.0, scaled
    if mode == "count":  # whole spans are added at once
        scaled = min(scaled, arrays["ids"].size / 2)
    return *rows, scaled, 0.0
