"""Stages: where plans are cut, how often rows travel, and what is said about it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from millrace.lang.relational.bound import bind_relational
from millrace.plan.declared import Declared
from millrace.plan.journeys import journeys
from millrace.plan.placement import EVERYWHERE, FIRST, Placing
from millrace.plan.push import Pushing
from millrace.plan.relation_json import plan_from_json, plan_to_json
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import Hop, Relation, StreamOf, Windowed
from millrace.plan.scopes import inputs
from millrace.plan.stages import MOST_HOPS, Staging, Way, stage_of
from millrace.plan.tree import tree
from millrace.plan.unnest import Unnesting
from millrace.schema import Schema
from millrace.testing.relation_strategies import plans
from millrace.testing.relation_worlds import DECLARED as DRAWN

DECLARED = Declared(
    {"s": Schema.of("k int, v int, u text"), "t": Schema.of("k int, w int, v int")},
    {"r": Schema.of("k int, name text")},
)
DEEP = """
SELECT n, count(*) AS m FROM (
  SELECT z.v, z.n FROM (
    SELECT t.v, sum(y.n) AS n FROM (
      SELECT s.v, count(*) AS n FROM s [RANGE 3 s], t [RANGE 3 s] WHERE s.k = t.k GROUP BY s.v
    ) y, t [RANGE 3 s] WHERE t.k = y.n GROUP BY t.v
  ) z, s [RANGE 3 s] WHERE s.u = 'a' AND s.v = z.n
) GROUP BY n
"""


def relation_of(text: str) -> Relation:
    plan = bind_relational(text, DECLARED).plan
    relation = plan.relation if isinstance(plan, StreamOf) else plan
    return Unnesting(DECLARED).relation(Pushing(DECLARED).relation(relation))


def cut(text: str) -> Way:
    way = Staging(DECLARED).cut(relation_of(text))
    assert way is not None
    return way


@pytest.mark.parametrize(
    ("text", "columns", "told"),
    [
        (
            "SELECT s.v, count(*) AS n FROM s [RANGE 3 s], t [RANGE 3 s] WHERE s.k = t.k "
            "GROUP BY s.v",
            {"s": "k", "t": "k"},
            [(1, "rows of binary-join travel by s.v")],
        ),
        (
            "SELECT x.k FROM s [RANGE 3 s] x, s [RANGE 3 s] y, s [RANGE 3 s] z "
            "WHERE x.k = y.k AND y.v = z.v",
            {"s": "k"},
            [
                (1, "rows of binary-join travel by y.v"),
                (1, "rows of seq-window travel by z.v"),
                (2, "rows of binary-join travel by k"),
            ],
        ),
        (
            "SELECT max(n) AS most FROM (SELECT k, count(*) AS n FROM s [RANGE 3 s] GROUP BY k)",
            {"s": "k"},
            [
                (
                    1,
                    "rows of aggregate travel to the first shard: an aggregate without GROUP BY "
                    "needs all rows",
                )
            ],
        ),
        (
            "SELECT s.k, s.v FROM s [ROWS 5], t [RANGE 3 s] WHERE s.k = t.k",
            {"s": FIRST, "t": "k"},
            [
                (1, "rows of seq-window travel by s.k"),
                (1, "rows of seq-window wait where they are"),
            ],
        ),
        (
            "SELECT k FROM s [RANGE 3 s] WHERE v > (SELECT avg(w) FROM t [RANGE 3 s])",
            {"s": "k", "t": FIRST},
            [
                (1, "rows of seq-window wait where they are"),
                (1, "rows of aggregate travel to every shard"),
            ],
        ),
        (
            "SELECT r.name, count(*) AS n FROM s [RANGE 3 s] JOIN r ON s.k = r.k GROUP BY r.name",
            {"s": "k", "r": "k"},
            [(1, "rows of binary-join travel by r.name")],
        ),
        (
            "SELECT v % 2 AS odd, count(*) AS n FROM s [RANGE 3 s] GROUP BY v % 2",
            {"s": "k"},
            [(1, "rows of seq-window travel by s.v % 2")],
        ),
        (
            "SELECT t.v, count(*) AS n FROM s [RANGE 3 s] JOIN t [RANGE 3 s] ON s.k = t.k "
            "JOIN r ON s.k < r.k GROUP BY t.v",
            {"s": "k", "t": "k", "r": EVERYWHERE},
            [(1, "rows of binary-join travel by t.v")],
        ),
    ],
)
def test_a_plan_is_cut_where_operators_do_not_agree(
    text: str, columns: dict[str, str], told: list[tuple[int, str]]
) -> None:
    way = cut(text)

    assert way.spread.columns() == columns
    assert journeys(StreamOf("istream", way.node), Placing(DECLARED, columns)) == told


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM s [RANGE 3 s]",
        "SELECT v FROM s [ROWS 2]",
        "SELECT k, count(*) AS n FROM s [ROWS 9] GROUP BY k",
        "SELECT s.k FROM s [RANGE 3 s], t [RANGE 3 s] WHERE s.v < t.w",
    ],
)
def test_what_would_travel_to_one_shard_only_is_there_from_the_beginning(text: str) -> None:
    assert Staging(DECLARED).cut(relation_of(text)) is None


def test_what_would_travel_too_often_ends_in_the_first_shard() -> None:
    way = cut(DEEP)
    columns = way.spread.columns()
    assert columns is not None

    told = journeys(StreamOf("istream", way.node), Placing(DECLARED, columns))

    assert stage_of(way.node) == MOST_HOPS
    assert way.spread.first
    assert (3, "rows of binary-join travel to the first shard: rows travel 3 times at most") in told


def test_columns_that_nobody_reads_stay_behind() -> None:
    join = "FROM s [RANGE 3 s], t [RANGE 3 s] WHERE s.k = t.k"

    grouped = tree(cut(f"SELECT s.v, sum(w) AS n {join} GROUP BY s.v").node)
    counted = tree(cut(f"SELECT count(*) AS n {join}").node)

    assert [line.strip() for line in grouped[2:4]] == ["hop 1", "project s.v, t.w"]
    assert [line.strip() for line in counted[2:4]] == ["hop 1", "project 0 as s.k"]


@settings(max_examples=50)
@given(plans(3))
def test_a_plan_that_is_cut_has_the_same_columns_and_inputs_of_one_stage(plan: Relation) -> None:
    relation = Unnesting(DRAWN).relation(plan)
    way = Staging(DRAWN).cut(relation)
    if way is None:
        return

    assert relation_schema(way.node, DRAWN) == relation_schema(relation, DRAWN)
    assert plan_from_json(plan_to_json(way.node)) == way.node
    assert 1 <= stage_of(way.node) == way.number <= MOST_HOPS
    check_stages(way.node)


def check_stages(node: Relation) -> None:
    below = list(inputs(node))
    if isinstance(node, Windowed) and isinstance(node.stream, StreamOf):
        below.append(node.stream.relation)
    for each in below:
        check_stages(each)
        if isinstance(node, Hop):
            assert stage_of(each) < node.number
        else:
            assert stage_of(each) == stage_of(node)
