"""EXPLAIN of queries that are more than selections, word for word, and such queries in scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.cli import check, explain
from millrace.cli.dry_run import DryScript, dry_run
from millrace.cli.main import main
from millrace.errors import MillraceError, UnboundedError
from millrace.lang.errors import LanguageError
from millrace.plan.relations import Distinct, Source, Window, Windowed
from millrace.session.explanation import expanded_text

DECLARED = """\
CREATE STREAM trades (symbol text, price double, ts timestamp)
  TIMESTAMP BY ts DELAY 2 SECONDS FROM files(path => '/nowhere/*.parquet');
CREATE STREAM quotes (symbol text, bid double, ts timestamp)
  TIMESTAMP BY ts FROM files(path => '/elsewhere/*.parquet');
"""


@pytest.fixture
def script() -> Iterator[DryScript]:
    with dry_run() as made:
        list(made.run(DECLARED))
        yield made


def told(script: DryScript, text: str) -> str:
    [outcome] = script.run(text)
    return outcome.message


MEANS = """\
query    SELECT symbol, avg(price) AS mean FROM trades [RANGE 5 minutes] GROUP BY symbol
answers  a relation: _change is 1 for a row that comes, -1 for one that goes
plan     project trades.symbol as symbol, #1 as mean
           aggregate by trades.symbol: avg(trades.price) as #1
             seq-window trades [range 5 minutes]
runs     in all shards side by side: rows are spread, trades by symbol
stores   stream     trades           about 48 bytes a row, for the rows of the last 5 minutes 2 \
seconds, shared with other queries
         aggregate  r1.all.n.counts  about 124 bytes a row, for the groups of the rows of trades \
of the last 5 minutes
results  appear when the watermark passes: trades is complete 2 seconds behind its newest row"""


def test_a_standing_query_is_explained_by_its_name(script: DryScript) -> None:
    asked = "SELECT symbol, avg(price) AS mean FROM trades [RANGE 5 MINUTES] GROUP BY symbol"

    assert told(script, f"CREATE QUERY means AS {asked}") == 'query "means" stands'
    assert told(script, "EXPLAIN QUERY means") == MEANS
    assert told(script, f"EXPLAIN {asked}") == MEANS
    analyzed = told(script, "EXPLAIN ANALYZE QUERY means").splitlines()
    assert [line for line in analyzed if not line.startswith("work")] == MEANS.splitlines()
    assert told(script, f"EXPLAIN ANALYZE {asked}").splitlines() == analyzed


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            "SELECT DISTINCT symbol FROM trades",
            """\
query    ISTREAM(SELECT DISTINCT symbol FROM trades [RANGE UNBOUNDED])
answers  a stream: each row is told once
plan     istream
           duplicate-eliminate
             project trades.symbol as symbol
               seq-window trades [all]
runs     in all shards side by side: rows are spread, trades by symbol
stores   stream               trades     about 48 bytes a row, for the rows of the last 2 seconds
         duplicate-eliminate  r2.counts  about 44 bytes a row, for the rows of trades since the \
query began
grows    DISTINCT remembers every different value of "trades"
results  appear when the watermark passes: trades is complete 2 seconds behind its newest row""",
        ),
        (
            "SELECT count(*) AS n FROM quotes [RANGE 5 s SLIDE 10 s]",
            """\
query    SELECT count(*) AS n FROM quotes [RANGE 5 seconds SLIDE 10 seconds]
caution  CQL015: the window slides by 10 seconds and is 5 seconds long. What falls between two \
windows is never seen.
answers  a relation: _change is 1 for a row that comes, -1 for one that goes
plan     project #1 as n
           aggregate: count(*) as #1
             seq-window quotes [range 5 seconds slide 10 seconds]
runs     in one shard: an aggregate without GROUP BY needs all rows
stores   stream     quotes           about 48 bytes a row, for the rows that are not complete
         aggregate  r1.all.n.due     about 48 bytes a row, for the ends of the groups by instant \
of the rows of quotes of the last 15 seconds
         aggregate  r1.all.n.counts  about 32 bytes a row, for the only group: about 1 row, 32 B
results  appear when the watermark passes: quotes is complete up to its newest row""",
        ),
        (
            "SELECT bid, count(*) AS n FROM trades [RANGE 5 s] t JOIN quotes [RANGE 5 s] q "
            "ON t.symbol = q.symbol GROUP BY bid ORDER BY count(*) DESC LIMIT 3",
            """\
