"""BLOCK: 64 boxes at a time against all rows of a sorted cut of the batch.

The default for ranges over many distinct values. For each word of 64 boxes and each column there
is a list of cuts, at most 128, with the boxes that hold a code between two of them. The cuts are
searched in the sorted rows, not the rows in the cuts, so a list costs 128 searches and one AND a
row, for 64 boxes at once:

    sorted rows         3   8  11  12  19  25  31          box 0 is [10, 19], box 1 [12, ..]
    cuts                      |10  |12     |20
    bits               00  00  01  11  11  10  10

Boxes are sorted by their interval on the most selective column, so the boxes of a word are close
together there, and the rows outside their hull are not looked at.

Invariant: box `ids[64 w + b]` is bit b of word w; its interval on the first of `columns` lies in
`hull_low[w] .. hull_high[w]`; the list of column c and word w begins at `list_first[c, w]`.

Cost: 1 to 3 ns for each row in a word's hull and column, 25 ns for each cut. Two ranges of at
most 1%: 2 us a row at n = 100,000 and 15 to 20 us at a million.
Memory: 32 bytes a box and column at most.
"""

from __future__ import annotations

import numpy as np

from millrace.index.access.access import (
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
from millrace.kernels import box_block
from millrace.kernels.arrays import Ints, Ints32
from millrace.kernels.box_block import CutLists, SortedCut

CUT_ROWS = 2048
_SAMPLED_WORDS = 2048


def possible(low: Ints, high: Ints) -> bool:
    """Any boxes will do, if there is a column to sort by."""
    return low.shape == high.shape and low.shape[0] > 0


def build(low: Ints, high: Ints) -> Arrays:
    """Sort the boxes by the most selective column and cut them into words."""
    some = inhabited(low, high)
    columns = _columns(low[:, some], high[:, some])
    leading = columns[0]
    ids = some[np.lexsort((high[leading, some], low[leading, some]))]
    lows, highs = low[np.ix_(columns, ids)], high[np.ix_(columns, ids)]
    list_first, cut_codes, cut_bits = box_block.cut_lists(lows, highs)
    firsts = np.arange(0, ids.size, 64)
    statistics = Statistics(
        n=low.shape[1],
        n_words=firsts.size,
        n_columns=columns.size,
        n_cuts=cut_codes.size,
        column=int(leading),
        n_cut_rows=CUT_ROWS,
    )
    return {
        "statistics": statistics.stored(),
        "columns": columns,
        "ids": ids.astype(np.int32),
        "hull_low": lows[0, firsts],
        "hull_high": np.maximum.reduceat(highs[0], firsts) if ids.size else highs[0],
        "list_first": list_first,
        "cut_codes": cut_codes,
        "cut_bits": cut_bits,
    }


def _columns(low: Ints, high: Ints) -> Ints:
    """Return the constrained columns, the most selective first; one column at least."""
    if low.shape[1] == 0:
        return np.zeros(1, np.int64)
    by_share = np.argsort(held_shares(low, high), kind="stable")
    asked = by_share[constrained_columns(low, high)[by_share]]
    return asked if asked.size else by_share[:1]


def _sorted_cut(arrays: Arrays, codes: Ints) -> SortedCut:
    """Sort the rows by the first column, and then by each."""
    columns = arrays["columns"]
    rows_of = np.argsort(codes[columns[0]], kind="stable")
    lines = codes[columns][:, rows_of]
    orders = np.argsort(lines, axis=1)
    values = np.take_along_axis(lines, orders, axis=1)
    spans = box_block.hulls(values[0], shared(arrays["hull_low"]), shared(arrays["hull_high"]))
    return SortedCut(lines, values, orders.astype(np.int32), rows_of.astype(np.int32), spans)


def _lists(arrays: Arrays) -> CutLists:
    return CutLists(*(shared(arrays[name]) for name in CutLists._fields))


def pairs(arrays: Arrays, codes: Ints) -> Pairs:
    """Return the pairs, cut by cut in the order of words."""
    lists = _lists(arrays)
    return joined(
        [
            box_block.emit_words(_sorted_cut(arrays, piece), lists, first)
            for first, piece in cuts_of(codes, CUT_ROWS)
        ]
    )


def count(arrays: Arrays, codes: Ints, counts: Ints32) -> None:
    """Add up the rows of each box, 64 rows at a time."""
    lists = _lists(arrays)
    for _, piece in cuts_of(codes, CUT_ROWS):
        box_block.count_words(_sorted_cut(arrays, piece), lists, counts)


def work(arrays: Arrays, sample: Ints, n_rows: int, mode: Mode) -> Work:
    """Return cuts, rows to sort, cuts to search, rows in hulls, and these times columns."""
    del mode
    statistics = Statistics.of(arrays)
    values = np.sort(sample[statistics.column])
    step = 1 + statistics.n_words // _SAMPLED_WORDS
    hull = (shared(arrays[name][::step]) for name in ("hull_low", "hull_high"))
    spans = box_block.hulls(values, *hull)
    n_inside = float((spans[:, 1] - spans[:, 0]).sum()) * step / max(1, values.size)
    batches = n_cuts(n_rows, CUT_ROWS)
    n_searches = batches * statistics.n_cuts * np.log2(min(n_rows, CUT_ROWS) + 2)
    return (
        batches,
        float(n_rows * statistics.n_columns),
        float(n_searches),
        n_inside * n_rows,
        n_inside * n_rows * (statistics.n_columns - 1),
    )
