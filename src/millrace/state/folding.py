"""Folding: a merge may add up rows that differ in their counts alone.

Columns whose names begin with a plus sign are counts. Rows that are equal in all other columns
become one with the sums of the counts, and none if those are all zero. A column `_start` says from
when on a row counts; once that has passed, it does not matter by how much.

What a reader finds by adding up is the same before and after, for everything from the horizon on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.state.order import sort_rows

COUNT, START = "+", "_start"


def folded(rows: pa.Table, horizon: int | None) -> pa.Table:
    """Add up equal rows of a table, and order what is left."""
    counts = [name for name in rows.column_names if name.startswith(COUNT)]
    if not counts or rows.num_rows < 2:
        return rows
    if horizon is not None and START in rows.column_names:
        clipped = np.maximum(rows.column(START).to_numpy(), horizon)
        at = rows.column_names.index(START)
        rows = rows.set_column(at, START, pa.array(clipped))
    others = [name for name in rows.column_names if name not in counts]
    summed = rows.group_by(others, use_threads=False).aggregate([(each, "sum") for each in counts])
    summed = summed.rename_columns({f"{each}_sum": each for each in counts})
    left = np.zeros(summed.num_rows, np.bool_)
    for each in counts:
        left |= summed.column(each).to_numpy() != 0
    return sort_rows(summed.select(rows.column_names).filter(pa.array(left)))
