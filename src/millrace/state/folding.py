"""Folding: a merge may add up rows that differ in their counts alone.

Columns whose names begin with a plus sign are counts. Rows that are equal in all other columns
become one with the sums of the counts, and none if those are all zero. A column `_start` says from
when on a row counts; once that has passed, it does not matter by how much.

What a reader finds by adding up is the same before and after, for everything from the horizon on.

Many counts are zero in all rows: the digits of a sum that no number has. Such a column is not
stored (`slim`), and is zero to whoever misses it (`widened`).

Cost: rows are numbered by a code made of their numbers, which equal rows have in common. Where rows
of one code turn out to differ, those are compared in full.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millrace.kernels.grouping import add_by_number, number_hashes
from millrace.state.order import sort_rows

COUNT, START = "+", "_start"
_ODD = np.uint64(0x9E3779B97F4A7C15)
_PLACES = npt.NDArray[np.int64]


def folded(rows: pa.Table, horizon: int | None) -> pa.Table:
    """Add up equal rows of a table, and order what is left."""
    counts = [name for name in rows.column_names if name.startswith(COUNT)]
    if not counts or not rows.num_rows:
        return rows
    if horizon is not None and START in rows.column_names:
        clipped = np.maximum(rows.column(START).to_numpy(), horizon)
        at = rows.column_names.index(START)
        rows = rows.set_column(at, START, pa.array(clipped))
    others = rows.drop_columns(counts).combine_chunks()
    numbers, firsts = number_hashes(_codes(others))
    odd = _differing(others, firsts[numbers])
    if odd.any():  # of one code, and yet not equal
        odd = np.isin(numbers, numbers[odd])
        plain = folded(rows.filter(pa.array(~odd)), horizon)
        return sort_rows(pa.concat_tables([plain, _added_up(rows.filter(pa.array(odd)), counts)]))
    if len(firsts) == rows.num_rows:
        return _counting(rows, counts)
    values = np.stack([rows.column(each).to_numpy() for each in counts], axis=1)
    summed = add_by_number(numbers, values, len(firsts))
    left = np.flatnonzero(summed.any(axis=1))
    found = others.take(pa.array(firsts[left]))
    for at, name in enumerate(counts):
        found = found.append_column(name, pa.array(np.ascontiguousarray(summed[left, at])))
    return sort_rows(found.select(rows.column_names))


def slim(rows: pa.Table) -> pa.Table:
    """Leave out counts that are zero in all rows."""
    kept = [
        name
        for name in rows.column_names
        if not name.startswith(COUNT) or rows.column(name).to_numpy().any()
    ]
    return rows if len(kept) == rows.num_columns else rows.select(kept)


def widened(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the columns of some names; counts that are not stored are zero."""
    stored = rows.column_names
    if stored == names:
        return rows
    known = frozenset(stored)
    for each in names:
        if each not in known:
            rows = rows.append_column(each, pa.array(np.zeros(rows.num_rows, np.int64)))
    return rows.select(list(names))


def _codes(rows: pa.Table) -> npt.NDArray[np.uint64]:
    """Return a code for each row, the same for equal rows: it is made of whole numbers alone."""
    codes = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
            values = column.cast(pa.int64(), safe=False).fill_null(0).to_numpy()
            codes = (codes ^ values.view(np.uint64)) * _ODD
            codes ^= codes >> np.uint64(29)
    return codes


def _differing(rows: pa.Table, places: _PLACES) -> npt.NDArray[np.bool_]:
    """Say which rows differ from those at other places; a NaN differs from all."""
    found = np.zeros(rows.num_rows, np.bool_)
    if (places == np.arange(len(places))).all():
        return found
    for column in rows.columns:
        other = column.take(pa.array(places))
        equal = pc.equal(column, other).fill_null(False)
        if column.null_count:
            equal = pc.or_(equal, pc.and_(column.is_null(), other.is_null()))
        found |= ~equal.to_numpy(zero_copy_only=False)
    return found


def _added_up(rows: pa.Table, counts: list[str]) -> pa.Table:
    """Add up equal rows by comparing all their columns."""
    others = [name for name in rows.column_names if name not in counts]
    summed = rows.group_by(others, use_threads=False).aggregate([(each, "sum") for each in counts])
    summed = summed.rename_columns({f"{each}_sum": each for each in counts})
    return _counting(summed.select(rows.column_names), counts)


def _counting(rows: pa.Table, counts: list[str]) -> pa.Table:
    """Leave out rows whose counts are all zero."""
    there = np.zeros(rows.num_rows, np.bool_)
    for each in counts:
        there |= rows.column(each).to_numpy() != 0
    return rows if there.all() else rows.filter(pa.array(there))
