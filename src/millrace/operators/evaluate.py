"""Evaluation: the value of a bound expression over all rows of a batch at once.

Arrow's kernels do the work, NumPy where Arrow has no kernel of SQL's meaning. Logic is
three-valued (Kleene); nothing raises because of a value. An expression without columns has a
scalar as its value, which stands for that value in every row.

Parameters are constants, `{number: scalar}` (a set is a scalar of lists), or one value for each
row: columns "p0", "p1", … beside those of the batch, for pairs of a row and a query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import PlanError
from millrace.operators.arithmetic import compute, negative
from millrace.operators.cast import cast
from millrace.operators.compare import as_type, compare
from millrace.operators.functions import FUNCTIONS
from millrace.operators.matching import like, matches
from millrace.operators.membership import among, among_constants, among_sets
from millrace.operators.vectors import Datum, as_array, null
from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Parameter,
    walk,
)
from millrace.plan.fold import fold
from millrace.plan.spelling import to_json
from millrace.plan.types import BOOLEAN, common_type, literal_type
from millrace.schema import type_named

Function = Callable[..., pa.Array]
Parameters: TypeAlias = Mapping[int, pa.Scalar] | pa.RecordBatch


@dataclass(slots=True, eq=False)
class Memo:
    """What registered functions returned for one batch, so that each call is made once.

    Use a new one for each batch. A call that depends on a parameter is not remembered.
    """

    results: dict[str, pa.Array] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What an expression is evaluated over."""

    batch: pa.RecordBatch
    functions: Mapping[str, Function]
    parameters: Parameters | None
    memo: Memo | None


def evaluate(
    node: Expression,
    batch: pa.RecordBatch,
    functions: Mapping[str, Function],
    parameters: Parameters | None = None,
    *,
    memo: Memo | None = None,
) -> Datum:
    """Return the value of a bound expression over a batch: an array, or a scalar for all rows."""
    if isinstance(node, Column):
        return batch.column(node.name)
    rows = _Rows(batch, functions, parameters, memo)
    return fold(node, lambda each, operands: _value(each, operands, rows))


def _value(node: Expression, operands: list[Datum], rows: _Rows) -> Datum:
    match node:
        case Column(name):
            return rows.batch.column(name)
        case Literal(value):
            return pa.scalar(value, literal_type(value))
        case Parameter():
            return _parameter(node, rows.parameters)
        case Arithmetic(operator, _, _):
            return compute(operator, *operands)
        case Negative():
            return negative(*operands)
        case Case():
            return _case(operands)
        case Cast(_, type_name):
            return cast(operands[0], type_named(type_name))
        case Call():
            return _call(node, operands, rows)
        case Compare() | Both() | Either() | Not() | IsNull() | In() | Like() | Matches():
            return _truth(node, operands)
        case _:
            assert_never(node)


def _truth(
    node: Compare | Both | Either | Not | IsNull | In | Like | Matches, operands: list[Datum]
) -> Datum:
    match node:
        case Compare(operator, _, _):
            return compare(operator, *operands)
        case Both():
            return pc.and_kleene(*(as_type(each, BOOLEAN) for each in operands))
        case Either():
            return pc.or_kleene(*(as_type(each, BOOLEAN) for each in operands))
        case Not():
            return pc.invert(as_type(operands[0], BOOLEAN))
        case IsNull():
            return pc.is_null(operands[0])
        case In():
            return _in(operands[0], operands[1:])
        case Like(_, _, escape, ignore_case):
            return like(operands[0], operands[1], escape, ignore_case=ignore_case)
        case Matches(_, _, ignore_case):
            return matches(operands[0], operands[1], ignore_case=ignore_case)
        case _:
            assert_never(node)


def _parameter(node: Parameter, parameters: Parameters | None) -> Datum:
    assert parameters is not None, "an expression with parameters needs their values"
    if isinstance(parameters, Mapping):
        return parameters[node.number]
    column = parameters.column(f"p{node.number}")
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _in(operand: Datum, options: list[Datum]) -> Datum:
    if len(options) == 1 and pa.types.is_list(options[0].type):
        if not isinstance(options[0], pa.Scalar):
            return among_sets(operand, options[0])
        values = options[0].values
        return null(BOOLEAN) if values is None else among_constants(operand, values)
    return among(operand, options)


def _case(operands: list[Datum]) -> Datum:
    """Choose from the last branch to the first, so that the first true condition wins."""
    target = common_type([*(each.type for each in operands[1:-1:2]), operands[-1].type])
    assert target is not None, "the binder lets only branches through that mix"
    chosen = cast(operands[-1], target)
    for condition, value in zip(operands[-3::-2], operands[-2::-2], strict=True):
        true = pc.fill_null(as_type(condition, BOOLEAN), fill_value=False)
        chosen = pc.if_else(true, cast(value, target), chosen)
    return chosen


def _call(node: Call, operands: list[Datum], rows: _Rows) -> Datum:
    if node.function not in rows.functions:
        return FUNCTIONS[node.function](*operands)
    shared = rows.memo is not None and not any(isinstance(each, Parameter) for each in walk(node))
    key = json.dumps(to_json(node)) if shared else ""
    if rows.memo is not None and key in rows.memo.results:
        return rows.memo.results[key]
    n_rows = rows.batch.num_rows
    given = [as_array(each, n_rows) for each in operands]
    result = _checked(node.function, rows.functions[node.function](*given), n_rows)
    if rows.memo is not None and shared:
        rows.memo.results[key] = result
    return result


def _checked(function: str, result: object, n_rows: int) -> pa.Array:
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if isinstance(result, pa.Array) and len(result) == n_rows:
        return result
    found = f"{len(result)} rows" if isinstance(result, pa.Array) else type(result).__name__
    raise PlanError(
        f'function "{function}" returned {found} where an array of {n_rows} rows is needed'
    )