query    SELECT bid, count(*) AS n FROM trades [RANGE 5 seconds] AS t JOIN quotes \
[RANGE 5 seconds] AS q ON t.symbol = q.symbol GROUP BY bid ORDER BY count(*) DESC LIMIT 3
answers  a relation: _change is 1 for a row that comes, -1 for one that goes
plan     top 3 by n desc
           project q.bid as bid, #1 as n
             aggregate by q.bid: count(*) as #1
               binary-join on t.symbol = q.symbol
                 seq-window trades [range 5 seconds] as t
                 seq-window quotes [range 5 seconds] as q
runs     in all shards side by side, in 3 stages: rows are spread, quotes by symbol, \
trades by symbol
hop 1    rows of binary-join travel by q.bid
hop 2    rows of aggregate travel to the first shard: the first rows are chosen from all of them
stores   stream     trades           about 48 bytes a row, for the rows of the last 7 seconds, \
shared with other queries
         stream     quotes           about 48 bytes a row, for the rows of the last 5 seconds, \
shared with other queries
         aggregate  r5.all.n.counts  about 40 bytes a row, for the groups of the pairs of t, q
         top        r8.counts        about 40 bytes a row, for the groups of the pairs of t, q
results  appear when the watermark passes: trades is complete 2 seconds behind its newest row, \
quotes is complete up to its newest row""",
        ),
        (
            "SELECT RSTREAM(t.symbol, price, bid) FROM trades [NOW] t "
            "JOIN quotes [PARTITION BY symbol ROWS 1] q ON t.symbol = q.symbol",
            """\
query    SELECT RSTREAM(t.symbol, price, bid) FROM trades [NOW] AS t JOIN quotes \
[PARTITION BY symbol ROWS 1] AS q ON t.symbol = q.symbol
answers  a stream: each row is told once
plan     rstream
           project t.symbol as symbol, t.price as price, q.bid as bid
             binary-join on t.symbol = q.symbol
               seq-window trades [now] as t
               seq-window quotes [by symbol rows 1] as q
runs     in all shards side by side: rows are spread, quotes by symbol, trades by symbol
stores   stream       trades     about 48 bytes a row, for the rows of the last 2 seconds, \
shared with other queries
         stream       quotes     about 48 bytes a row, for the rows that are not complete
         seq-window   r1         about 76 bytes a row, for the last row of quotes for each symbol
         binary-join  r2.right   about 68 bytes a row, for the last row of quotes for each symbol
         rstream      s2.due     about 76 bytes a row, for the ends of the pairs of t, q
         rstream      s2.counts  about 60 bytes a row, for the pairs of t, q
