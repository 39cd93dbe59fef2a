"""Binding: whatever it lets through runs; what it refuses says why (see also test_session)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from millrace.errors import MillraceError, PlanError, SchemaError, UnknownNameError
from millrace.operators.select import matching, project
from millrace.plan.bind import (
    bind_condition,
    bind_selection,
    nearest,
    output_schema,
    type_of,
)
from millrace.plan.expressions import (
    COMPARISONS,
    Case,
    Column,
    Compare,
    Expression,
    Literal,
    Not,
    Parameter,
    walk,
)
from millrace.plan.nodes import select
from millrace.plan.spelling import to_text
from millrace.plan.term import Term, call, col, expression
from millrace.schema import Schema, type_named

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


_MIXED = "CASE WHEN b THEN 1 ELSE 'x' END mixes bigint with text"
REFUSED: dict[str, tuple[Term | Expression, type[MillraceError], str, Expression | None]] = {
    "a column": (col("dd") > 1, SchemaError, 'column "dd" does not exist', Column("dd")),
    "a number and a text": (col("i") < col("s"), PlanError, "compares bigint with text", None),
    "a text constant beside a number": (col("i") < "7", PlanError, "bigint with text", None),
    "an option of another kind": (col("i").isin([1, "x"]), PlanError, "bigint with text", None),
    "a text beside a date that is no constant": (
        col("day") < col("s"), PlanError, "compares date with text", None),
    "no condition": (~(col("i")), PlanError, "bigint where a condition is needed", Column("i")),
    "a sum of texts": (col("s") + 1 > 2, PlanError, r"s \+ 1 computes \+ of text and bigint", None),
    "a sign of a text": (-col("s") > 2, PlanError, "-s computes - of text", None),
    "numbers joined": (col("i").concat("x") > "", PlanError, r"\|\| of bigint and text", None),
    "digits of a product": (col("m") * col("m") > 1, PlanError, "60 digits behind the poi", None),
    "branches": (Case(((Column("b"), Literal(1)),), Literal("x")), PlanError, _MIXED, None),
    "a branch without a condition": (
        Case(((Column("i"), Literal(1)),), Literal(2)), PlanError, "a condition", Column("i")),
    "a cast": (col("b").cast("date"), PlanError, "boolean cannot be cast to date", None),
    "a type": (col("b").cast("bool8"), SchemaError, 'type "bool8" does not exist', None),
    "a function": (call("rounf", 1), UnknownNameError, '(?s)"rounf" does not.*mean "round"', None),
    "too few arguments": (
        call("substring", "x"), PlanError,
        r"(?s)does not take \(text\).*substring\(text, integer, \[integer\]\)", None),
    "an argument of another kind": (
        call("year", col("s")), PlanError, r"(?s)take \(text\).*year\(date or timestamp\)", None),
    "a unit": (
        call("date_trunc", "minut", col("ts")), PlanError, '(?s)"minut" is not.*mean "minute"',
        Literal("minut")),
    "a regular expression": (
        col("s").matches("(a"), PlanError, r"(?s)'\(a' is not a regular.*missing \)",
        Literal("(a")),
    "a backreference": (col("s").matches(r"(a)\1"), PlanError, "without backreferences", None),
    "a long pattern": (col("s").matches("a" * 10_001), PlanError, "10000 are allowed", None),
    "an escape": (col("s").like("x", escape="ab"), PlanError, "'ab' is not one character", None),
    "an escape at the end": (
        col("s").like("x!", escape="!"), PlanError, "ends with the escape", Literal("x!")),
    "a pattern of numbers": (col("i").like("1%"), PlanError, "i is bigint where a text", None),
    "flags": (
        call("regexp_replace", col("s"), "a", "b", "z"), PlanError, "'z' are not", Literal("z")),
    "a group of the replacement": (
        call("regexp_replace", col("s"), "a", r"\1"), PlanError, "does not replace", None),
    "a set outside of IN": (
        Compare("=", Column("i"), Parameter(0, "bigint", many=True)), PlanError, "a set", None),
    "a moment without a zone": (
        col("ts") > datetime(2024, 1, 1), PlanError, "has no time zone", None),  # noqa: DTZ001
    "half a pair": (col("s") == "\ud800", PlanError, "half of a surrogate pair", None),
    "too many digits": (col("m") > Decimal("1" * 39), PlanError, "more than the 38 digits", None),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_with_the_node_that_is_to_blame(name: str) -> None:
    refused, error, words, node = REFUSED[name]

    with pytest.raises(error, match=words) as caught:
        bind_selection(select("s", c=refused), SCHEMA, {})

    whole = expression(refused)
    assert caught.value.node in set(walk(whole))
    if node is not None:
        assert caught.value.node == node


def test_depth_has_a_limit() -> None:
    node: Expression = Column("b")
    for _ in range(10_000):
        node = Not(node)

    with pytest.raises(PlanError, match="nested too deeply"):
        type_of(node, SCHEMA, {})


def test_texts_beside_instants_become_instants() -> None:
    asked = (col("ts") > "2024-05-01T12:00+02:00") & col("day").isin(["2024-05-01", "2024-05-02"])

    bound = bind_condition(asked.node, SCHEMA, {})

    assert to_text(bound) == (
        "ts > TIMESTAMP '2024-05-01 10:00:00' AND day IN (DATE '2024-05-01', DATE '2024-05-02')"
    )


@pytest.mark.parametrize(
    ("term", "name"),
    [
        (col("t") + col("t"), "bigint"),
        (col("t") / 2, "bigint"),
        (col("m") + col("t"), "decimal(38,30)"),
        (col("n") / col("n"), "double"),
        (col("f") * col("f"), "double"),
        (call("coalesce", col("t"), None), "tinyint"),
        (call("coalesce", col("t"), col("i")), "bigint"),
        (call("coalesce", col("f"), col("i")), "double"),
        (call("greatest", col("day"), col("ts")), "timestamp"),
        (call("abs", None), "bigint"),
        (call("round", col("m"), 2), "decimal(38,30)"),
        (col("i") + None, "bigint"),
        (expression(Decimal("12.50")), "decimal(4,2)"),
        (expression(Decimal("0.05")), "decimal(2,2)"),
        (Parameter(0, "decimal(5,2)"), "decimal(5,2)"),
        (call("mine", 1), "date"),
    ],
)
def test_types(term: object, name: str) -> None:
    assert type_of(expression(term), SCHEMA, {"mine": pa.date32()}) == type_named(name)


def test_the_nearest_word_is_named_if_one_is_near() -> None:
    assert nearest("prise", ["price", "symbol"]) == 'Did you mean "price"?'
    assert nearest("xyz", ["price", "symbol"]) == ""
