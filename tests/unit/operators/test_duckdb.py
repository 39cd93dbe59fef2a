"""A second judge: DuckDB computes the same SQL over the same rows.

The oracle and the operators have one author and may share a mistake about SQL; DuckDB does not.
It judges only where both mean the same by definition. Left to the oracle alone is:

- what DuckDB has no answer to but an error or another one: x / 0, roots and logarithms of numbers
  below zero, casts from text (it reads more spellings), the sign of NaN;
- types that differ: it adds two tinyints to a tinyint and two floats to a float, so only bigint
  and double are used; a long product of decimals is an error there;
- our own rules: texts of doubles and timestamps, positions below 1, empty separators and fillers,
  an IN without options.

What only is spelt otherwise is translated: x / y of integers is divide(x, y), and what may
overflow or not be cast stands in TRY, by which DuckDB's error becomes our NULL.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given

from millrace.operators.evaluate import evaluate
from millrace.operators.vectors import as_array
from millrace.plan.bind import bind_expression, type_of
from millrace.plan.expressions import (
    Arithmetic,
    Call,
    Cast,
    Column,
    Expression,
    In,
    Like,
    Literal,
    Negative,
)
from millrace.plan.fold import fold, rebuilt
from millrace.plan.spelling import to_text
from millrace.plan.types import INSTANTS, kind_of
from millrace.schema import Schema
from millrace.testing.expression_strategies import expressions
from millrace.testing.strategies import batch_of, rows

SCHEMA = Schema.of(
    "b boolean, i bigint, x double, m decimal(5,2), s text, d date, t timestamp, y binary"
)
ALIKE = {
    "abs", "floor", "ceil", "coalesce", "greatest", "least", "nullif", "if", "length", "lower",
    "upper", "reverse", "trim", "ltrim", "rtrim", "replace", "starts_with", "ends_with",
    "contains", "strpos", "concat", "left", "right", "regexp_extract", "regexp_replace", "year",
    "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "minute", "second",
    "date_trunc", "date_diff", "exp", "millisecond", "microsecond", "ascii", "translate", "md5",
    "xor",
}  # fmt: skip
CASTS = {
    ("floating", "boolean"), ("decimal", "boolean"),
    ("integer", "floating"), ("integer", "boolean"), ("boolean", "integer"), ("boolean", "text"),
    ("integer", "text"), ("floating", "integer"), ("decimal", "integer"), ("decimal", "floating"),
    ("date", "timestamp"), ("timestamp", "date"), ("date", "text"), ("integer", "decimal"),
}  # fmt: skip
Row = dict[str, Any]


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def agreed(node: Expression) -> Expression:
    """Put a column in the place of everything on which DuckDB is no judge."""
    return fold(node, lambda each, operands: _agreed(rebuilt(each, operands)))


def _agreed(node: Expression) -> Expression:
    arrow = type_of(node, SCHEMA, {})
    kind = kind_of(arrow)
    column = next((each.name for each in SCHEMA if kind_of(each.type) == kind), None)
    if column is None or _alike(node):
        return node
    return Column(column)


def _kind(node: Expression) -> str:
    return kind_of(type_of(node, SCHEMA, {}))


def _alike(node: Expression) -> bool:
    match node:
        case Literal(value):
            return not isinstance(value, Decimal) or abs(value) < 1000
        case Arithmetic(operator, left, right):
            kinds = {_kind(each) for each in (left, right)}
            plain = operator in ("+", "-", "||") or (operator == "*" and "decimal" not in kinds)
            plain &= not kinds & INSTANTS  # whose difference is an interval there
            return kinds == {"integer"} if operator == "/" else plain
        case Negative(operand):
            return not isinstance(operand, Literal)
        case Call(function, arguments):
            kinds = {_kind(each) for each in arguments}
            whole = function in ("floor", "ceil") and "integer" in kinds  # is a double there
            if function in ("left", "right") and not isinstance(arguments[1], Literal):
                return False  # an error beyond 2^32
            if function == "concat" and kinds & {"floating", "timestamp", "binary"}:
                return False
            return function in ALIKE and "null" not in kinds and not whole
        case Cast(operand, _):
            return (_kind(operand), _kind(node)) in CASTS
        case In(_, options):
            return bool(options)
        case Like(_, pattern, escape, _):
            return escape is None or isinstance(pattern, Literal)
        case _:
            return True


def translated(node: Expression) -> str:
    """Spell an expression for DuckDB."""
    return to_text(fold(node, lambda each, operands: _translated(each, rebuilt(each, operands))))


def _translated(original: Expression, node: Expression) -> Expression:
    if isinstance(node, Arithmetic) and _kind(original) == "integer":
        divided = Call("divide", (node.left, node.right)) if node.operator == "/" else node
        return Call("TRY", (divided,))
    if isinstance(node, Cast | Negative) or (isinstance(node, Call) and node.function == "abs"):
        return Call("TRY", (node,))
    return node


def plain(value: object) -> object:
    """Take values of both as equal if they are equal in SQL."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return value


@given(rows(SCHEMA), expressions(SCHEMA, depth=4))
def test_duckdb_computes_the_same(
    database: duckdb.DuckDBPyConnection, given_rows: list[Row], node: Expression
) -> None:
    node, arrow = bind_expression(agreed(node), SCHEMA, {})
    if arrow == pa.null():
        return
    batch = batch_of(given_rows, SCHEMA)
    naive = batch.set_column(6, "t", batch.column("t").cast(pa.timestamp("us")))
    database.register("given", pa.Table.from_batches([naive]))

    answer = database.execute(f"SELECT {translated(node)} FROM given").fetchall()

    found = as_array(evaluate(node, batch, {}), batch.num_rows).to_pylist()
    assert [plain(each) for each in found] == [plain(each) for (each,) in answer]
