"""Every expression has our meaning in DuckDB, whatever its types: random ones, on random rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings

from millrace.operators.evaluate import evaluate
from millrace.operators.vectors import as_array
from millrace.plan.bind import bind_expression
from millrace.plan.declared import Declared
from millrace.plan.expressions import Column, Expression
from millrace.plan.fold import fold, rebuilt
from millrace.plan.nodes import Output
from millrace.plan.relations import Project, Table
from millrace.reading.duckdb_run import Limits, run
from millrace.reading.duckdb_sql import printed
from millrace.schema import Column as Field
from millrace.schema import Columns, Schema
from millrace.testing.expression_strategies import expressions
from millrace.testing.oracle.aggregates import same
from millrace.testing.strategies import batch_of, rows

SCHEMA = Schema.of(
    "b boolean, j smallint, i bigint, f float, x double, m decimal(5,2), s text, d date, "
    "t timestamp, y binary"
)
FEWER = settings(max_examples=max(settings.default.max_examples // 2, 1))  # type: ignore[union-attr]


def renamed(node: Expression) -> Expression:
    return fold(
        node,
        lambda each, operands: (
            Column(f"a.{each.name}") if isinstance(each, Column) else rebuilt(each, operands)
        ),
    )


@FEWER
@given(rows(SCHEMA), expressions(SCHEMA, depth=4))
def test_an_expression_has_our_meaning(given_rows: list[dict[str, Any]], node: Expression) -> None:
    node, arrow = bind_expression(node, SCHEMA, {})
    if arrow == pa.null():
        return
    batch = batch_of(given_rows, SCHEMA)
    plan = Project(Table("a", "a"), (Output("found", renamed(node)),))
    sql = printed(plan, Declared({}, {"a": SCHEMA}))

    answer = run(
        sql, [pa.Table.from_batches([batch])], Columns((Field("found", arrow),)), {}, Limits()
    )

    expected = as_array(evaluate(node, batch, {}), batch.num_rows).to_pylist()
    assert [same(each) for each in answer.column(0).to_pylist()] == [same(e) for e in expected]
