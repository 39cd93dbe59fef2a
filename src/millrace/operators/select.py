"""Selection: apply a query's condition and outputs to whole batches of one stream.

A condition keeps only the rows for which it is true, neither false nor unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from millrace.operators.evaluate import Function, Memo, Parameters, evaluate
from millrace.operators.vectors import as_array, true_array
from millrace.plan.nodes import Selection

__all__ = ["Function", "matching", "outputs", "project"]


def matching(
    selection: Selection,
    batch: pa.RecordBatch,
    functions: Mapping[str, Function],
    parameters: Parameters | None = None,
    *,
    memo: Memo | None = None,
) -> pa.Array:
    """Return the positions (uint64) of the rows that satisfy the selection's condition."""
    if selection.condition is None:
        return pc.indices_nonzero(pa.repeat(pa.scalar(value=True), batch.num_rows))
    truth = evaluate(selection.condition, batch, functions, parameters, memo=memo)
    return pc.indices_nonzero(true_array(truth, batch.num_rows))


def project(
    selection: Selection,
    rows: pa.RecordBatch,
    schema: pa.Schema,
    functions: Mapping[str, Function],
    parameters: Parameters | None = None,
    *,
    memo: Memo | None = None,
) -> pa.RecordBatch:
    """Compute the selection's outputs over rows that satisfied its condition."""
    columns = outputs(selection, rows, schema, functions, parameters, memo=memo)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def outputs(
    selection: Selection,
    rows: pa.RecordBatch,
    schema: pa.Schema,
    functions: Mapping[str, Function],
    parameters: Parameters | None = None,
    *,
    memo: Memo | None = None,
) -> list[pa.Array]:
    """Compute what `project` does, as columns one by one."""
    columns = []
    for output, field in zip(selection.outputs, schema, strict=True):
        value = evaluate(output.value, rows, functions, parameters, memo=memo)
        array = as_array(value, rows.num_rows)
        columns.append(array if array.type == field.type else array.cast(field.type))
    return columns
