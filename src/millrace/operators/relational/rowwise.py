"""What is done to each row by itself: it needs no other row, and remembers none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millrace.operators.relational.equal import plain
from millrace.operators.relational.feeds import values_of
from millrace.operators.relational.join import true_rows
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.timed import OPEN, Timed, rows_of
from millrace.operators.relational.windows import by_time
from millrace.plan.relations import Filter, Project, Windowed


def windowed(node: Windowed, names: Sequence[str], elements: Elements) -> Timed:
    """Return the relation of a window of time."""
    timed = by_time(node.window, elements.rows, elements.times)
    return timed.with_rows(rows_of(timed.rows.columns, names, len(timed)))


def plain_elements(elements: Elements) -> Elements:
    """Return elements of which equal ones have the same bytes."""
    rows = elements.rows
    columns = [plain(each) for each in rows.columns]
    return replace(elements, rows=rows_of(columns, rows.schema.names, rows.num_rows))


def changed(changes: Elements, alias: str) -> Timed:
    """Return the changes of a table as rows that come or go for good."""
    changes = plain_elements(changes)
    names = [f"{alias}.{each}" for each in changes.rows.schema.names]
    n_rows = len(changes.times)
    copies = changes.copies if changes.copies is not None else np.ones(n_rows, np.int64)
    rows = rows_of(changes.rows.columns, names, n_rows)
    return Timed(rows, changes.times, np.full(n_rows, OPEN), copies)


def each_row(given: Timed, slab: Slab, node: Filter | Project) -> Timed:
    """Return the rows for which a condition is true, or computed columns of each row."""
    if isinstance(node, Filter):
        return given.where(true_rows(node.condition, given, slab)) if len(given) else given
    n_rows = len(given)
    columns = [values_of(each.value, given, slab) for each in node.outputs]
    return given.with_rows(rows_of(columns, [each.name for each in node.outputs], n_rows))


def as_columns(given: Timed, schema: pa.Schema) -> Timed:
    """Name and type columns as another relation has them."""
    columns = [
        column.cast(wanted.type) for column, wanted in zip(given.rows.columns, schema, strict=True)
    ]
    return given.with_rows(rows_of(columns, schema.names, len(given)))
