"""Plans as trees: STREAM's names of operators, one on each line."""

from __future__ import annotations

import pytest

from millrace.lang.relational.bound import bind_relational
from millrace.plan.declared import Declared
from millrace.plan.gathering import why_gathered
from millrace.plan.placement import Placing
from millrace.plan.relations import StreamOf
from millrace.plan.tree import operator_name, tree
from millrace.plan.unnest import Unnesting
from millrace.schema import Schema

DECLARED = Declared(
    {"s": Schema.of("k text, v int, ts timestamp"), "t": Schema.of("k text, w int")}
)


def plan_of(text: str) -> StreamOf:
    plan = bind_relational(text, DECLARED, times={"s": "ts"}).plan
    return plan if isinstance(plan, StreamOf) else StreamOf("istream", plan)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "SELECT DISTINCT k FROM s WHERE v > 1",
            """\
istream
  duplicate-eliminate
    project s.k as k
      select s.v > 1
        seq-window s [all]""",
        ),
        (
            "RSTREAM(SELECT k, count(*) AS n FROM s [RANGE 5 s SLIDE 1 s] x GROUP BY k) EVERY 5 s",
            """\
rstream every 5 seconds
  project x.k as k, #1 as n
    aggregate by x.k: count(*) as #1
      seq-window s [range 5 seconds slide 1 second] as x""",
        ),
        (
            "DSTREAM(SELECT s.k FROM s [ROWS 2] LEFT JOIN t [PARTITION BY k ROWS 1] ON s.k = t.k)",
            """\
dstream
  project s.k as k
    binary-join left on s.k = t.k
      seq-window s [rows 2]
      seq-window t [by k rows 1]""",
        ),
        (
            "SELECT k FROM s [NOW] EXCEPT ALL "
            "SELECT k FROM ISTREAM(SELECT k FROM t [ROWS 1]) [NOW] x",
            """\
istream
  except all
    project s.k as k
      seq-window s [now]
    project x.k as k
      seq-window [now] as x
        istream
          project t.k as k
            seq-window t [rows 1]""",
        ),
        (
            "SELECT k FROM s [NOW] WHERE v > 1 AND k IN (SELECT k FROM t) "
            "AND NOT EXISTS (SELECT 1 FROM t WHERE w = v)",
            """\
istream
  project s.k as k
    antijoin not exists
      semijoin s.k in
        select s.v > 1
          seq-window s [now]
        project t.k as k
          seq-window t [all]
      project 1 as column_1
        select t.w = s.v
          seq-window t [all]""",
        ),
        (
            "SELECT k FROM s [NOW] WHERE v > (SELECT max(w) FROM t) "
            "ORDER BY v DESC LIMIT 2 OFFSET 1",
            """\
istream
  project k
    top 2 behind 1 by #3 desc
      project s.k as k, s.v as #3
        select s.v > #2
          subquery #2 = scalar
            seq-window s [now]
            project #1 as column_1
              aggregate: max(t.w) as #1
                seq-window t [all]""",
        ),
    ],
)
def test_a_plan_has_an_operator_on_each_line(text: str, lines: str) -> None:
    assert "\n".join(tree(plan_of(text))) == lines


def test_an_operator_has_a_name() -> None:
    plan = plan_of("SELECT count(*) AS n FROM s [ROWS 2]")

    assert operator_name(plan) == "istream"
    assert operator_name(plan.relation) == "project"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT k FROM s [ROWS 2]", "the last rows of a whole stream are counted in one place"),
        ("SELECT max(v) AS top FROM s", "an aggregate without GROUP BY needs all rows"),
        (
            "SELECT v + 1 AS more, count(*) AS n FROM s GROUP BY v + 1",
            "groups are not by a column by which rows are spread",
        ),
        (
            "SELECT s.k FROM s JOIN t ON v < w",
            "a join that is not by equal columns of both sides needs all rows",
        ),
        (
            "SELECT DISTINCT v + 1 AS more FROM s",
            "equal rows have to meet, and no column of theirs decides where",
        ),
        ("SELECT k FROM s ORDER BY v LIMIT 2", "the first rows are chosen from all of them"),
        ("SELECT v + 1 AS more FROM s", "no column of the answer is one by which rows are spread"),
        (
            "SELECT x.k FROM s x JOIN s y ON x.k = y.k JOIN s z ON y.v = z.v",
            "a join that is not by equal columns of both sides needs all rows",
        ),
    ],
)
def test_what_needs_all_rows_in_one_place_is_named(text: str, reason: str) -> None:
    plan = Unnesting(DECLARED).stream(plan_of(text))
    assert isinstance(plan, StreamOf)

    assert Placing(DECLARED).columns(plan) is None
    assert why_gathered(plan, Placing(DECLARED)) == reason
