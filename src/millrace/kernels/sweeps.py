"""Kernels that answer many windows of many filters over the rows of groups, newest rows first.

Windows that end together and take rows by the same filter differ in where they begin. So one walk
over a group's rows, from the newest to the oldest, answers all of them, the shortest first:

    rows of a group, newest first      x  x  x  x  x  x  x
    windows of one filter and end      |--|     |        |        answered on the way
                                       |--------|        |
                                       |-----------------|

Cost: 2 to 5 ns for each row, and for each pair of filter and end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bools, Floats, Ints
from millrace.kernels.multisets import add_to_tree, standing_at


class Layout(NamedTuple):
    """Rows of groups: where those of each begin, the newest first; their times, and their places.

    A row has a place in every column that is filtered.
    """

    begins: Ints
    times: Ints
    places: Ints


class Wanted(NamedTuple):
    """Questions: which are asked of each group, [first, last); and what each of them takes.

    That is the time and the places, ends not included; and whether it is the first of those with
    its end and filter, which are ordered from the newest begin on.
    """

    first: Ints
    last: Ints
    begins: Ints
    ends: Ints
    lows: Ints
    highs: Ints
    fresh: Bools


@njit(cache=True, nogil=True, inline="always")
def _takes(rows, row, wanted, question):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Say whether a row, which is not too old, is one that a question takes."""
    if rows.times[row] >= wanted.ends[question]:
        return False
    for column in range(rows.places.shape[1]):
        place = rows.places[row, column]
        if place < wanted.lows[question, column] or place >= wanted.highs[question, column]:
            return False
    return True


@njit(cache=True, nogil=True)
def swept_sums(rows: Layout, counts: Ints, wanted: Wanted) -> Ints:
    """Add up the counts of rows for each group and each of its questions, one after the other."""
    width = counts.shape[1]
    found = np.zeros(((wanted.last - wanted.first).sum(), width), np.int64)
    total = np.zeros(width, np.int64)
    at = 0
    for group in range(len(wanted.first)):
        row, stop = rows.begins[group], rows.begins[group + 1]
        for question in range(wanted.first[group], wanted.last[group]):
            if wanted.fresh[question] or question == wanted.first[group]:
                row = rows.begins[group]
                total[:] = 0
            while row < stop and rows.times[row] >= wanted.begins[question]:
                if _takes(rows, row, wanted, question):
                    for column in range(width):
                        total[column] += counts[row, column]
                row += 1
            found[at] = total
            at += 1
    return found


@njit(cache=True, nogil=True)
def swept_places(
    rows: Layout, ranks: Ints, counts: Ints, wanted: Wanted, share: tuple[tuple[int, int], int]
) -> tuple[Ints, Ints, Floats]:
    """Return which values stand at a share of what each question takes, as `kth_values` does.

    The values of a group are in order; `ranks` says which of them each row is, counted from the
    group's first row on.
    """
    n_answers = (wanted.last - wanted.first).sum()
    lower = np.full(n_answers, -1, np.int64)
    upper = np.full(n_answers, -1, np.int64)
    between = np.zeros(n_answers, np.float64)
    at = 0
    for group in range(len(wanted.first)):
        first, stop = rows.begins[group], rows.begins[group + 1]
        tree, row, total = np.zeros(stop - first + 1, np.int64), first, 0
        for question in range(wanted.first[group], wanted.last[group]):
            if wanted.fresh[question] or question == wanted.first[group]:
                tree[:] = 0
                row, total = first, 0
            while row < stop and rows.times[row] >= wanted.begins[question]:
                if _takes(rows, row, wanted, question):
                    add_to_tree(tree, ranks[row], counts[row])
                    total += counts[row]
                row += 1
            if total > 0:
                one, other, between[at] = standing_at(tree, total, share[0], share[1])
                lower[at] = first + one
                upper[at] = first + other if other >= 0 else -1
            at += 1
    return lower, upper, between
