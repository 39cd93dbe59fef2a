"""Expressions as SQL and as JSON, there and back."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Case,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Parameter,
)
from millrace.plan.fold import fold
from millrace.plan.spelling import from_json, to_json, to_text
from millrace.plan.term import call, col, expression
from millrace.schema import type_named
from millrace.testing.expression_strategies import expressions
from millrace.testing.strategies import TYPES, WIDE, values

SCALARS = st.one_of(*(values(type_named(each)) for each in TYPES), st.none(), st.integers())
PARAMETERS = st.builds(
    Parameter, st.integers(0, 9), st.sampled_from(["bigint", "text"]), st.booleans()
)
A, B, C = Column("a"), Column("b"), Column("c")


def through_json(node: Expression) -> Expression:
    return from_json(json.loads(json.dumps(to_json(node), allow_nan=False)))


@given(expressions(WIDE))
def test_an_expression_survives_json(node: Expression) -> None:
    assert repr(through_json(node)) == repr(node)


@given(st.builds(Literal, SCALARS) | PARAMETERS)
def test_every_constant_and_parameter_survives_json(node: Expression) -> None:
    assert repr(through_json(node)) == repr(node)


@pytest.mark.parametrize("n_levels", [99, 100, 3000])
@pytest.mark.parametrize("leaning_left", [True, False])
def test_depth_does_not_matter(n_levels: int, leaning_left: bool) -> None:  # noqa: FBT001
    node: Expression = A
    for at in range(n_levels):
        link = Compare("=", A, Literal(at))
        node = Both(node, link) if leaning_left else Both(link, node)

    back = through_json(node)

    assert to_text(back) == to_text(node)
    assert fold(back, lambda _, below: 1 + sum(below)) == 1 + 4 * n_levels


def test_operators_build_nodes() -> None:
    built = (col("a") > 1) & ~(col("b") == "x") | col("c").is_null() & (call("f", col("a"), 2) != 0)

    assert to_text(built.node) == "a > 1 AND NOT (b = 'x') OR c IS NULL AND f(a, 2) <> 0"


EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ((col("a") == None).is_null(), "(a = NULL) IS NULL"),  # noqa: E711  a node, no test
        (Compare("=", A, IsNull(B)), "a = (b IS NULL)"),
        (Both(A, Both(B, C)), "a AND (b AND c)"),
        (Both(Both(A, B), C), "a AND b AND c"),
        ((col("a") | col("b")) & col("c"), "(a OR b) AND c"),
        (~(col("a") & col("b")), "NOT (a AND b)"),
        (col("a") - (col("b") - col("c")), "a - (b - c)"),
        (col("a") - col("b") - col("c"), "a - b - c"),
        ((1 + col("a")) * 2 % col("b"), "(1 + a) * 2 % b"),
        (2 * (col("a") / col("b")), "2 * (a / b)"),
        ((col("a") + 1).concat("x").concat(col("b").concat("y")), "(a + 1) || 'x' || (b || 'y')"),
        (-col("a") - -5, "-a - -5"),
        (Negative(Literal(5)), "-(5)"),
        (Negative(Literal(-5)), "-(-5)"),
        (Negative(Negative(A)), "-(-a)"),
        (Arithmetic("-", Literal(0), Negative(A)), "0 - -a"),
        (col("a").between(1, 2), "a >= 1 AND a <= 2"),
        (col("a").isin([1, "x"]), "a IN (1, 'x')"),
        (In(A, (Parameter(0, "bigint", many=True),)), "a IN ($0)"),
        (col("a").like("x!_%", escape="!"), "a LIKE 'x!_%' ESCAPE '!'"),
        (Not(Like(A, B, ignore_case=True)), "NOT (a ILIKE b)"),
        (col("a").matches("^x"), "a ~ '^x'"),
        (Matches(Arithmetic("||", A, B), Literal("x"), ignore_case=True), "(a || b) ~* 'x'"),
        (col("a").cast("decimal(5, 2)"), "CAST(a AS decimal(5, 2))"),
        (Case(((A, B), (C, Literal(1))), Literal(None)),
         "CASE WHEN a THEN b WHEN c THEN 1 ELSE NULL END"),
        (Cast(Compare("<", A, B), "text"), "CAST(a < b AS text)"),
        (col('two "words"') == col("from"), '"two ""words""" = "from"'),
        (expression("it's"), "'it''s'"),
        (expression(value=True), "TRUE"),
        (expression(-1.5), "-1.5e0"),
        (expression(1e300), "1e+300"),
        (expression(math.inf), "CAST('inf' AS double)"),
        (expression(Decimal("1.50")), "1.50"),
        (expression(Decimal("-2E+3")), "-2000."),
        (expression(b"\x00\xff"), "X'00ff'"),
        (expression(date(2024, 5, 1)), "DATE '2024-05-01'"),
        (expression(datetime(2024, 5, 1, 12, tzinfo=EAST)), "TIMESTAMP '2024-05-01 10:00:00'"),
        (expression(datetime(1, 2, 3, 0, 0, 0, 5, UTC)), "TIMESTAMP '0001-02-03 00:00:00.000005'"),
    ],
)  # fmt: skip
def test_text_has_one_reading(node: object, text: str) -> None:
    assert to_text(expression(node)) == text


def test_and_or_not_of_python_are_refused() -> None:
    with pytest.raises(TypeError, match=r"combine with & \| ~"):
        assert col("a") > 1
    with pytest.raises(TypeError, match="got \\[\\]"):
        expression([])
