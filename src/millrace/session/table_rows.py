"""Rows for a table: brought into its types, or refused by naming the one that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millrace.engine.tables import TableSpec
from millrace.errors import PlanError, SchemaError
from millrace.operators.relational.equal import numbered, without_nulls
from millrace.plan.bind import nearest
from millrace.schema import MISFITS, type_name
from millrace.session.template import ValueAt, cast_values, first_misfit


def fitted_rows(spec: TableSpec, given: pa.Table, *, some: bool = False) -> pa.Table:
    """Return rows with the columns of a table, in their order; a column may be left out: NULL.

    With `some`, only the columns that are given.
    """
    for name in given.column_names:
        require_column(spec, name)
    columns: dict[str, Any] = {}
    for field in spec.schema:
        if field.name in given.column_names:
            values = given.column(field.name).combine_chunks()
            whole = values if isinstance(values, pa.Array) else values.chunk(0)
            columns[field.name] = _fitted(spec, field.name, whole, field.type)
        elif not some:
            columns[field.name] = pa.nulls(given.num_rows, field.type)
    return pa.table(columns)


def require_column(spec: TableSpec, name: str) -> None:
    """Refuse a column that a table does not have."""
    if name not in spec.schema:
        raise SchemaError(
            f'column "{name}" does not exist in table "{spec.name}"',
            detail=f"The columns are {', '.join(spec.schema.names)}.",
            hint=nearest(name, list(spec.schema.names)),
            node=("column", name),
        )


def _fitted(spec: TableSpec, name: str, values: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return values if values.type == target else cast_values(values, target)
    except MISFITS as cause:
        row, value = first_misfit(values, target)
        raise PlanError(
            f'column "{name}" of row {row + 1} is not {type_name(target)}',
            detail=f"It is {value!r}.",
            hint=f'No row of this call was taken into table "{spec.name}".',
            node=ValueAt(row, name),
        ) from cause


def require_key(spec: TableSpec, rows: pa.Table) -> None:
    """Refuse rows of which one has no key, or two have the same."""
    batches = rows.combine_chunks().to_batches()
    if not spec.key or not batches:
        return
    keys = batches[0].select(list(spec.key))
    valid = without_nulls(keys.columns, keys.num_rows)
    if not valid.all():
        column = next(name for name in spec.key if keys.column(name).null_count)
        raise PlanError(
            f'key column "{column}" of table "{spec.name}" is NULL',
            hint="Give every row a key. No row of this call was taken.",
        )
    numbers, firsts = numbered(keys)
    if len(firsts) < keys.num_rows:
        counts = np.bincount(numbers)
        at = int(firsts[int(np.argmax(counts > 1))])
        twice = keys.slice(at, 1).to_pylist()[0]
        shown = ", ".join(f"{name} = {value!r}" for name, value in twice.items())
        raise PlanError(
            f'table "{spec.name}" would have two rows with the key {shown}',
            hint="Update the row that is there, or delete it first. No row of this call was taken.",
        )
