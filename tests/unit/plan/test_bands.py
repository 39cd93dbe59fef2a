"""Joins by bands as joins by ranges: which ones, by which columns, and which stay as they are."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from millrace.lang.relational.bound import bind_relational
from millrace.plan.bands import Banded, banded, laid_declared
from millrace.plan.declared import Declared
from millrace.plan.push import Pushing
from millrace.plan.relation_json import plan_from_json, plan_to_json
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import StreamOf
from millrace.plan.tree import tree
from millrace.plan.unnest import Unnesting
from millrace.schema import Schema

NUMBERS = Schema.of("k int, x int, y double, f real, d decimal(9, 2), name text, ts timestamp")
DECLARED = Declared({"a": NUMBERS, "b": NUMBERS, "c": NUMBERS}, {"r": NUMBERS})
TIMES = dict.fromkeys(DECLARED.streams, "ts")
PAIR = "SELECT a.k, b.k AS other FROM a [RANGE 3 s], b [RANGE 4 s] WHERE "
TRIPLE = "SELECT a.k FROM a [RANGE 3 s], b [RANGE 4 s], c [RANGE 2 s] WHERE "


def found(text: str, told: Collection[str] | None = None) -> Banded | None:
    bound = bind_relational(text, DECLARED, views={}, times=TIMES, parameters={"p": "int"}).plan
    stream = bound if isinstance(bound, StreamOf) else StreamOf("istream", bound)
    plain = Unnesting(DECLARED).stream(Pushing(DECLARED).stream(stream))
    assert isinstance(plain, StreamOf)
    return banded([plain], DECLARED, told)


@pytest.mark.parametrize(
    "condition",
    [
        "a.x - b.x BETWEEN -5 AND 5",
        "abs(a.x - b.x) <= 5",
        "abs(b.x - a.x) < 5",
        "5 >= abs(a.x - b.x)",
        "a.x BETWEEN b.x - 5 AND b.x + 5",
        "a.x < b.x + 5 AND b.x < a.x + 5",
        "-a.x + 1 < 6 - b.x AND a.x - 5 <= b.x",
        "CAST(a.x AS bigint) - b.x <= :p AND a.x - b.x >= -:p",
        "a.x = b.x + :p AND a.name < b.name",
        "abs(a.x - b.x) <= 5 AND (a.name = 'u' OR b.name = 'v')",
        "abs(a.y - b.x) <= 5 AND a.k < b.k",
    ],
)
def test_a_band_has_two_ends(condition: str) -> None:
    made = found(PAIR + condition)

    assert made is not None
    assert [each.anchor for each in made.laid] == [True, False]
    assert not any(each.one_sided for each in made.laid)


@pytest.mark.parametrize("condition", ["a.x < b.x", "a.y >= b.x + 3", "a.x - b.y > 2.5"])
def test_or_one(condition: str) -> None:
    made = found(PAIR + condition)

    assert made is not None
    assert [each.one_sided for each in made.laid] == [False, True]


@pytest.mark.parametrize(
    "condition",
    [
        "a.x + b.x < 5",
        "a.x * 2 - b.x < 5",
        "a.f - b.f BETWEEN -5 AND 5",
        "a.d - b.d BETWEEN -5 AND 5",
        "a.x <> b.x",
        "a.name < b.name",
        "abs(a.x - b.x) > 5",
        "CAST(a.y AS int) - b.x BETWEEN -5 AND 5",
        "a.x - b.x < 5 OR a.x = 3",
        "a.x - a.k < 5",
        "a.x - b.x < a.k",
    ],
)
def test_other_conditions_bind_nothing(condition: str) -> None:
    assert found(PAIR + condition) is None


def test_steps_of_a_line_lead_to_the_anchor() -> None:
    made = found(TRIPLE + "a.x - b.x BETWEEN 1 AND 2 AND abs(c.y - b.x) <= 3")

    assert made is not None
    assert [[*map(len, each.paths)] for each in made.laid] == [[1], [], [1]]
    assert plan_from_json(plan_to_json(made.laid)) == made.laid


def test_a_line_with_two_ends_is_better() -> None:
    made = found(PAIR + "a.k < b.k AND abs(a.x - b.y) <= 3")

    assert made is not None
    assert [each.column for each in made.laid] == ["x", "y"]


def test_the_anchor_may_have_to_be_told() -> None:
    made = found(PAIR + "abs(a.x - b.y) <= 3", told=["b.y", "a.k"])

    assert made is not None
    assert [each.anchor for each in made.laid] == [False, True]
    assert found(PAIR + "abs(a.x - b.y) <= 3", told=["a.k"]) is None


def test_a_stream_that_is_joined_with_itself_is_marked_where_it_is_at_home() -> None:
    made = found("SELECT p.k FROM a [RANGE 3 s] p, a [RANGE 3 s] q WHERE p.x - q.x BETWEEN 1 AND 2")

    assert made is not None
    [laid] = made.laid
    assert laid.anchor
    assert [each.name for each in laid.columns] == ["~cell", "~home"]
    assert sum("~home" in line for line in tree(made.streams[0])) == 1


@pytest.mark.parametrize(
    "text",
    [
        TRIPLE + "abs(a.x - b.x) <= 3 AND a.name = c.name",
        TRIPLE + "abs(a.x - b.x) <= 3 AND abs(b.y - c.y) <= 3",
        "SELECT p.k FROM a [RANGE 3 s] p, a [RANGE 3 s] q WHERE abs(p.x - q.y) <= 2",
        "SELECT a.k FROM a [ROWS 3], b [RANGE 3 s] WHERE abs(a.x - b.x) <= 2",
        "SELECT a.k FROM a [RANGE 3 s] LEFT JOIN b [RANGE 3 s] ON abs(a.x - b.x) <= 2",
        "SELECT a.k FROM a [RANGE 3 s], r WHERE abs(a.x - r.x) <= 2",
        PAIR + "abs(a.x - b.x) <= 3 UNION ALL SELECT c.k, c.k AS other FROM a [RANGE 1 s] c",
    ],
    ids=["two lines", "two columns", "of itself", "rows", "outer", "table", "read elsewhere"],
)
def test_what_no_line_leads_through_stays_as_it_is(text: str) -> None:
    assert found(text) is None


def test_the_plan_tells_what_it_told() -> None:
    made = found("SELECT DISTINCT a.k, b.y FROM a [RANGE 3 s], b [RANGE 3 s] WHERE a.x < b.y")

    assert made is not None
    wide = laid_declared(DECLARED, made.laid)
    assert relation_schema(made.streams[0].relation, wide).names == ("k", "y")
