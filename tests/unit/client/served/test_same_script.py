"""One script, run on a session in the process and on a client of a server: the same comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.errors import MillraceError
from millrace.testing.serving import Served

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
COLUMNS = "symbol text, price double, ts timestamp"
Push = Callable[[list[dict[str, Any]]], object]


def rows_at(first: int, *prices: float) -> list[dict[str, Any]]:
    return [
        {"symbol": "ACME" if price > 50 else "BOLT", "price": price,
         "ts": NOON + timedelta(seconds=first + at)}
        for at, price in enumerate(prices)
    ]  # fmt: skip


def told(found: Any) -> Any:
    """Return a table as its columns and rows; epochs are cut by the clock, and left out."""
    table = found.drop_columns([each for each in found.column_names if each == "_epoch"])
    return [(each.name, str(each.type)) for each in table.schema], table.to_pylist()


def refused(call: Callable[[], object]) -> tuple[str, str, str]:
    with pytest.raises(MillraceError) as caught:
        call()
    return type(caught.value).__name__, caught.value.message, caught.value.hint


def declared(session: Any) -> dict[str, Any]:
    session.stream("trades", COLUMNS, time="ts", delay="1 second", retain="1 hour")
    session.stream("trades", COLUMNS, time="ts", delay="1 second", retain="1 hour")
    limits = session.table("limits", {"symbol": ["ACME", "BOLT"], "most": [1.5, 2.5]}, key="symbol")
    again = session.table("limits", {"symbol": ["CRUX"], "most": [9.0]}, key="symbol")
    session.view("dear", "SELECT symbol, price FROM trades WHERE price > 100")
    counts = [
        limits.insert([{"symbol": "CRUX", "most": 3.5}]),
        limits.insert_missing({"symbol": ["CRUX", "DUNE"], "most": [3.5, 4.5]}),
        limits.update({"most": 7.5}, "symbol = 'BOLT'"),
        limits.delete("most > 4 AND symbol <> 'BOLT'"),
        len(again),
    ]
    return {
        "counts": counts,
        "limits": told(session.standing_table("limits").rows().sort_by("symbol")),
        "key": refused(lambda: limits.insert({"symbol": ["ACME"], "most": [1.0]})),
        "columns": refused(lambda: session.table("limits", "symbol text")),
    }


def registered(session: Any) -> dict[str, Any]:
    dear = millrace.select("trades", "symbol", "price", where=millrace.col("price") > 100)
    big = session.query(dear, name="big", retain="1 hour")
    again = session.query(dear, name="big", retain="1 hour")
    session.query("SELECT price FROM dear", name="seen", keep=100, ttl="1 day")
    ids = session.queries(
        [f"SELECT symbol FROM trades WHERE price > {low}" for low in (60, 120)],
        into="many", names=["low", "high"], keep=10,
    )  # fmt: skip
    text = "SELECT price FROM trades WHERE symbol = :sym AND price > :low"
    alert = session.template("alert", text, {"sym": "text"}, low="double", retain="1 hour")
    made = alert.insert({"sym": ["ACME", "BOLT", "CRUX"], "low": [100.0, 5.0, 1.0]})
    more = alert.insert_missing([{"sym": "BOLT", "low": 5.0}, {"sym": "ACME", "low": 55.0}])
    alert.update({"_query": made.slice(1, 1), "low": [10.0]})
    alert.delete(made.slice(2, 1))
    return {
        "same": (big.name, again.id == big.id, isinstance(made, pa.Array)),
        "many": len(ids),
        "types": (made.type, more.type, len(made), len(more)),
        "alert": [(row["sym"], row["low"]) for row in alert.rows().to_pylist()],
        "ids": alert.ids() == [*made.to_pylist()[:2], *more.to_pylist()] and len(alert) == 3,
        "unknown": refused(lambda: session.query("SELECT prise FROM trades", name="x")),
        "nobody": refused(lambda: session.standing("nobody")),
        "unfit": refused(lambda: alert.insert({"sym": ["A"], "low": ["cheap"]})),
        "strange": refused(lambda: alert.insert({"sym": ["A"], "lo": [1.0]})),
        "unnamed": refused(lambda: alert.update({"low": [1.0]})),
        "none": refused(lambda: alert.delete([1 << 40])),
        "taken": refused(lambda: session.query("SELECT symbol FROM trades", name="big")),
    }


def answered(session: Any, push: Push) -> dict[str, Any]:
    big, alert = session.standing("big"), session.standing("alert")
    push(rows_at(0, 20, 70, 101, 102))
    first = list(big.changes(after=-1, timeout=0.2))
    seen = max(first[-1]["_epoch"].to_pylist())
    push(rows_at(10, 30, 103, 104))
    rest = list(big.changes(after=seen, timeout=0.2))
    push([*rows_at(1, 105), {"symbol": "ACME", "price": 106.0, "ts": None}])
    middle = NOON + timedelta(seconds=3)
    low = next(each for each in alert.rows().to_pylist() if each["low"] == 10.0)
    found = {
        "first": [told(each) for each in first],
        "rest": [told(each) for each in rest],
        "late": told(session.late_rows("trades").drop_columns(["_source", "_time"])),
        "history": told(session.history("trades")),
        "dead": [
            told(found.select(["stream", "reason"]))
            for found in (session.dead_letters(), session.dead_letters("trades"))
        ],
        "others": refused(lambda: session.dead_letters("nobody")),
        "all": told(big.results()),
        "last": told(big.results(1)),
        "window": told(big.results(begin="NOW - 2 seconds", end="NOW")),
        "since": [told(big.results(begin=each)) for each in (middle, middle.isoformat())],
        "micros": told(big.results(end=int(middle.timestamp() * 1e6))),
        "alert": sorted(alert.results()["price"].to_pylist()),
        "one": told(alert.query(low["_query"]).results()),
        "wrong": refused(lambda: big.results(begin="yesterday")),
    }
    big.set_policy("eager")
    big.pause()
    push(rows_at(20, 106))
    big.resume()
    push(rows_at(30, 107))
    return found | {
        "paused": told(big.results(2)),
        "explained": "price > 100" in big.explain() and "price > 100" in big.explain(analyze=True),
    }


def asked(session: Any) -> dict[str, Any]:
    tried = session.dry_run("SELECT price FROM trades WHERE price > 100", "1 hour")
    part = session.dry_run("SELECT price FROM trades WHERE price > 100", history="5 seconds")
    outcomes = session.execute(
        "SELECT price FROM trades WHERE price > 104; PAUSE QUERY seen; SHOW TABLES; "
        "SELECT * FROM seen"
    )
    return {
        "tried": (tried.results, tried.rows, tried.n_rows, tried.partial, tried.at_least),
        "sample": told(tried.sample),
        "shown": str(tried).partition(", in ")[0],
        "part": (part.results, part.rows, told(part.sample)),
        "untried": refused(lambda: session.dry_run("SELECT prise FROM trades")),
        "messages": [each.message for each in outcomes],
        "tables": [each.table and told(each.table) for each in outcomes],
    }


def ended(session: Any) -> dict[str, Any]:
    session.retain("trades", "2 hours")
    session.change_settings({"merging": False}, trigger=10_000)
    alert = session.standing("alert")
    session.drop_queries(pa.array(alert.ids()[:1], pa.uint64()))
    left = len(alert)
    for each in ("big", "seen", "alert"):
        session.standing(each).drop()
    session.drop_queries([session.standing(each).id for each in ("low", "high")])
    session.drop_view("dear")
    session.standing_table("limits").drop()
    session.stream("others", COLUMNS, time="ts")
    session.drop_stream("others")
    return {
        "left": left,
        "used": refused(lambda: session.drop_stream("trades")),
        "gone": refused(lambda: session.query("SELECT price FROM others")),
    }


def script(session: Any, push: Push) -> dict[str, Any]:
    """Do with a session, or what has its API, all that can be done with both."""
    return {
        "declared": declared(session),
        "registered": registered(session),
        "answered": answered(session, push),
        "asked": asked(session),
        "ended": ended(session),
    }


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with millrace.Session(tmp_path_factory.mktemp("here"), threads=False) as session:
        running: list[LocalRun] = []

        def push(rows: list[dict[str, Any]]) -> None:
            if not running:
                run = session.start()
                assert isinstance(run, LocalRun), "it runs here"
                running.append(run)
            running[0].feed(trades=pa.Table.from_pylist(rows))

        return script(session, push)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("there") / "root") as server:
        yield server


@pytest.fixture(scope="module")
def over_http(served: Served) -> dict[str, Any]:
    with millrace.connect(served.url) as client:

        def push(rows: list[dict[str, Any]]) -> None:
            wanted = client.stats()["rows"] + client.push("trades", rows)
            served.until(lambda: client.stats()["rows"] >= wanted)

        return script(client, push)


@pytest.mark.parametrize("part", ["declared", "registered", "answered", "asked", "ended"])
def test_a_client_does_what_a_session_does(
    in_process: dict[str, Any], over_http: dict[str, Any], part: str
) -> None:
    assert over_http[part] == in_process[part]
