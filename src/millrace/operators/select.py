"""Selection: evaluate a query's condition and outputs over whole batches of one stream.

Arrow's compute kernels do the work; logic is three-valued (Kleene), and a condition keeps only
the rows for which it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import PlanError
from millrace.plan.expressions import (
    Both,
    Call,
    Column,
    Compare,
    Comparison,
    Either,
    Expression,
    IsNull,
    Literal,
    Not,
)
from millrace.plan.nodes import Selection

Function = Callable[..., pa.Array]
Datum: TypeAlias = Any
"""An Arrow array, or a scalar that stands for one; Arrow has no types for mypy."""

_COMPARE: dict[Comparison, str] = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def matching(
    selection: Selection, batch: pa.RecordBatch, functions: Mapping[str, Function]
) -> pa.Array:
    """Return the positions (int64) of the rows that satisfy the selection's condition."""
    if selection.condition is None:
        return pc.indices_nonzero(pa.repeat(pa.scalar(value=True), batch.num_rows))
    truth = evaluate(selection.condition, batch, functions)
    if isinstance(truth, pa.Scalar):
        truth = pa.repeat(truth.cast(pa.bool_()), batch.num_rows)
    return pc.indices_nonzero(pc.fill_null(truth, fill_value=False))


def project(
    selection: Selection, rows: pa.RecordBatch, schema: pa.Schema, functions: Mapping[str, Function]
) -> pa.RecordBatch:
    """Compute the selection's outputs over rows that satisfied its condition."""
    columns = []
    for output, field in zip(selection.outputs, schema, strict=True):
        value = evaluate(output.value, rows, functions)
        array = pa.repeat(value, rows.num_rows) if isinstance(value, pa.Scalar) else value
        columns.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def evaluate(node: Expression, batch: pa.RecordBatch, functions: Mapping[str, Function]) -> Datum:
    """Evaluate a bound expression over a batch."""
    match node:
        case Column(name):
            return batch.column(name)
        case Literal(value):
            return pa.scalar(value)
        case Compare(operator, left, right):
            return _compare(
                operator, evaluate(left, batch, functions), evaluate(right, batch, functions)
            )
        case Both(left, right):
            return pc.and_kleene(*_logical(left, right, batch, functions))
        case Either(left, right):
            return pc.or_kleene(*_logical(left, right, batch, functions))
        case Not(operand):
            return pc.invert(evaluate(operand, batch, functions).cast(pa.bool_()))
        case IsNull(operand):
            return pc.is_null(evaluate(operand, batch, functions))
        case Call(function, arguments):
            given = [_array(evaluate(each, batch, functions), batch) for each in arguments]
            return _checked(function, functions[function](*given), batch.num_rows)
        case _:
            assert_never(node)


def _compare(operator: Comparison, left: Datum, right: Datum) -> Datum:
    if left.type == right.type == pa.null():
        return pa.scalar(None, pa.bool_())
    for side, other in ((left, right), (right, left)):
        text = isinstance(side, pa.Scalar) and pa.types.is_string(side.type)
        if text and (pa.types.is_timestamp(other.type) or pa.types.is_date(other.type)):
            instant = side.cast(pa.timestamp("us", tz="UTC"))
            left, right = (instant, right) if side is left else (left, instant)
    return pc.call_function(_COMPARE[operator], _one_type(left, right))


def _one_type(left: Datum, right: Datum) -> list[Datum]:
    """Bring numbers of two types to one that holds both, where Arrow would refuse some values.

    Beside a float a number is taken as the nearest double, as SQL does; decimals are exact.
    """
    kinds = left.type, right.type
    if kinds[0] == kinds[1] or pa.null() in kinds:
        return [left, right]
    if any(pa.types.is_floating(kind) for kind in kinds):
        return [each.cast(pa.float64(), safe=False) for each in (left, right)]
    scales = [kind.scale for kind in kinds if pa.types.is_decimal(kind)]
    if scales:
        return [each.cast(pa.decimal256(76, max(scales))) for each in (left, right)]
    return [left, right]


def _logical(
    left: Expression,
    right: Expression,
    batch: pa.RecordBatch,
    functions: Mapping[str, Function],
) -> tuple[Datum, Datum]:
    return (
        evaluate(left, batch, functions).cast(pa.bool_()),
        evaluate(right, batch, functions).cast(pa.bool_()),
    )


def _array(value: Datum, batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(value, batch.num_rows) if isinstance(value, pa.Scalar) else value


def _checked(function: str, result: object, n_rows: int) -> pa.Array:
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if isinstance(result, pa.Array) and len(result) == n_rows:
        return result
    found = f"{len(result)} rows" if isinstance(result, pa.Array) else type(result).__name__
    raise PlanError(
        f'function "{function}" returned {found} where an array of {n_rows} rows is needed'
    )
