"""Expressions: built by operators, printed as SQL, there and back through JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.plan.expressions import (
    COMPARISONS,
    Both,
    Call,
    Column,
    Compare,
    Either,
    Expression,
    IsNull,
    Literal,
    Not,
    call,
    col,
    expression,
    from_json,
    to_json,
    to_text,
)

LEAVES = st.one_of(
    st.builds(Column, st.sampled_from(["a", "b"])),
    st.builds(
        Literal,
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    ),
)


def larger(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(Compare, st.sampled_from(COMPARISONS), parts, parts),
        st.builds(Both, parts, parts),
        st.builds(Either, parts, parts),
        st.builds(Not, parts),
        st.builds(IsNull, parts),
        st.builds(Call, st.just("f"), st.lists(parts, max_size=2).map(tuple)),
    )


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=8)


@given(EXPRESSIONS)
def test_an_expression_survives_json(node: Expression) -> None:
    assert from_json(json.loads(json.dumps(to_json(node)))) == node


def test_a_literal_that_is_no_number_survives_json() -> None:
    (kind, value) = json.loads(json.dumps(to_json(Literal(math.nan))))

    assert kind == "literal"
    assert math.isnan(value)


def test_operators_build_nodes() -> None:
    built = (col("a") > 1) & ~(col("b") == "x") | col("c").is_null() & (call("f", col("a"), 2) != 0)

    assert to_text(built.node) == ("((a > 1 AND NOT (b = 'x')) OR (c IS NULL AND f(a, 2) <> 0))")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ((col("a") == None).is_null(), "(a = NULL) IS NULL"),  # noqa: E711  a node, no test
        (Compare("=", Column("a"), IsNull(Column("b"))), "a = (b IS NULL)"),
        (expression("it's"), "'it''s'"),
        (expression(value=True), "TRUE"),
        (expression(-1.5), "-1.5"),
    ],
)
def test_text_has_one_reading(node: object, text: str) -> None:
    assert to_text(expression(node)) == text


def test_and_or_not_of_python_are_refused() -> None:
    with pytest.raises(TypeError, match=r"combine with & \| ~"):
        assert col("a") > 1
    with pytest.raises(TypeError, match="got \\[\\]"):
        expression([])
