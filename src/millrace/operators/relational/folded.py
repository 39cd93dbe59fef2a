"""Folding: rows that are equal, and there at the same time, become one whose weight is the sum."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.operators.relational.equal import numbered
from millrace.operators.relational.timed import Timed, rows_of, take_rows


def consolidated(timed: Timed, frontier: int) -> Timed:
    """Return what a relation is from an instant on, with as few rows as can be.

    An open row and its tail cancel if both began before.
    """
    timed = timed.where((timed.ends > frontier) & (timed.weights != 0))
    if not len(timed):
        return timed
    starts = np.maximum(timed.starts, frontier)
    columns = [*timed.rows.columns, pa.array(starts), pa.array(timed.ends)]
    names = [*timed.rows.schema.names, "_start", "_end"]
    numbers, firsts = numbered(rows_of(columns, names, len(timed)))
    weights = np.zeros(len(firsts), np.int64)
    np.add.at(weights, numbers, timed.weights)
    left = np.flatnonzero(weights)
    at = firsts[left]
    return Timed(take_rows(timed.rows, at), starts[at], timed.ends[at], weights[left])
