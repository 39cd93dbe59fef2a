"""Parameters, registered functions and great depth: what evaluation is given beside the rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.operators.evaluate import Memo, evaluate
from millrace.operators.vectors import as_array
from millrace.plan.bind import bind_condition
from millrace.plan.expressions import (
    COMPARISONS,
    Both,
    Call,
    Column,
    Compare,
    Comparison,
    Either,
    Expression,
    In,
    Like,
    Literal,
    Matches,
    Parameter,
)
from millrace.schema import type_named
from millrace.testing.oracle.expressions import World, value_of
from millrace.testing.strategies import TYPES, WIDE, batch_of, rows, values

Row = dict[str, Any]
PLACES = st.sampled_from(range(len(TYPES)))


@given(rows(WIDE), PLACES, st.sampled_from(COMPARISONS), st.data())
def test_a_parameter_is_a_constant_or_a_column(
    given_rows: list[Row], at: int, operator: Comparison, data: Any
) -> None:
    arrow = type_named(TYPES[at])
    drawn = [data.draw(st.none() | values(arrow)) for _ in given_rows]
    node = Compare(operator, Column(f"c{at}"), Parameter(0, TYPES[at]))
    expected = [
        value_of(node, row, World(WIDE, {0: each}))
        for row, each in zip(given_rows, drawn, strict=True)
    ]

    batch = batch_of(given_rows, WIDE)
    aligned = pa.record_batch({"p0": pa.array(drawn, arrow)})
    assert evaluate(node, batch, {}, aligned).to_pylist() == expected
    for place, each in enumerate(drawn):
        found = evaluate(node, batch, {}, {0: pa.scalar(each, arrow)})
        assert found.to_pylist()[place] == expected[place]


@given(rows(WIDE), PLACES, st.data())
def test_a_set_is_a_constant_or_a_column_of_lists(
    given_rows: list[Row], at: int, data: Any
) -> None:
    arrow = type_named(TYPES[at])
    members = st.lists(st.none() | values(arrow), max_size=4)
    drawn = [data.draw(st.none() | members) for _ in given_rows]
    for row, each in zip(given_rows, drawn, strict=True):
        if each and data.draw(st.booleans()):
            row[f"c{at}"] = each[0]
    node = In(Column(f"c{at}"), (Parameter(3, TYPES[at], many=True),))
    expected = [
        value_of(node, row, World(WIDE, {3: each}))
        for row, each in zip(given_rows, drawn, strict=True)
    ]

    batch = batch_of(given_rows, WIDE)
    lists = pa.array(drawn, pa.list_(arrow))
    assert evaluate(node, batch, {}, pa.record_batch({"p3": lists})).to_pylist() == expected
    for place in range(len(drawn)):
        found = as_array(evaluate(node, batch, {}, {3: lists[place]}), len(drawn))
        assert found.to_pylist()[place] == expected[place]


def test_a_set_that_is_absent_may_have_values_in_its_buffer() -> None:
    ends, values_below = pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5])
    lists = pa.ListArray.from_arrays(ends, values_below, mask=pa.array([False, True, False]))
    batch = batch_of([{"c4": 2}, {"c4": 3}, {"c4": 3}], WIDE)
    node = In(Column("c4"), (Parameter(0, "bigint", many=True),))

    assert evaluate(node, batch, {}, pa.record_batch({"p0": lists})).to_pylist() == [
        True, None, False]  # fmt: skip
    cut = pa.record_batch({"p0": lists[1:]})
    assert evaluate(node, batch[1:], {}, cut).to_pylist() == [None, False]


@given(rows(WIDE), st.data())
def test_patterns_that_differ_from_row_to_row(given_rows: list[Row], data: Any) -> None:
    texts = st.none() | values(pa.string())
    drawn = [data.draw(texts) for _ in given_rows]
    subject, pattern = Column("c9"), Parameter(0, "text")
    aligned = pa.record_batch({"p0": pa.array(drawn, pa.string())})
    for node in (
        Like(subject, pattern),
        Like(subject, pattern, "\\", ignore_case=True),
        Call("replace", (subject, pattern, Literal("x"))),
        Call("strpos", (subject, pattern)),
        Call("split_part", (subject, pattern, Literal(-1))),
    ):
        found = evaluate(node, batch_of(given_rows, WIDE), {}, aligned).to_pylist()
        assert found == [
            value_of(node, row, World(WIDE, {0: each}))
            for row, each in zip(given_rows, drawn, strict=True)
        ]


def test_a_text_that_is_no_regular_expression_makes_null() -> None:
    batch = batch_of([{"c9": "a"}, {"c9": "b"}, {"c9": "b"}], WIDE)
    patterns = pa.record_batch({"p0": ["a", "(", "^b$"]})
    node = Matches(Column("c9"), Parameter(0, "text"))

    assert evaluate(node, batch, {}, patterns).to_pylist() == [True, None, True]


def test_texts_of_a_parameter_are_read_as_instants_beside_them() -> None:
    days = pa.array([19844, 19845], pa.int32()).cast(pa.date32())
    batch = batch_of([{}, {}], WIDE).set_column(11, "c11", days)
    node = Compare("=", Column("c11"), Parameter(0, "text"))
    assert bind_condition(node, WIDE, {}) == node

    for text, expected in (("2024-05-01", [True, False]), ("soon", [None, None])):
        assert evaluate(node, batch, {}, {0: pa.scalar(text)}).to_pylist() == expected
    either = In(Column("c11"), (Parameter(0, "text", many=True),))
    texts = pa.scalar(["soon", "2024-05-02"], pa.list_(pa.string()))
    assert evaluate(either, batch, {}, {0: texts}).to_pylist() == [None, True]


def test_a_call_is_made_once_for_a_batch() -> None:
    n_calls = 0

    def twice(numbers: pa.Array) -> pa.Array:
        nonlocal n_calls
        n_calls += 1
        return pc.multiply(numbers, 2)

    batch, memo = batch_of([{"c4": 1}, {"c4": None}], WIDE), Memo()
    for constant in range(3):
        node = Compare(">", Call("twice", (Column("c4"),)), Literal(constant))
        found = evaluate(node, batch, {"twice": twice}, memo=memo)
        assert found.to_pylist() == [constant < 2, None]
    assert n_calls == 1


def test_calls_are_told_apart_by_what_python_takes_as_equal() -> None:
    batch, memo = batch_of([{"c4": 1}], WIDE), Memo()
    for constant in (Literal(1), Literal(value=True), Literal(1.0)):
        found = evaluate(Call("same", (constant,)), batch, {"same": lambda x: x}, memo=memo)
        assert found.type == pa.scalar(constant.value).type


def test_a_call_of_a_parameter_is_made_for_each_value() -> None:
    batch, memo = batch_of([{"c4": 1}], WIDE), Memo()
    node = Call("same", (Parameter(0, "bigint"),))
    for value in (1, 2):
        found = evaluate(node, batch, {"same": lambda x: x}, {0: pa.scalar(value)}, memo=memo)
        assert found.to_pylist() == [value]


@pytest.mark.parametrize("leaning_left", [True, False])
@pytest.mark.parametrize("kind", [Both, Either])
def test_a_chain_may_be_long(kind: Any, leaning_left: bool) -> None:  # noqa: FBT001
    node: Expression = Compare(">", Column("c4"), Literal(-2))
    operator: Comparison = "<>" if kind is Both else "="
    for at in range(5000):
        link = Compare(operator, Column("c4"), Literal(at))
        node = kind(node, link) if leaning_left else kind(link, node)
    batch = batch_of([{"c4": -1}, {"c4": 7}, {"c4": None}, {"c4": -5}], WIDE)

    bound = bind_condition(node, WIDE, {})

    assert evaluate(bound, batch, {}).to_pylist() == [True, kind is Either, None, False]
    assert hash(bound) == hash(bind_condition(node, WIDE, {}))  # no deep recursion is left
