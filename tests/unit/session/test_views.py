"""Views: names for queries, expanded where they are read, and kept in the root."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import millrace
from millrace.cli.dry_run import dry_run
from millrace.engine.local import LocalRun
from millrace.errors import MillraceError
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root

STREAM = """
    CREATE STREAM trades (symbol text, price double, ts timestamp)
      TIMESTAMP BY ts FROM files(path => '/nowhere/*.csv');
"""
DECLARED = """
    CREATE TABLE limits (symbol text, most double);
    CREATE VIEW dear AS SELECT symbol, price FROM trades WHERE price > 100;
    CREATE VIEW dearest (who, n)
      AS SELECT symbol, count(*) FROM dear [RANGE 1 MINUTE] GROUP BY symbol;
"""


def opened(root: Root) -> millrace.Session:
    session = millrace.Session(root)
    columns = millrace.Feed("symbol text, price double, ts timestamp")
    session.stream("trades", columns, time="ts")
    return session


@pytest.fixture
def session() -> Iterator[millrace.Session]:
    with opened(MemoryRoot()) as made:
        made.execute(DECLARED)
        yield made


def trades(*prices: float) -> pa.Table:
    times = [datetime.fromtimestamp(at, UTC) for at in range(len(prices))]
    return pa.table({"symbol": ["A"] * len(prices), "price": prices, "ts": times})


def test_a_query_over_a_view_is_the_query_over_its_text(session: millrace.Session) -> None:
    texts = {
        "viewed": "SELECT symbol FROM dear WHERE price < 200",
        "plain": "SELECT symbol FROM (SELECT symbol, price FROM trades WHERE price > 100) AS dear "
        "WHERE price < 200",
        "counted": "SELECT who, n FROM dearest",
    }
    queries = {name: session.query(text, name=name) for name, text in texts.items()}
    run = session.start()
    assert isinstance(run, LocalRun)
    run.feed(trades=trades(50, 150, 250, 120, 1))

    told = {name: each.results().num_rows for name, each in queries.items()}
    assert told["viewed"] == told["plain"] == 2
    assert queries["counted"].results().column_names[:3] == ["_change", "who", "n"]


def test_views_are_there_for_the_next_session_and_may_be_declared_again() -> None:
    root = MemoryRoot()
    for _ in range(2):
        with opened(root) as session:
            session.execute(DECLARED)
            session.view("cheap", "SELECT symbol FROM trades WHERE price < 1")

            [shown] = session.execute("SHOW VIEWS")
            assert shown.table is not None
            assert shown.table.column("name").to_pylist() == ["dear", "dearest", "cheap"]
            assert shown.table.column("columns").to_pylist() == ["", "who, n", ""]


def test_a_query_goes_on_when_its_view_is_dropped(session: millrace.Session) -> None:
    query = session.query("SELECT symbol FROM dear", name="viewed")
    session.execute("DROP VIEW dearest; DROP VIEW dear")
    run = session.start()
    assert isinstance(run, LocalRun)
    run.feed(trades=trades(150, 160))

    assert query.results().num_rows == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE VIEW dear AS SELECT symbol FROM trades", "exists already and is another query"),
        ("CREATE VIEW Dear AS SELECT symbol FROM trades", 'view "dear" exists already'),
        ("CREATE VIEW trades AS SELECT symbol FROM dear", 'stream "trades" exists already'),
        ("CREATE VIEW limits AS SELECT symbol FROM dear", 'table "limits" exists already'),
        ("CREATE VIEW big AS SELECT symbol FROM dear", 'query "big" exists already'),
        ("CREATE VIEW one AS SELECT symbol FROM dear", 'query "one" exists already'),
        ("CREATE TABLE dear (a int)", 'view "dear" exists already'),
        ("CREATE TABLE big (a int)", 'query "big" exists already'),
        ("CREATE TABLE trades (a int)", 'stream "trades" exists already'),
        ("CREATE QUERY dear AS SELECT symbol FROM trades", 'view "dear" exists already'),
        ("CREATE QUERY dear INTO many AS SELECT symbol FROM trades", 'view "dear" exists already'),
        ("CREATE QUERY limits AS SELECT symbol FROM trades", 'table "limits" exists already'),
        ("CREATE STREAM dear (a int, ts timestamp) TIMESTAMP BY ts FROM files(path => '/x/*.csv')",
         'view "dear" exists already'),
        ("CREATE VIEW v AS SELECT symbol FROM v", 'stream, table or view "v" does not exist'),
        ("CREATE VIEW v AS SELECT nothing FROM dear", 'column "nothing" does not exist'),
        ("CREATE VIEW v (a, b) AS SELECT symbol FROM dear", "names 2 columns and its query has 1"),
        ("CREATE VIEW v (a, A) AS SELECT symbol, price FROM dear", "names a column twice"),
        ("DROP VIEW dear", "It is read by the views dearest."),
        ("DROP STREAM trades", "is in use"),
        ("DROP VIEW nothing", 'view "nothing" does not exist'),
        ("SELECT * FROM dear", 'stream "trades" keeps no history'),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_in_words(
    session: millrace.Session, text: str, message: str
) -> None:
    session.execute("CREATE QUERY big AS SELECT symbol FROM trades WHERE price > 5")
    session.execute("CREATE QUERY one INTO many AS SELECT symbol FROM trades WHERE price > 5")

    with pytest.raises(MillraceError) as caught:
        session.execute(text)

    assert message in str(caught.value)


def test_views_and_tables_are_checked_and_explained_without_a_root() -> None:
    with dry_run() as script:
        list(script.run(STREAM + DECLARED))
        list(script.run("CREATE TABLE later (a int) FROM files(path => '/nowhere/*.csv')"))
        [outcome] = script.run(
            "EXPLAIN SELECT d.symbol FROM dear [NOW] AS d JOIN limits AS l ON d.symbol = l.symbol"
        )

    assert "table    limits: its changes take effect where a slab begins" in outcome.message
    assert "rows are spread, limits by symbol, trades by symbol" in outcome.message
