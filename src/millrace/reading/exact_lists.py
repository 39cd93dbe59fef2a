"""Aggregates of lists: sums, averages and variances that are exact, whatever the order of values.

DuckDB adds doubles as they come, so that a sum depends on the order. It is therefore asked for the
list of the values of each group, and they are added up here as standing queries add them up
(`operators.relational.totals`); a percentile between two values is as theirs too.

Cost: as many bytes as the values of the groups have, at once for 2,048 groups.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.kernels.arrays import Floats, Ints
from millrace.operators.relational.equal import numbered
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.state import MemoryState
from millrace.operators.relational.timed import Timed
from millrace.operators.relational.totals import RareLimbs, Sums, Totals
from millrace.plan.aggregate_types import PAIRED
from millrace.plan.expressions import Column
from millrace.plan.relations import Aggregate

_VALUE, _OTHER = "value", "other"


def exact_aggregates(aggregate: Aggregate, lists: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Return an aggregate of each list, of type `arrow`; that of no list, or of none, is NULL."""
    values, numbers = pc.list_flatten(lists), pc.list_parent_indices(lists).to_numpy()
    plain = Aggregate("a", aggregate.kind, Column(_VALUE))
    columns = [values]
    if aggregate.kind in PAIRED:
        columns, plain = values.flatten(), replace(plain, by=Column(_OTHER))
    totals = Totals("", pa.schema([]), (plain,), (arrow,), (columns[0].type,))
    rows = pa.RecordBatch.from_arrays(columns, [_VALUE, _OTHER][: len(columns)])
    instants = np.zeros(len(values), np.int64)
    given = Timed(rows, instants, instants, np.ones(len(values), np.int64))
    changes, rare = totals.added_up(given, numbers.astype(np.int64), len(lists), _ONCE)
    return totals.answers(changes, _summed(rare, len(lists)))["a"]


_ONCE = Slab(0, 1, {}, {}, MemoryState())


def _summed(rare: list[RareLimbs], n_lists: int) -> Sums:
    """Add up the limbs of each list that have no column."""
    found: Sums = {}
    for each in rare:
        sums = found.setdefault(each.slot, {})
        for place in np.unique(each.places).tolist():
            mine = each.places == place
            total = np.zeros(n_lists, np.int64)
            np.add.at(total, each.of[mine], each.values[mine])
            sums[place] = total
    return found


def percentiles_between(fraction: float, lists: pa.Array) -> pa.Array:
    """Return the value at a fraction of the way through each list of doubles, which are in order.

    >>> percentiles_between(0.5, pa.array([[1.0, 2.0], [7.0], None])).to_pylist()
    [1.5, 7.0, None]
    """
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    values: Floats = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    begins = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    absent = lengths == 0
    share = Fraction(repr(float(fraction)))
    where = [share * (length - 1) for length in np.maximum(lengths, 1).tolist()]
    below: Ints = np.array([floor(each) for each in where], np.int64)
    between = np.array([float(each - floor(each)) for each in where])
    if not len(values):
        return pa.nulls(len(lists), pa.float64())
    first = np.minimum(begins + below, len(values) - 1)
    low = values[first]
    high = values[np.minimum(first + 1, len(values) - 1)]
    with np.errstate(invalid="ignore"):
        same = (between == 0) | (low == high) | (np.isnan(low) & np.isnan(high))
        mixed = np.where(same, low, low + (high - low) * between)
    return pa.array(mixed, mask=absent)


def most_frequent_places(lists: pa.Array) -> pa.Array:
    """Return the place, from 1 on, of the value that is most often in each list, which is in order.

    >>> most_frequent_places(pa.array([[3, 5, 5], [1, 2], None, [7]])).to_pylist()
    [2, 1, None, 1]
    """
    values, owners = pc.list_flatten(lists), pc.list_parent_indices(lists).to_numpy()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    places = np.zeros(len(lists), np.int64)
    if len(values):
        numbers, _ = numbered(pa.RecordBatch.from_arrays([pa.array(owners), values], ["of", "it"]))
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))  # equal values are neighbours
        counts, of = np.diff(starts, append=len(numbers)), owners[starts]
        order = np.lexsort((starts, -counts, of))
        firsts = order[np.flatnonzero(np.diff(of[order], prepend=-1))]
        places[of[firsts]] = starts[firsts] - begins[of[firsts]] + 1
    return pa.array(places, mask=lengths == 0)
