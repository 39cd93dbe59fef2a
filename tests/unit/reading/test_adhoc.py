"""One-time SQL over everything that a session holds, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millrace
from millrace.engine.local import Feed, LocalRun
from millrace.errors import MillraceError, ReadLimitError, SeveralRowsError, SumOverflowError
from millrace.lang.errors import LanguageError
from millrace.reading.adhoc import Limits, ask
from millrace.reading.held import Standing
from millrace.schema import Schema
from millrace.session.held import SessionHeld
from millrace.state.memory_root import MemoryRoot

SCHEMA = Schema.of("symbol text, price double, size int, ts timestamp")
START = datetime(2024, 5, 1, tzinfo=UTC)
Row = dict[str, Any]


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


@pytest.fixture(scope="module")
def session() -> Iterator[millrace.Session]:
    session = millrace.Session(MemoryRoot(), threads=False)
    session.stream("trades", Feed(SCHEMA), time="ts", retain="1 day")
    session.stream("fleeting", Feed(SCHEMA), time="ts")
    session.function("shout", pc.utf8_upper, returns="text")
    session.function("broken", _broken, returns="text")
    session.execute("""
        CREATE TABLE sectors (symbol text, name text, PRIMARY KEY (symbol));
        INSERT INTO sectors VALUES ('A', 'air'), ('B', 'boats'), ('D', 'docks');
        CREATE QUERY big AS SELECT symbol, price, size FROM trades WHERE price > 10;
        CREATE QUERY totals AS
          SELECT symbol, sum(price) AS total FROM trades [RANGE 1 HOUR] GROUP BY 1;
        CREATE QUERY TEMPLATE alert (sym text, low double) AS
          SELECT symbol, price FROM trades WHERE symbol = :sym AND price > :low;
        INSERT INTO alert VALUES ('A', 10), ('B', 5);
        CREATE VIEW dear AS SELECT symbol, price FROM trades WHERE price >= 20;
    """)
    run = session.start()
    assert isinstance(run, LocalRun)
    prices = [5.0, 11.0, 12.0, 20.0, 30.0, 0.1]
    rows = {
        "symbol": ["A", "A", "B", "B", "C", None],
        "price": prices,
        "size": pa.array([1, 2, 3, 4, None, 6], pa.int32()),
        "ts": [at(minute) for minute in range(6)],
    }
    run.feed(trades=pa.table(rows))
    yield session
    session.close()


def _broken(_: pa.Array) -> pa.Array:
    message = "out of order"
    raise ValueError(message)


def asked(session: millrace.Session, text: str) -> list[Row]:
    table = session.execute(text)[0].table
    assert table is not None
    rows: list[Row] = table.to_pylist()
    return rows


ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    # one relation of each kind
    "SELECT symbol, price FROM big": [("A", 11.0), ("B", 12.0), ("B", 20.0), ("C", 30.0)],
    "SELECT sym, low FROM alert WHERE low > 5": [("A", 10.0)],
    "SELECT name FROM sectors ORDER BY name DESC": [("docks",), ("boats",), ("air",)],
    "SELECT size FROM trades ORDER BY size NULLS FIRST": [(e,) for e in (None, 1, 2, 3, 4, 6)],
    "SELECT symbol FROM dear": [("B",), ("C",)],
    # together
    "SELECT s.name, count(*), sum(b.price) FROM big b JOIN sectors s ON b.symbol = s.symbol "
    "GROUP BY s.name ORDER BY 2 DESC": [("boats", 2, 32.0), ("air", 1, 11.0)],
    "SELECT t.symbol, a.low FROM trades t JOIN alert a ON t.symbol = a.sym AND t.price > a.low "
    "ORDER BY 1, 2": [("A", 10.0), ("B", 5.0), ("B", 5.0)],
    "SELECT symbol FROM sectors EXCEPT SELECT symbol FROM trades": [("D",)],
    "WITH few AS (SELECT * FROM big LIMIT 2) SELECT count(*) FROM few": [(2,)],
    "SELECT name, (SELECT max(price) FROM big b WHERE b.symbol = s.symbol) FROM sectors s "
    "ORDER BY 1": [("air", 11.0), ("boats", 20.0), ("docks", None)],
    "SELECT symbol FROM trades WHERE symbol NOT IN (SELECT symbol FROM sectors)": [("C",)],
    # our meaning
    "SELECT size / 0, size / 2, price / 0.0e0 FROM trades WHERE size = 3": [(None, 1, None)],
    "SELECT sum(price) FROM trades": [(78.1,)],
    "SELECT shout(name) FROM sectors ORDER BY 1 LIMIT 1": [("AIR",)],
    "SELECT symbol FROM trades WHERE symbol LIKE '_' AND price BETWEEN 11 AND 12": [("A",), ("B",)],
    "SELECT DISTINCT symbol FROM trades ORDER BY 1 OFFSET 2": [("B",), ("C",)],
    "SELECT symbol FROM trades LIMIT 0": [],
    "SELECT first(price), last(price) FROM trades": [(5.0, 0.1)],
    # windows at invoke: sliding, landmark, snapshot
    "SELECT price FROM big BEGIN NOW - 2 MINUTES END NOW": [(20.0,), (30.0,)],
    "SELECT price FROM trades [RANGE 1 MINUTE]": [(30.0,), (0.1,)],
    "SELECT price FROM trades [NOW]": [(0.1,)],
    "SELECT price FROM trades BEGIN TIMESTAMP '2024-05-01 00:04:00' END NOW": [(30.0,), (0.1,)],
    "SELECT price FROM trades BEGIN TIMESTAMP '2024-05-01 00:01:00' "
    "END TIMESTAMP '2024-05-01 00:02:00'": [(11.0,), (12.0,)],
    "SELECT price FROM big BEGIN NOW - 4 MINUTES END NOW - 3 MINUTES": [(11.0,), (12.0,)],
}


@pytest.mark.parametrize("text", ANSWERS)
def test_a_question_is_answered(session: millrace.Session, text: str) -> None:
    assert [tuple(row.values()) for row in asked(session, text)] == ANSWERS[text]


def test_all_columns_of_answers_can_be_read_also_ours(session: millrace.Session) -> None:
    [row] = asked(session, "SELECT *, _epoch + 1 AS next FROM big WHERE price = 30")

    assert list(row) == ["symbol", "price", "size", "_time", "_late", "_epoch", "next"]
    assert row["_time"] == at(4)
    assert row["next"] == row["_epoch"] + 1


def test_what_comes_and_goes_of_a_relation_is_read_as_it_was_told(
    session: millrace.Session,
) -> None:
    found = asked(session, "SELECT symbol, sum(_change) AS n FROM totals GROUP BY 1 ORDER BY 1")

    assert {row["symbol"]: row["n"] for row in found}["A"] == 1


REFUSED = {
    "SELECT * FROM nope": ('"nope" does not exist', 14),
    "SELECT * FROM fleeting": ('stream "fleeting" keeps no history', 14),
    "SELECT * FROM read_csv('/etc/passwd')": ("nothing of ours has that name", 14),
    "SELECT * FROM read_parquet(['a.parquet'])": ("is not understood", 28),
    "SELECT * FROM '/etc/passwd'": ("was not expected here", 14),
    'SELECT * FROM "/etc/passwd"': ('"/etc/passwd" does not exist', 14),
    "SELECT * FROM duckdb_settings()": ("nothing of ours has that name", 14),
    "SELECT * FROM pg_catalog.pg_tables": ("nothing of ours has that name", 14),
    "SELECT * FROM information_schema.tables": ("nothing of ours has that name", 14),
    "SELECT read_text('/etc/passwd') FROM big": ('function "read_text" does not exist', 7),
    "SELECT getenv('HOME') FROM big": ('function "getenv" does not exist', 7),
    "COPY big TO '/tmp/big.csv'": ("statement is not understood", 0),
    "ATTACH '/tmp/other.db' AS other": ("statement is not understood", 0),
    "PRAGMA database_list": ("statement is not understood", 0),
    "INSTALL httpfs": ("statement is not understood", 0),
    "SET memory_limit = '100GB'": ("statement is not understood", 0),
    "SELECT * FROM trades [ROWS 5]": ("windows of time that do not slide", 21),
    "SELECT * FROM sectors BEGIN NOW - 1 HOUR END NOW": ("FROM has no stream", 22),
    "SELECT ISTREAM(price) FROM trades": ("this is asked once", 7),
    "SELECT prise FROM big": ('column "prise" does not exist', 7),
    "SELECT symbol FROM big WHERE price": ("where a condition is needed", 29),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_asked_is_refused_in_its_place(session: millrace.Session, text: str) -> None:
    message, column = REFUSED[text]

    with pytest.raises(LanguageError) as refusal:
        session.execute(text)

    assert message in str(refusal.value)
    assert refusal.value.span.first == column


def test_limits_end_a_question(session: millrace.Session) -> None:
    held = SessionHeld(session)
    crowd = ", ".join(f"trades t{n}" for n in range(14))

    with pytest.raises(ReadLimitError, match="took too long"):
        ask(f"SELECT count(*) FROM {crowd}", held, limits=Limits(seconds=0.3))
    with pytest.raises(ReadLimitError, match="answer is too large"):
        ask("SELECT price FROM trades", held, limits=Limits(answer_rows=3))
    with pytest.raises(ReadLimitError, match="too much memory"):
        ask(
            f"SELECT DISTINCT {', '.join(f't{n}.price AS c{n}' for n in range(12))} "
            f"FROM {', '.join(f'trades t{n}' for n in range(12))}",
            held,
            limits=Limits(memory_bytes=16 << 20, seconds=60),
        )


def test_errors_of_values_are_ours(session: millrace.Session) -> None:
    with pytest.raises(SeveralRowsError):
        asked(session, "SELECT (SELECT price FROM big) FROM sectors")
    with pytest.raises(SumOverflowError):
        asked(session, "SELECT sum(9223372036854775807 - size) FROM trades")
    with pytest.raises(MillraceError, match="a function of the query raised"):
        asked(session, "SELECT broken(name) FROM sectors")


def test_without_duckdb_it_is_said_what_to_install(
    session: millrace.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)

    with pytest.raises(MillraceError, match="DuckDB, which is not installed") as missing:
        asked(session, "SELECT * FROM sectors")

    assert "millrace[server]" in missing.value.hint


def test_a_question_may_call_queries_by_other_names(session: millrace.Session) -> None:
    class Theirs(SessionHeld):
        def standing(self, name: str) -> Standing | None:
            return super().standing("big") if name == "mine" else None

        def names(self) -> Iterator[str]:
            yield "mine"

    held = Theirs(session)

    assert ask("SELECT count(*) AS n FROM mine", held).to_pylist() == [{"n": 4}]
    with pytest.raises(LanguageError, match='"big" does not exist') as refusal:
        ask("SELECT count(*) AS n FROM big", held)
    assert "mine" in refusal.value.detail
    assert "big" not in refusal.value.detail
