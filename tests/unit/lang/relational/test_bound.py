"""What is known of a bound query beside its plan: types, positions, warnings, parameters."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from millrace.lang.binder import bind_query
from millrace.lang.errors import LanguageError
from millrace.lang.relational.bound import BoundRelation, bind_any, bind_relational
from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Column,
    Compare,
    Expression,
    Literal,
    Parameter,
)
from millrace.plan.nodes import Selection
from millrace.plan.relation_types import Declared
from millrace.plan.relations import Aggregate, Filter, Group, Project, Relation, StreamOf
from millrace.schema import Schema

Bind = Callable[[str], BoundRelation]


def below(bound: BoundRelation) -> Relation:
    """Return what stands below the final projection."""
    plan = bound.plan.relation if isinstance(bound.plan, StreamOf) else bound.plan
    assert isinstance(plan, Project)
    return plan.input


def condition(bound: BoundRelation) -> Expression:
    node = below(bound)
    assert isinstance(node, Filter)
    return node.condition


@pytest.mark.parametrize(
    ("item", "type_name"),
    [
        ("count(*)", "int64"),
        ("count(c)", "int64"),
        ("sum(a)", "int64"),
        ("sum(b)", "double"),
        ("sum(CAST(a AS DECIMAL(10, 2)))", "decimal128(38, 2)"),
        ("avg(a)", "double"),
        ("min(c)", "string"),
        ("max(ts)", "timestamp[us, tz=UTC]"),
        ("var_pop(a)", "double"),
        ("stddev(b)", "double"),
        ("median(a)", "double"),
        ("percentile_disc(a, 0.5)", "int32"),
        ("first(c)", "string"),
        ("array_agg(a)", "list<item: int32>"),
        ("bool_or(a > 1)", "bool"),
        ("sum(a) / 2", "int64"),
        ("(SELECT max(k) FROM u)", "int32"),
        ("EXISTS (SELECT 1 FROM u)", "bool"),
    ],
)
def test_an_aggregate_has_the_type_of_its_values(item: str, type_name: str, bind: Bind) -> None:
    found = bind(f"SELECT {item} AS x, count(*) AS n FROM s [ROWS 9]").schema.type_of("x")

    assert str(found) == type_name


def test_constants_have_the_type_of_what_they_stand_beside(bind: Bind) -> None:
    bound = bind(
        "SELECT max(b) AS x FROM s [ROWS 9] WHERE ts > '2024-05-01' GROUP BY c HAVING max(b) > 5"
    )

    assert condition(bound) == Compare(">", Column("#1"), Literal(5.0))


def test_an_answer_of_a_subquery_gives_its_type_to_a_constant(bind: Bind) -> None:
    bound = bind("SELECT a FROM s WHERE 5 > (SELECT max(d) FROM t)")

    assert condition(bound) == Compare(">", Literal(5.0), Column("#2"))


def test_parameters_are_known_by_their_numbers(bind: Bind) -> None:
    bound = bind("SELECT k FROM u, s WHERE b > :Low AND a IN (:keys)")

    found = condition(bound)

    assert isinstance(found, Both)
    assert found.left == Compare(">", Column("s.b"), Parameter(0, "double"))
    assert bound.parameters == ("low", "keys")


def test_a_constant_remembers_where_it_was_written(bind: Bind) -> None:
    text = "SELECT c FROM s [ROWS 9] WHERE b > 1.5 GROUP BY c HAVING count(*) > 70"
    bound = bind(text)

    found = condition(bound)

    assert isinstance(found, Compare)
    origin = bound.notes.origin(found.right)
    assert origin is not None
    assert text[origin.first :] == "70"
    span = bound.notes.span(found)
    assert span is not None
    assert text[span.first : span.stop] == "count(*) > 70"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a / 10 AS x, count(*) FROM s [ROWS 9] GROUP BY x",
        "SELECT sum(a + 10) AS x, sum(a + 10) AS y FROM s [ROWS 9]",
    ],
)
def test_a_constant_that_must_be_the_same_twice_is_part_of_the_shape(text: str, bind: Bind) -> None:
    bound = bind(text)
    group = below(bound)
    assert isinstance(group, Group)
    values = [each.value for each in group.keys]
    values += [each.operand for each in group.aggregates if each.operand is not None]

    (constant,) = [each.right for each in values if isinstance(each, Arithmetic)]

    assert constant == Literal(10)
    assert bound.notes.origin(constant) is None


@pytest.mark.parametrize(
    ("text", "code", "marked"),
    [
        ("SELECT a FROM s [RANGE 5 s SLIDE 10 s]", "CQL015", "[RANGE 5 s SLIDE 10 s]"),
        ("SELECT a FROM s [ROWS 5 SLIDE 10]", "CQL015", "[ROWS 5 SLIDE 10]"),
        (
            "SELECT * FROM S0 WHERE S0 IN (SELECT * FROM S0 [ROWS 9])",
            "CQL043",
            "(SELECT * FROM S0 [ROWS 9])",
        ),
    ],
)
def test_what_is_hardly_meant_is_said(text: str, code: str, marked: str, bind: Bind) -> None:
    (caution,) = bind(text).cautions

    assert caution.code == code
    assert caution.source[caution.span.first : caution.span.stop] in marked
    assert caution.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM S0 [NOW] WHERE S0 IN (SELECT * FROM S0 [ROWS 9])",
        "SELECT * FROM S0 WHERE S0 IN (SELECT A FROM S1)",
        "SELECT a FROM s [RANGE 10 s SLIDE 10 s]",
    ],
)
def test_what_may_well_be_meant_is_not(text: str, bind: Bind) -> None:
    assert bind(text).cautions == ()


def test_a_registered_function_of_the_name_of_an_aggregate_is_a_function() -> None:
    declared = Declared({"s": Schema.of("a int")}, functions={"first": pa.int64()})

    bound = bind_relational("SELECT first(a) AS x FROM s [ROWS 9]", declared)

    assert isinstance(bound.plan, Project)
    assert bound.plan.outputs[0].value == Call("first", (Column("s.a"),))


def test_an_aggregate_of_one_group_is_computed_once(bind: Bind) -> None:
    bound = bind("SELECT count(*) AS n FROM s [ROWS 9] HAVING count(*) > 1 AND max(a) < count(*)")

    filtered = below(bound)

    assert isinstance(filtered, Filter)
    assert isinstance(filtered.input, Group)
    assert [each.kind for each in filtered.input.aggregates] == ["count", "max"]
    assert filtered.input.aggregates[0] == Aggregate("#1", "count")


class TestAny:
    """Selections stay selections; everything else is a plan of relations."""

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT a FROM s WHERE b > 1.5",
            "SELECT ISTREAM(*) FROM s [ROWS UNBOUNDED] AS x WHERE x.a IN (1, 2)",
            "RSTREAM(SELECT a + 1 AS y FROM s [NOW])",
        ],
    )
    def test_a_selection_is_what_it_was(self, text: str, declared: Declared) -> None:
        bound = bind_any(text, declared)

        assert isinstance(bound, Selection)
        assert bound == bind_query(text, declared.streams)

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT a FROM s [ROWS 3]",
            "SELECT k FROM lim",
            "SELECT first(a, b) FROM s",
            "SELECT a FROM s LIMIT 3",
            "SELECT x FROM s AS q(x)",
            "SELECT q.a FROM ISTREAM(SELECT a FROM s [ROWS 2]) AS q",
            "SELECT a FROM s BEGIN NOW - 5 s END NOW",
        ],
    )
    def test_more_than_a_selection_is_a_relation(self, text: str, declared: Declared) -> None:
        assert isinstance(bind_any(text, declared), BoundRelation)

    def test_what_is_wrong_with_a_selection_is_said_as_before(self, declared: Declared) -> None:
        with pytest.raises(LanguageError) as told:
            bind_any("SELECT bb FROM s", declared)
        with pytest.raises(LanguageError) as before:
            bind_query("SELECT bb FROM s", declared.streams)

        assert str(told.value) == str(before.value)


def test_a_query_may_nest_as_deep_as_it_is_written(bind: Bind) -> None:
    text = "SELECT a FROM s"
    for _ in range(60):
        text = f"SELECT a FROM ({text}) AS q"

    assert bind(text).monotonic
