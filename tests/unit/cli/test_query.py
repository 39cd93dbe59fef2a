"""`millrace query`: the queries of a server, for people and for scripts."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import millrace
from millrace.cli.main import main
from millrace.testing.server_process import ServerProcess

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _addressed(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_URL", server.url)


@pytest.fixture
def stream(server: ServerProcess) -> str:
    name = f"t{uuid4().hex[:8]}"
    with millrace.connect(server.url) as client:
        client.stream(name, "symbol text, price double, ts timestamp", time="ts")
    return name


def push(server: ServerProcess, stream: str, *prices: float, second: int = 0) -> None:
    with millrace.connect(server.url) as client:
        client.push(stream, [
            {"symbol": "ACME", "price": price, "ts": NOON.replace(second=second + at)}
            for at, price in enumerate(prices)
        ])  # fmt: skip


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command with --json, which must succeed; return what it printed."""

    def run(*arguments: str) -> Any:
        capsys.readouterr()
        assert main(["query", *arguments, "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


def test_the_life_of_a_query(
    server: ServerProcess,
    stream: str,
    said: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"big_{stream}"
    text = f"SELECT symbol, price FROM {stream} WHERE price > 100"

    added = said("add", text, "--name", name, "--keep", "100", "--ttl", "1 day")
    assert (added["name"], added["state"], added["feed"]) == (name, "running", name)
    assert added["expires"]
    push(server, stream, 99, 101, 102)
    ends = time.monotonic() + 20
    while len(said("results", name)) < 2 and time.monotonic() < ends:
        time.sleep(0.05)
    assert [row["price"] for row in said("results", name)] == [101.0, 102.0]
    assert [row["price"] for row in said("results", name, "--last", "1")] == [102.0]
    shown = said("show", name)
    assert shown["text"]
    assert "price" in shown["explain"]
    assert main(["query", "top", "--by", "results", "--limit", "1000"]) == 0
    assert re.search(rf"{name} .* 2  SELECT symbol, price", capsys.readouterr().out)
    top = said("top", "--by", "results", "--limit", "1000")
    assert top["by"] == "results"
    assert {each["name"]: each["results"] for each in top["queries"]}[name] == 2
    assert said("pause", name) == {"paused": 1}
    assert [each["name"] for each in said("list", "--search", name, "--state", "paused")["queries"]]
    assert said("resume", name) == {"resumed": 1}
    assert said("drop", name) == {"dropped": 1}
    assert said("list", "--search", name) == {"queries": [], "next": None, "total": 0}


def test_many_queries_of_a_file(
    stream: str, said: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    script = tmp_path / "many.sql"
    script.write_text(
        "".join(
            f"CREATE QUERY {stream}_{n} WITH (keep = 7, ttl = '1 day') "
            f"AS SELECT symbol FROM {stream} WHERE price > {n};\n"
            for n in range(12)
        )
    )
    lines = "\n".join(
        json.dumps({"name": f"{stream}_{n}", "sql": f"SELECT ts FROM {stream} WHERE price > {n}"})
        for n in range(12, 15)
    )

    added = said("add", "-f", str(script))
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    more = said("add", "-f", "-", "--into", f"feed_{stream}", "--keep", "10")

    assert (added["added"], more["added"], len({*added["ids"], *more["ids"]})) == (12, 3, 15)
    page = said("list", "--search", f"{stream}_", "--limit", "10")
    assert all(each["expires"] for each in page["queries"])
    assert (len(page["queries"]), page["total"]) == (10, 15)
    rest = said("list", "--search", f"{stream}_", "--limit", "10", "--after", page["next"])
    assert len(rest["queries"]) == 5
    assert len(said("list", "--search", f"{stream}_", "--all")["queries"]) == 15

    assert main(["query", "list", "--search", f"{stream}_", "--names"]) == 0
    names = capsys.readouterr().out
    assert len(names.split()) == 15
    monkeypatch.setattr(sys, "stdin", io.StringIO(names))
    assert said("drop", "-") == {"dropped": 15}


def test_a_file_with_something_else_is_refused_with_its_place(
    stream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "many.sql"
    script.write_text(f"SELECT symbol FROM {stream};\nDROP STREAM {stream};\n")

    assert main(["query", "add", "-f", str(script)]) == 1

    told = capsys.readouterr().err
    assert "error: statement is not a query" in told
    assert "  2 | DROP STREAM" in told
    script.write_text('{"sql": "SELECT 1"}\n{"name": 1}\n')
    assert main(["query", "add", "-f", str(script)]) == 1
    assert "line 2 is not a query" in capsys.readouterr().err
    script.write_text("-- nothing")
    assert main(["query", "add", "-f", str(script)]) == 1
    assert "nothing to add" in capsys.readouterr().err
    script.write_text("SELECT 1")
    assert main(["query", "add", "-f", str(script), "--name", "x"]) == 1
    assert "one name is given for many queries" in capsys.readouterr().err


def test_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for action in (["show"], ["drop"], ["pause"], ["results"], ["tail"]):
        assert main(["query", *action, "nobody"]) == 1
        assert "does not exist" in capsys.readouterr().err


def test_a_wrong_text_is_shown_with_carets(stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "add", f"SELECT prise FROM {stream}"]) == 1
    assert "|        ^^^^^" in capsys.readouterr().err


def test_people_see_tables(stream: str, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"q_{stream}"
    assert main(["query", "add", f"SELECT symbol FROM {stream} WHERE price > 1",
                 "--name", name]) == 0  # fmt: skip
    assert capsys.readouterr().out == f"query {name} stands\n"
    assert main(["query", "list", "--search", name]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split() == ["name", "id", "state", "asks"]
    assert "1 of 1 query" in shown
    assert main(["query", "show", name]) == 0
    assert "running" in capsys.readouterr().out
    assert main(["query", "pause", name]) == 0
    assert capsys.readouterr().out == "1 query paused\n"


def test_a_tail_goes_on_behind_its_cursor_file(
    server: ServerProcess, stream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, kept = f"q_{stream}", tmp_path / "cursor"
    assert main(["query", "add", f"SELECT price FROM {stream}", "--name", name]) == 0
    tail = ["query", "tail", name, "--cursor-file", str(kept), "--timeout", "2"]
    pushing = threading.Timer(1, lambda: push(server, stream, 1, 2))
    pushing.start()

    assert main([*tail, "--json"]) == 0

    pushing.join()
    first = [json.loads(line) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row["price"] for event in first for row in event["rows"]] == [1.0, 2.0]
    assert kept.read_text().strip() == first[-1]["cursor"]
    push(server, stream, 3, second=10)
    assert main([*tail, "--format", "csv"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["3.0"]