grows    PARTITION BY remembers every different value of "quotes"
results  appear when the watermark passes: trades is complete 2 seconds behind its newest row, \
quotes is complete up to its newest row""",
        ),
    ],
)
def test_a_query_is_explained_with_all_that_was_left_out(
    script: DryScript, asked: str, text: str
) -> None:
    assert told(script, f"EXPLAIN {asked}") == text


def test_queries_that_do_not_stand_are_explained_each_by_its_own_stores(script: DryScript) -> None:
    grouped = told(script, "EXPLAIN SELECT symbol, count(*) AS n FROM quotes [ROWS 9] GROUP BY 1")
    told(script, "EXPLAIN SELECT DISTINCT symbol FROM quotes [RANGE 5 SECONDS]")
    asked = "SELECT symbol FROM quotes [RANGE 5 SECONDS]"
    unlike = told(script, f"EXPLAIN {asked}")

    assert "aggregate" in grouped.partition("stores")[2]
    assert "aggregate" not in unlike
    told(script, f"CREATE QUERY q AS {asked}")
    assert told(script, "EXPLAIN QUERY q") == unlike


def test_what_would_be_refused_says_so_before_it_is_asked(script: DryScript) -> None:
    text = "SELECT a.symbol FROM trades a, quotes [ROWS 1] b WHERE a.symbol = b.symbol"

    shown = told(script, f"EXPLAIN {text}").splitlines()

    cure = "refused, unless it is created WITH (unbounded = allowed)"
    assert f'grows    the join remembers every row of "trades": {cure}' in shown
    told(script, f"CREATE QUERY pairs WITH (unbounded = allowed) AS {text}")
    shown = told(script, "EXPLAIN QUERY pairs").splitlines()
    assert 'grows    the join remembers every row of "trades"' in shown


def test_a_query_without_a_text_is_explained_by_its_plan(script: DryScript) -> None:
    plan = Distinct(Windowed(Source("trades"), Window("rows", 3, by=("symbol",)), "t"))
    script.session.query(plan, name="built")

    explained = told(script, "EXPLAIN QUERY built")

    assert explained.startswith("query    distinct(trades[by symbol rows 3] as t)\nanswers ")
    assert "plan     duplicate-eliminate\n           seq-window trades [by symbol" in explained


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT symbol FROM trades",
        "SELECT symbol, count(*) AS n FROM trades [ROWS 9] GROUP BY symbol "
        "HAVING n > 2 AND n > (SELECT count(*) FROM quotes)",
    ],
)
def test_an_expanded_query_means_the_same(script: DryScript, text: str) -> None:
    first = told(script, f"EXPLAIN {text}")
    expanded = first.splitlines()[0].removeprefix("query    ")

    assert told(script, f"EXPLAIN {expanded}") == first


def test_an_error_shows_its_place_in_the_script(script: DryScript) -> None:
    with pytest.raises(LanguageError) as refused:
        told(script, "CREATE QUERY q AS\n  SELECT prise, count(*) AS n FROM trades GROUP BY 1")

    assert (refused.value.code, refused.value.line, refused.value.column) == ("CQL002", 2, 10)


def test_a_template_says_where_its_parameters_join(script: DryScript) -> None:
    told(
        script,
        "CREATE QUERY TEMPLATE busy (n int) AS SELECT symbol, count(*) AS n "
        "FROM trades [RANGE 5 MINUTES] GROUP BY symbol HAVING count(*) > :n",
    )
    told(script, "INSERT INTO busy (n) VALUES (1), (2), (3)")

    shown = told(script, "EXPLAIN QUERY busy")

    assert 'shared   by 3 standing queries of template "busy"' in shown
    assert "p0 is :n" in shown
    joined, grouped = shown.index("AND #1 > #q.p0"), shown.index("aggregate by #b.birth")
    assert joined < grouped
    assert "rows are spread, #queries everywhere, trades by symbol" in shown


def test_a_parameter_that_a_column_equals_spreads_the_queries(script: DryScript) -> None:
    told(
        script,
        "CREATE QUERY TEMPLATE counts (sym text) AS "
        "SELECT count(*) AS n FROM trades [RANGE 5 MINUTES] WHERE symbol = :sym",
    )

    assert "#queries by p0, trades by symbol" in told(script, "EXPLAIN QUERY counts")


def test_a_template_that_would_remember_all_rows_is_refused(script: DryScript) -> None:
    with pytest.raises(MillraceError, match="remember more and more") as refused:
        told(
            script,
            "CREATE QUERY TEMPLATE seen (low double) AS "
            "SELECT DISTINCT symbol FROM trades WHERE price > :low",
        )

    assert 'every row of "trades"' in refused.value.detail
    assert refused.value.code == "CQL041"
    told(
        script,
        "CREATE QUERY TEMPLATE seen (low double) WITH (unbounded = allowed) AS "
        "SELECT DISTINCT symbol FROM trades WHERE price > :low",
    )


def test_a_query_may_be_allowed_to_remember_all_rows(script: DryScript) -> None:
    text = "AS SELECT a.symbol FROM trades a, trades b WHERE a.symbol = b.symbol"
    with pytest.raises(UnboundedError, match="remember more and more"):
        told(script, f"CREATE QUERY pairs {text}")

    assert told(script, f"CREATE QUERY pairs WITH (unbounded = allowed) {text}")


def test_commands_take_scripts_with_such_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.sql"
    path.write_text(
        f"{DECLARED}CREATE QUERY means AS SELECT symbol, avg(price) AS mean "
        "FROM trades [RANGE 5 MINUTES] GROUP BY symbol;\n"
    )

    assert main([check.NAME, str(path)]) == 0
    capsys.readouterr()
    assert main([explain.NAME, str(path)]) == 0
    shown = capsys.readouterr().out

    assert shown.startswith("means\nquery    SELECT symbol, avg(price) AS mean")
    assert "aggregate by trades.symbol: avg(trades.price) as #1" in shown


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        (
            "SELECT symbol FROM trades WHERE price > 1",
            "ISTREAM(SELECT symbol FROM trades [RANGE UNBOUNDED] WHERE price > 1)",
        ),
        (
            "SELECT DISTINCT symbol FROM trades [NOW]",
            "SELECT DISTINCT symbol FROM trades [NOW]",
        ),
        ("no text of a query", "no text of a query"),
    ],
)
def test_a_text_is_written_out_whatever_kind_of_query_it_is_of(
    script: DryScript, text: str, expanded: str
) -> None:
    list(
        script.run("CREATE QUERY TEMPLATE over (p double) AS SELECT * FROM trades WHERE price > :p")
    )
    feed = script.session.standing("over").feed

    assert expanded_text(script.session, feed, text) == expanded
    written = expanded_text(script.session, feed, feed.text)
    assert written == "ISTREAM(SELECT * FROM trades [RANGE UNBOUNDED] WHERE price > :p)"
