"""The order of rows that ORDER BY asks for, as columns whose canonical order it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millrace.operators.canonical import canonical_order
from millrace.operators.evaluate import evaluate
from millrace.operators.relational.slab import Slab
from millrace.operators.vectors import as_array
from millrace.plan.relations import Order


def ranked(rows: pa.RecordBatch, order: Sequence[Order], slab: Slab) -> list[pa.Array]:
    """Return a column of ranks for each part of an order; ascending ranks are the order."""
    return [_ranks(rows, each, slab) for each in order]


def _ranks(rows: pa.RecordBatch, order: Order, slab: Slab) -> pa.Array:
    n_rows = rows.num_rows
    values = as_array(evaluate(order.value, rows, slab.functions), n_rows)
    codes = values.dictionary_encode().indices
    numbers = np.asarray(codes.fill_null(-1), np.int64)
    distinct = values.dictionary_encode().dictionary
    places = canonical_order(pa.table({"#": distinct})).to_numpy()
    rank = np.empty(len(places) + 1, np.int64)
    rank[places] = np.arange(len(places))
    found = rank[numbers]
    if order.descending:
        found = len(places) - 1 - found
    found[numbers < 0] = -1 if order.nulls_first else len(places)
    return pa.array(found)
