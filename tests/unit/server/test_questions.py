"""Questions hold up nobody: neither those who declare, nor the threads of commands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import JSONResponse

from millrace.engine.local import Feed
from millrace.server import answers_http
from millrace.server.audit import Audit
from millrace.server.commands import Commands
from millrace.server.principals import OPERATOR
from millrace.server.quotas import LimitError, Quotas
from millrace.server.routes import sql
from millrace.server.turns import Turns
from millrace.server.wire import Frame
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.testing.serving import Served, trade

QUESTIONS = [
    "SHOW QUERIES",
    "EXPLAIN SELECT symbol FROM trades",
]


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with Session(MemoryRoot(), threads=False) as session:
        feed = Feed("symbol text, ts timestamp")
        session.stream("trades", feed, time="ts", retain="1 hour")
        session.table("limits", "symbol text, most double")
        audit = Audit(tmp_path)
        yield Commands(session, audit=audit, quotas=Quotas())
        audit.close()


def ask(commands: Commands, text: str) -> Frame:
    return commands.run("sql", OPERATOR, Frame({"sql": text, "places": (0, 1)}))


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_does_not_wait_for_who_declares(commands: Commands, text: str) -> None:
    with ThreadPoolExecutor(1) as other, commands.session.updating:
        assert other.submit(ask, commands, text).result(timeout=30).body["outcomes"]


@pytest.mark.parametrize("text", QUESTIONS)
def test_questions_beyond_a_few_are_refused_and_nothing_else(commands: Commands, text: str) -> None:
    commands.turns = Turns(at_once=1, waiting=0)

    with commands.turns.taken():
        with pytest.raises(LimitError, match="limit 1 questions at a time") as refused:
            ask(commands, text)
        ask(commands, "CREATE QUERY all_of_them AS SELECT symbol FROM trades")

    assert refused.value.code == "limit"
    assert ask(commands, text).body["outcomes"]


def test_declarations_are_done_one_after_the_other(commands: Commands) -> None:
    with ThreadPoolExecutor(1) as other:
        with commands.session.updating:
            made = other.submit(ask, commands, "CREATE TABLE more (symbol text)")
            with pytest.raises(TimeoutError):
                made.result(timeout=0.2)
            assert "more" not in commands.session.engine.registry.catalog.tables
        assert made.result(timeout=30).body["outcomes"]


def test_who_waits_has_a_turn_when_one_is_free() -> None:
    turns, began, go_on = Turns(at_once=1, waiting=1), threading.Event(), threading.Event()

    def hold() -> None:
        with turns.taken():
            began.set()
            go_on.wait(20)

    def wait() -> bool:
        with turns.taken():
            return True

    with ThreadPoolExecutor(2) as others:
        others.submit(hold)
        began.wait(20)
        waiting = others.submit(wait)
        go_on.set()
        assert waiting.result(timeout=20)


def test_who_waits_too_long_is_refused() -> None:
    turns = Turns(at_once=1, waiting=1, seconds=0.01)

    with turns.taken(), pytest.raises(LimitError), turns.taken():
        raise AssertionError


def test_answers_that_are_not_few_are_spelt_beside_the_event_loop(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_http, "FEW_CELLS", -1)
    loops: list[Any] = []
    spell, write = answers_http.table_json, JSONResponse.render

    def spelt(table: Any) -> Any:
        loops.append(asyncio._get_running_loop())
        return spell(table)

    def written(response: JSONResponse, content: Any) -> bytes:
        loops.append(asyncio._get_running_loop())
        return write(response, content)

    served.push([trade("A", 1.0)])
    monkeypatch.setattr(sql, "table_json", spelt)
    monkeypatch.setattr(answers_http, "table_json", spelt)
    monkeypatch.setattr(JSONResponse, "render", written)
    served.sql("SHOW STREAMS")
    served.get("/v1/streams/trades/rows")

    assert loops == [None] * 4


def test_what_is_read_is_read_without_the_engine(served: Served) -> None:
    served.sql("CREATE TABLE sectors (symbol text, sector text)")
    served.sql("INSERT INTO sectors VALUES ('A', 'steel'), ('B', 'rails')")
    served.sql(
        "CREATE QUERY TEMPLATE alert (low double) AS SELECT * FROM trades WHERE price > :low"
    )
    served.sql("INSERT INTO alert VALUES (100)")
    served.sql("CREATE VIEW steel AS SELECT symbol FROM sectors WHERE sector = 'steel'")
    served.sql("CREATE QUERY big AS SELECT symbol, price FROM trades WHERE price > 1")
    served.push([trade("A", 2.0, 1), trade("B", 3.0, 2), trade("A", 0.5, 3)])
    served.results("big", 2)
    served.stop_engine()

    joined = (
        "SELECT s.sector, b.price, t.price AS was FROM big b JOIN sectors s ON s.symbol = b.symbol "
        "JOIN trades t ON t.price = b.price ORDER BY 2"
    )
    [answer] = served.sql(joined)
    assert [list(row.values()) for row in answer["rows"]] == [
        ["steel", 2.0, 2.0],
        ["rails", 3.0, 3.0],
    ]
    [answer] = served.sql("SELECT low FROM alert")
    assert answer["rows"] == [{"low": 100.0}]
    [answer] = served.sql("SELECT * FROM steel")
    assert answer["rows"] == [{"symbol": "A"}]
    [_, tried] = served.sql(
        "SELECT 1 AS one FROM steel; EXPLAIN DRY RUN SELECT ISTREAM(t.price) "
        "FROM trades [NOW] t JOIN steel s ON s.symbol = t.symbol"
    )
    assert tried["message"].startswith("results  1\nrows     3 of 3 were tried")
    refused = served.post("/v1/sql", json={"sql": "SELECT 1 FROM big; SHOW STREAMS"})
    assert refused.status_code == 503


def test_statements_and_questions_of_a_text_are_done_in_order(served: Served) -> None:
    outcomes = served.sql(
        "CREATE TABLE limits (symbol text, most double); INSERT INTO limits VALUES ('A', 1); "
        "SELECT most FROM limits; INSERT INTO limits VALUES ('B', 2); "
        "SELECT count(*) AS n FROM limits; SHOW TABLES"
    )

    told = [each.get("message") or each["rows"] for each in outcomes]
    assert (told[2], told[4]) == ([{"most": 1.0}], [{"n": 2}])
    assert [each["name"] for each in told[5]] == ["limits"]

    wrong = "SHOW TABLES;\nSELECT most FROM limit"
    refused = served.post("/v1/sql", json={"sql": wrong}).json()["error"]
    assert refused["message"] == '"limit" does not exist'
    assert refused["position"]["line"] == 2


def test_questions_beyond_a_few_wait_or_are_refused(served: Served) -> None:
    served.service.questions.turns = Turns(at_once=1, waiting=0)

    with served.service.questions.turns.taken():
        refused = [
            served.post("/v1/sql", json={"sql": "SELECT * FROM trades"}),
            served.post("/v1/sql", json={"sql": "EXPLAIN DRY RUN SELECT * FROM trades"}),
            served.post("/v1/dry-run", json={"sql": "SELECT * FROM trades"}),
        ]

    assert [each.status_code for each in refused] == [429] * 3
    assert served.sql("SELECT * FROM trades")[0]["rows"] == []


def test_what_an_insert_finds_is_found_in_the_gateway(served: Served) -> None:
    served.sql("CREATE TABLE dear (symbol text, price double)")
    served.sql("CREATE QUERY TEMPLATE over (low double) AS SELECT * FROM trades WHERE price > :low")
    served.push([trade("A", 2.0), trade("B", 3.0), trade("A", 0.5)])
    served.until(lambda: len(served.sql("SELECT symbol FROM trades")[0]["rows"]) == 3)

    told = served.sql(
        "INSERT INTO dear SELECT symbol, max(price) FROM trades GROUP BY symbol;"
        "UPDATE dear SET price = price * 2 WHERE symbol = 'A';"
        "DELETE FROM dear WHERE price = (SELECT min(price) FROM dear);"
        "INSERT INTO over SELECT price FROM dear;"
        "SELECT * FROM dear; SELECT low FROM over"
    )

    said = [each.get("message") for each in told[:4]]
    assert said == ["2 rows inserted", "1 rows changed", "1 rows deleted", "1 queries inserted"]
    assert [each["rows"] for each in told[4:]] == [
        [{"symbol": "A", "price": 4.0}],
        [{"low": 4.0}],
    ]
    refused = served.post("/v1/sql", json={"sql": "INSERT INTO dear SELECT symbol FROM nothing"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "CQL001"
