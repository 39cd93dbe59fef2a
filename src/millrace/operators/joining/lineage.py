"""Lineage: for which queries rows and combinations of rows live, as bits of a block of queries.

A row lives for the queries that see it and that it satisfies, as far as that can be said of the row
alone; a combination for those for which all its rows live, in whose windows they are together, and
that want its values. Whatever is asked, it is a number against a range of each query.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from millrace.kernels.arrays import Bits, Bools, Ints
from millrace.kernels.lineage import every_bit, narrow
from millrace.operators.evaluate import evaluate
from millrace.operators.joining import rules
from millrace.operators.joining.conditions import Conditions
from millrace.operators.joining.queries import Queries, Ranged
from millrace.operators.joining.stems import Functions, Rows
from millrace.operators.vectors import as_array
from millrace.sharing.codes import LOWEST


def narrowed(bits: Bits, numbers: Ints, low: Ints, high: Ints) -> None:
    """Clear the bits of queries in whose range the number of a row is not."""
    order = np.argsort(numbers, kind="stable")
    narrow(bits, order, numbers[order], low, high)


def leaf_codes(
    leaf: int, rows: Rows, conditions: Conditions, queries: Queries, functions: Functions
) -> dict[int, Ints]:
    """Return the codes of a leaf's rows for each range that is of this leaf alone."""
    found = {}
    for at in conditions.ranges_of(leaf):
        value = as_array(evaluate(conditions.ranges[at].value, rows.rows, functions), len(rows))
        found[at] = queries.ranges[at].coder(value)
    return found


def leaf_bits(rows: Rows, codes: dict[int, Ints], queries: Queries, entered: Ints) -> Bits:
    """Return for which queries of a block the rows of a leaf live."""
    bits = every_bit(len(queries), len(rows))
    for at, each in codes.items():
        narrowed(bits, each, queries.ranges[at].low, queries.ranges[at].high)
    low, high = rules.sees(entered)
    if len(rows) and int(low.max(initial=0)) > int(rows.epochs.min()):
        narrowed(bits, rows.epochs, low, high)
    return bits


def within(bits: Bits, ages: Ints, sizes: Ints) -> None:
    """Clear the bits of queries whose window has forgotten an element of that age."""
    if len(ages) and int(ages.max()) > int(sizes.min()):
        narrowed(bits, ages, np.full(len(sizes), LOWEST), sizes)


def of_size(bits: Bits, ages: Ints, sizes: Ints) -> None:
    """Clear the bits of queries whose window is not just as large as an element is old."""
    narrowed(bits, ages, sizes, sizes)


def anybodys(codes: Mapping[int, Ints], queries: Queries, n_rows: int) -> Bools:
    """Say which rows are in a range of some query, by each of their codes: others are nobody's."""
    found = np.ones(n_rows, np.bool_)
    for at, each in codes.items():
        found &= _covered(each, queries.ranges[at])
    return found


def _covered(codes: Ints, ranged: Ranged) -> Bools:
    """Say which codes are in some range: more ranges have begun there than have ended before."""
    lows, highs = ranged.ends
    order = np.argsort(codes)
    ascending = codes[order]  # what is looked for in order is found many times faster
    found = np.empty(len(codes), np.bool_)
    begun = np.searchsorted(lows, ascending, side="right")
    found[order] = begun > np.searchsorted(highs, ascending)
    return found
