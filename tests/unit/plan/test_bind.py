"""Binding: whatever it lets through runs; what it refuses says why (see also test_session)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from millrace.errors import MillraceError, PlanError
from millrace.operators.select import matching, project
from millrace.plan.bind import bind_selection, nearest, output_schema
from millrace.plan.expressions import COMPARISONS, Column, Compare, Expression, Literal
from millrace.plan.nodes import select
from millrace.plan.term import Term
from millrace.schema import Schema

SCHEMA = Schema.of(
    "b boolean, t tinyint, i bigint, f float, d double, m decimal(38, 30), n decimal(38, 0), "
    "s text, y binary, day date, ts timestamp"
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {
            "b": True, "t": 1, "i": 2**62 + 1, "f": 1.5, "d": float("nan"), "m": Decimal("1.5"),
            "n": Decimal(10) ** 37, "s": "x", "y": b"x", "day": date(2024, 5, 1),
            "ts": datetime(2024, 5, 1, tzinfo=UTC),
        },
        {},
    ],
    schema=SCHEMA.to_arrow(),
)  # fmt: skip
CONSTANTS = (None, True, 1, 2**62, 1.5, float("nan"), "x", "2024-05-01", "2024-05-01T00:00:00Z")
SIDES: tuple[Expression, ...] = (
    *(Column(each) for each in SCHEMA.names),
    *(Literal(each) for each in CONSTANTS),
)


@pytest.mark.parametrize("left", SIDES, ids=str)
def test_a_comparison_is_refused_or_runs_on_any_rows(left: Expression) -> None:
    n_bound = 0
    for right in SIDES:
        for operator in COMPARISONS:
            try:
                bound = bind_selection(
                    select("s", "s", where=Term(Compare(operator, left, right)), same=right),
                    SCHEMA,
                    {},
                )
            except MillraceError:
                continue
            n_bound += 1
            hits = matching(bound, ROWS, {})
            answer = project(bound, ROWS.take(hits), output_schema(bound, SCHEMA, {}), {})
            assert answer.num_rows == len(hits)
    assert n_bound >= len(COMPARISONS)


def test_without_outputs_every_column_is_taken() -> None:
    bound = bind_selection(select("s"), SCHEMA, {})

    assert output_schema(bound, SCHEMA, {}) == SCHEMA.to_arrow()


def test_a_text_that_is_no_instant_is_refused_where_one_is_needed() -> None:
    with pytest.raises(PlanError, match="'soon' is not a timestamp"):
        bind_selection(
            select("s", where=Term(Compare("<", Column("ts"), Literal("soon")))), SCHEMA, {}
        )


def test_the_nearest_word_is_named_if_one_is_near() -> None:
    assert nearest("prise", ["price", "symbol"]) == 'Did you mean "price"?'
    assert nearest("xyz", ["price", "symbol"]) == ""
