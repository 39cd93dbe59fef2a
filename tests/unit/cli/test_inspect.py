"""`millrace inspect` on a root with a late row and a dead letter in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import millrace
from millrace.cli.main import main
from millrace.engine.local import LocalRun
from millrace.state.lease import held
from millrace.state.root import open_root


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_page_tells_what_is_there(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # wide enough, however long the name of the root is

    status = main(["inspect", str(root)])

    page = capsys.readouterr().out
    assert status == 0
    for words in (
        "none is running",
        "0 to 2 are committed",
        "24 rows in, 11 answers, 1 late, 1 dead letter",
        "2024-05-01T12:01:00Z",
        "SELECT symbol, price FROM trades WHERE price > 100",
        "rows/trades.1",
        "parquet",
        "0 epochs",
        "last epoch (2, attempt 0)",
    ):
        assert words in page


def test_json_holds_the_same(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["inspect", str(root), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert found["epoch"] == 2
    assert found["counts"] == {"rows": 24, "late": 1, "dead": 1, "results": 11}
    asked = "SELECT symbol, price FROM trades WHERE price > 100"
    assert found["queries"] == [
        {
            "name": "dear", "kind": "query", "queries": 1, "families": 1, "text": asked,
            "state": "running", "why": "", "waiting_rows": 0,
        }
    ]  # fmt: skip
    assert found["index_files"] == {"trades": 1}
    assert found["sinks"][0]["next_epoch"] == 3
    rows = {each["name"]: each["rows"] for each in found["stores"]}
    kept = {"results/dear.1": 11}
    assert rows == {"dead letters": 1, "late/trades.1": 1, "rows/trades.1": 22, **kept}


def test_shared_feeds_and_templates_say_how_many_queries_run(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    declared_in: Callable[[millrace.Session, Path], LocalRun],
) -> None:
    def touchy(prices: pa.Array) -> pa.Array:
        raise ZeroDivisionError("touched")

    asked = "SELECT symbol FROM trades WHERE price > :low"
    dear = [millrace.select("trades", "symbol", where=millrace.col("price") > 200 * each)
            for each in range(3)]  # fmt: skip
    touched = millrace.call("touchy", millrace.col("price"))
    with millrace.Session(root) as session:
        run = declared_in(session, root.parent / "answers")
        session.function("touchy", touchy, returns="boolean")
        alert = session.template("alert", asked, low="double")
        alert.insert({"low": [1.0, 2.0, 3.0, 4.0]})
        session.template("quiet", asked, low="double")
        session.queries([*dear, millrace.select("trades", "symbol")], into="shared", keep=5)
        bad = session.query(millrace.select("trades", "symbol", where=touched), into="shared")
        alone = session.query(dear[0], name="alone")
        session.change({"do": "pause", "qids": [alert.rows().column("_query")[0].as_py()]})
        alone.pause()
        time = pa.array([datetime(2024, 5, 1, 12, 2, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
        run.feed(trades=pa.table({"symbol": ["ACME"], "price": [101.0], "ts": time}))
        assert bad.failure is not None

    main(["inspect", str(root), "--json"])

    names = ("kind", "queries", "families", "state", "why", "text")
    found = {
        each["name"]: tuple(each[name] for name in names)
        for each in json.loads(capsys.readouterr().out)["queries"]
    }
    assert found["alert"] == ("template", 4, 1, "3 of 4 running, 1 paused", "", asked)
    assert found["quiet"] == ("template", 0, 0, "running", "", asked)
    assert found["alone"][:4] == ("query", 1, 1, "paused")
    assert found["shared"][:3] == ("shared", 5, 3)
    assert found["shared"][3:5] == ("4 of 5 running, 1 suspended", "ZeroDivisionError: touched")
    main(["inspect", str(root)])
    page = capsys.readouterr().out
    assert "queries (11)" in page
    assert "over trades" in page
    assert "(3 families) ZeroDivisionError: touched" in " ".join(page.split())


def test_an_engine_that_runs_is_named(running: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["inspect", str(running)])

    assert status == 0
    assert "millrace engine, process" in capsys.readouterr().out


def test_nothing_is_changed_and_no_lease_is_left(root: Path) -> None:
    before = files(root)

    main(["inspect", str(root)])

    assert files(root) == before
    assert held(open_root(root), now=0.0) == []


def test_a_root_inside_the_directory_is_pointed_at(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["inspect", str(root.parent)])

    assert status == 1
    assert f'There is a root in "{root}".' in capsys.readouterr().err


def test_a_directory_that_does_not_exist_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["inspect", str(tmp_path / "gone")])

    assert status == 1
    assert "does not exist" in capsys.readouterr().err
    assert not (tmp_path / "gone").exists()


def test_dead_letters_are_listed_with_their_reasons(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(root), "--dead-letters"]) == 0
    page = capsys.readouterr().out
    main(["inspect", str(root), "--dead-letters", "--json"])
    [letter] = json.loads(capsys.readouterr().out)["dead letters"]

    assert "dead letters" in page
    assert "1 rows" in page
    assert letter["stream"] == "trades"
    assert letter["source"] == "feed"
    assert letter["position"] == 1
    assert "ts" in letter["reason"]
    assert "ACME" in letter["raw"]
    assert letter["came"].startswith("20")


def test_late_rows_are_listed_by_stream(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(root), "--late"]) == 0
    page = capsys.readouterr().out
    main(["inspect", str(root), "--late", "5", "--json"])
    [row] = json.loads(capsys.readouterr().out)["trades"]

    assert "late rows of trades" in page
    assert (row["symbol"], row["price"]) == ("ACME", 104.0)
    assert row["ts"] == "2024-05-01T12:00:01+00:00"


def test_the_newest_dead_letters_come_first_and_no_more_than_asked(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    declared_in: Callable[[millrace.Session, Path], LocalRun],
    trades: Callable[..., pa.Table],
) -> None:
    with millrace.Session(root) as session:
        run = declared_in(session, root.parent / "answers")
        run.feed(trades=trades(90, None, None))

    main(["inspect", str(root), "--dead-letters", "2", "--json"])

    found = json.loads(capsys.readouterr().out)["dead letters"]
    assert [each["position"] for each in found] == [1, 0]


def test_a_root_without_rejects_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with millrace.Session(tmp_path / "root"):
        pass

    main(["inspect", str(tmp_path / "root"), "--dead-letters"])
    main(["inspect", str(tmp_path / "root"), "--late"])

    assert capsys.readouterr().out == "no dead letters\nno late rows\n"
