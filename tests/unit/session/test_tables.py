"""Tables of a session: rows come, change and go, all or none, and are there after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import millrace
from millrace import failpoints
from millrace.engine.local import LocalRun
from millrace.errors import MillraceError
from millrace.plan.term import call, col
from millrace.session.table import Table
from millrace.state.memory_root import MemoryRoot

COLUMNS = "symbol text, most double, n int"
START = [
    {"symbol": "ACME", "most": 100.0, "n": 1},
    {"symbol": "BOLT", "most": 12.5, "n": 2},
]


@pytest.fixture
def session() -> Iterator[millrace.Session]:
    with millrace.Session(MemoryRoot()) as made:
        yield made


@pytest.fixture
def limits(session: millrace.Session) -> Table:
    table = session.table("limits", COLUMNS, key="symbol")
    table.insert(START)
    return table


def content(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.rows().to_pylist())


def test_rows_are_inserted_changed_and_deleted(limits: Table) -> None:
    assert limits.insert({"symbol": ["CRUX"]}) == 1
    assert limits.update({"most": 120, "n": None}, "symbol = 'ACME'") == 1
    assert limits.delete(col("most") < 20) == 1

    assert content(limits) == [("ACME", 120.0, None), ("CRUX", None, None)]
    assert len(limits) == 2


def test_a_term_gives_each_row_its_value_of_the_row_as_it_was(limits: Table) -> None:
    twice = {
        "n": col("n") * 2,
        "most": col("most") + col("n"),
        "symbol": call("lower", col("symbol")),
    }
    assert limits.update(twice, col("n") > 1) == 1

    assert content(limits) == [("ACME", 100.0, 1), ("bolt", 14.5, 4)]


def test_rows_are_deleted_by_their_keys_or_as_they_are(limits: Table) -> None:
    assert limits.delete({"symbol": ["BOLT"]}) == 1
    assert limits.delete(START[:1]) == 1

    assert content(limits) == []


def test_a_table_without_a_key_holds_equal_rows(session: millrace.Session) -> None:
    table = session.table("bag", "a int")
    table.insert({"a": [1, 1, None, None]})
    table.delete({"a": pa.array([1, None], pa.int32())})
    table.insert_missing({"a": [1, 1, 2]})

    assert [row["a"] for row in table.rows().to_pylist()].count(1) == 2
    assert len(table) == 4


@pytest.mark.parametrize(
    ("doing", "message"),
    [
        (lambda t: t.insert({"symbol": ["CRUX", "ACME"]}), "two rows with the key symbol = 'ACME'"),
        (lambda t: t.insert({"symbol": ["CRUX", "CRUX"]}), "two rows with the key symbol = 'CRUX'"),
        (lambda t: t.insert({"symbol": ["CRUX", None]}), 'key column "symbol" of table'),
        (lambda t: t.insert({"symbol": ["C"], "most": ["x"]}), "of row 1 is not double"),
        (lambda t: t.insert({"symbol": ["CRUX"], "mots": [1]}), 'column "mots" does not exist'),
        (lambda t: t.update({"symbol": "X"}, "TRUE"), "two rows with the key symbol = 'X'"),
        (lambda t: t.update({}, "TRUE"), "no column is given another value"),
        (lambda t: t.update({"m": col("n")}, "TRUE"), 'column "m" does not exist in table'),
        (lambda t: t.update({"n": col("symbol")}, "TRUE"), '"n" is int and its value text'),
        (lambda t: t.update({"n": col("n") * 2**40}, "TRUE"), 'column "n" of row 1 is not int'),
        (lambda t: t.update({"n": 2**40}, "TRUE"), 'column "n" of row 1 is not int'),
        (lambda t: t.delete("moist > 5"), 'column "moist" does not exist'),
        (lambda t: t.delete({"symbol": ["ACME", "NONE"]}), 'table "limits" has no such row'),
        (lambda t: t.delete({"symbol": ["ACME", "ACME"]}), 'table "limits" has no such row'),
        (lambda t: t.delete([{"symbol": "ACME", "most": 1.0, "n": 1}]), "has no such row"),
        (lambda t: t.insert(5), "rows of a table cannot be read from int"),
    ],
)  # fmt: skip
def test_a_call_that_does_not_fit_says_why_and_changes_nothing(
    limits: Table, doing: Any, message: str
) -> None:
    before = content(limits)

    with pytest.raises(MillraceError, match=message.replace("(", r"\(")):
        doing(limits)

    assert content(limits) == before


def test_a_table_is_there_for_the_next_session(tmp_path: Path) -> None:
    for at in range(3):
        with millrace.Session(tmp_path) as session:
            table = session.table("limits", COLUMNS, key="symbol")
            table.insert({"symbol": [f"s{at}"]})

            assert len(table) == at + 1
    with (
        millrace.Session(tmp_path) as session,
        pytest.raises(MillraceError, match="is declared otherwise in the root"),
    ):
        session.table("limits", COLUMNS)


def test_a_table_begins_with_the_rows_that_are_given(session: millrace.Session) -> None:
    given = pa.table({"symbol": ["ACME"], "most": [1.5]})
    table = session.table("limits", given, key="symbol")
    again = session.table("limits", given, key="symbol")

    assert content(again) == content(table) == [("ACME", 1.5)]
    with pytest.raises(MillraceError, match="two rows with the key"):
        session.table("twice", {"a": [1, 1]}, key="a")
    assert "twice" not in session.engine.registry.catalog.tables


def test_a_data_frame_is_a_table(session: millrace.Session) -> None:
    pandas = pytest.importorskip("pandas")
    table = session.table("limits", pandas.DataFrame({"symbol": ["ACME"], "n": [1]}))

    assert content(table) == [("ACME", 1)]


def test_statements_change_tables(session: millrace.Session) -> None:
    outcomes = session.execute("""
        CREATE TABLE limits (symbol text PRIMARY KEY, most double);
        INSERT INTO limits VALUES ('ACME', 100), ('BOLT', 12.5);
        INSERT INTO limits VALUES ('ACME', 100), ('CRUX', NULL);
        INSERT INTO limits (symbol) VALUES ('DUNE');
        UPDATE limits SET most = 7 WHERE most IS NULL;
        DELETE FROM limits WHERE symbol = 'BOLT';
        SHOW TABLES;
        SELECT symbol FROM limits WHERE most < 50;
        DROP TABLE limits;
        DROP TABLE IF EXISTS limits;
    """)

    assert [each.message for each in outcomes if each.table is None] == [
        'table "limits" is declared',
        "2 rows inserted",
        "1 rows inserted, 1 were there already",
        "1 rows inserted",
        "2 rows changed",
        "1 rows deleted",
        'table "limits" is dropped',
        'table "limits" does not exist',
    ]
    shown, read = (each.table for each in outcomes if each.table is not None)
    assert shown.to_pylist() == [
        {"name": "limits", "columns": "symbol, most", "key": "symbol", "rows": 3}
    ]
    assert sorted(read.column("symbol").to_pylist()) == ["CRUX", "DUNE"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO limits VALUES ('ACME', 5)", "two rows with the key symbol = 'ACME'"),
        ("INSERT INTO limits VALUES ('A', 'x')", 'column "most" of row 1 is not double'),
        ("INSERT INTO limits VALUES ('A')", 'a row has 1 values and table "limits" 2 columns'),
        ("INSERT INTO limits (sym) VALUES ('A')", 'column "sym" does not exist'),
        ("UPDATE limits SET most = 'x' WHERE TRUE", 'column "most" of row 1 is not double'),
        ("DELETE FROM limits WHERE mots > 1", 'column "mots" does not exist'),
        ("CREATE TABLE limits (a int)", "is declared otherwise in the root"),
        ("CREATE TABLE t (a int, PRIMARY KEY (b))", 'key column "b" does not exist'),
        ("CREATE TABLE t (a int) FROM rate()", 'a table is not read from "rate"'),
        ("DROP TABLE nothing", 'table "nothing" does not exist'),
    ],
)
def test_a_statement_that_does_not_fit_says_why(
    session: millrace.Session, text: str, message: str
) -> None:
    session.execute("CREATE TABLE limits (symbol text PRIMARY KEY, most double)")
    session.execute("INSERT INTO limits VALUES ('ACME', 100)")

    with pytest.raises(MillraceError) as caught:
        session.execute(text)

    assert message in str(caught.value)
    assert content(session.standing_table("limits")) == [("ACME", 100.0)]


def test_a_table_is_loaded_from_files_once(session: millrace.Session, tmp_path: Path) -> None:
    file = tmp_path / "limits.parquet"
    pq.write_table(pa.table({"symbol": ["ACME", "BOLT"]}), file)
    text = f"CREATE TABLE limits (symbol text) FROM files(path => '{file}')"

    [first] = session.execute(text)
    file.unlink()
    [second] = session.execute(text)

    assert first.message == 'table "limits" is declared, 2 rows'
    assert second.message == 'table "limits" is declared'
    assert len(session.standing_table("limits")) == 2


def test_what_a_query_reads_cannot_be_dropped(session: millrace.Session) -> None:
    session.table("limits", COLUMNS)
    opened(session)
    query = session.query("SELECT t.symbol FROM trades [NOW] AS t, limits AS l "
                          "WHERE t.symbol = l.symbol", name="joined")  # fmt: skip

    with pytest.raises(MillraceError, match='table "limits" is in use'):
        session.execute("DROP TABLE limits")

    query.drop()
    session.execute("DROP TABLE limits")


def opened(session: millrace.Session) -> None:
    session.stream("trades", millrace.Feed("symbol text, ts timestamp"), time="ts")


def trades(*rows: tuple[str, int]) -> pa.Table:
    times = [datetime.fromtimestamp(at, UTC) for _, at in rows]
    return pa.table({"symbol": [symbol for symbol, _ in rows], "ts": times})


@pytest.mark.parametrize("shards", [1, 4])
def test_a_query_sees_a_change_from_where_it_has_come(shards: int) -> None:
    spread = millrace.Settings(shards=shards, spread="always")
    with millrace.Session(MemoryRoot(), settings=spread) as session:
        limits = session.table("limits", "symbol text, most int", key="symbol")
        limits.insert({"symbol": ["A"], "most": [1]})
        opened(session)
        query = session.query(
            "SELECT t.symbol, l.most FROM ISTREAM(SELECT * FROM trades) [RANGE 100 SECONDS] AS t "
            "LEFT JOIN limits AS l ON t.symbol = l.symbol",
            name="joined",
        )
        run = session.start()
        assert isinstance(run, LocalRun)
        run.feed(trades=trades(("A", 1), ("A", 5)))
        limits.update({"most": 2}, "symbol = 'A'")
        run.feed(trades=trades(("B", 9)))

        told = query.results().select(["_time", "_change", "symbol", "most"]).to_pylist()

    found = sorted((row["_time"].timestamp(), row["_change"], row["symbol"], row["most"])
                   for row in told)  # fmt: skip
    assert found == [(1, 1, "A", 1), (5, -1, "A", 1), (5, 1, "A", 2), (5, 1, "A", 2)]


@pytest.mark.parametrize("point", ["log.after", "step.computed", "commit.before"])
def test_an_epoch_that_is_run_again_takes_the_changes_that_it_took_before(point: str) -> None:
    told = []
    for crashing in (False, True):
        root = MemoryRoot()
        session, run, limits = joining(root)
        limits.insert({"symbol": ["A"], "most": [1]})
        run.feed(trades=trades(("A", 1)))
        limits.insert({"symbol": ["A"], "most": [2]})
        if crashing:
            failpoints.arm(point, "raise")
            try:
                with pytest.raises(failpoints.InjectedCrash):
                    run.feed(trades=trades(("A", 5)))
            finally:
                failpoints.disarm()
            session.close()
            session, _, limits = joining(root, start=False)
            limits.insert({"symbol": ["A"], "most": [3]})
            run = started(session)
            run.feed(trades=trades(("A", 5)))
        else:
            run.feed(trades=trades(("A", 5)))
            limits.insert({"symbol": ["A"], "most": [3]})
        run.feed(trades=trades(("A", 9)))
        run.feed(trades=trades(("A", 10)))
        query = session.standing("joined")
        assert isinstance(query, millrace.Query)
        told.append(query.results().drop_columns(["_epoch"]).to_pylist())
        session.close()

    assert told[0] == told[1]
    assert [(row["_time"].timestamp(), row["most"]) for row in told[0]] == [
        (1, 1), (1, 2), (5, 1), (5, 2), (5, 3), (9, 1), (9, 2), (9, 3),
    ]  # fmt: skip


def joining(root: MemoryRoot, *, start: bool = True) -> tuple[millrace.Session, Any, Table]:
    session = millrace.Session(root, threads=False)
    opened(session)
    table = session.table("limits", "symbol text, most int")
    session.query(
        "ISTREAM(SELECT l.most FROM trades [NOW] AS t JOIN limits AS l ON t.symbol = l.symbol)",
        name="joined",
    )
    return session, started(session) if start else None, table


def started(session: millrace.Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run
