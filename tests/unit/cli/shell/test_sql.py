"""`millrace sql` for scripts: statements in, rows out."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from millrace.cli.main import main
from millrace.testing.server_process import ServerProcess, free_port


@pytest.fixture(autouse=True)
def _addressed(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_URL", server.url)


@pytest.fixture
def table(capsys: pytest.CaptureFixture[str]) -> str:
    name = f"limits_{uuid4().hex[:6]}"
    script = f"""
        CREATE TABLE {name} (symbol TEXT, most DOUBLE, PRIMARY KEY (symbol));
        INSERT INTO {name} VALUES ('ACME', 100), ('BÖLT 🌊', NULL);
    """
    assert main(["sql", "-c", script]) == 0
    assert "2 rows inserted" in capsys.readouterr().out
    return name


def rows_of(table: str, form: str, capsys: pytest.CaptureFixture[str]) -> str:
    ends = time.monotonic() + 10
    while True:
        assert main(["sql", "-c", f"SELECT * FROM {table}", "--format", form]) == 0
        printed = capsys.readouterr().out
        if "ACME" in printed or time.monotonic() > ends:
            return printed


def test_rows_in_each_format(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"symbol": "ACME", "most": 100.0}, {"symbol": "BÖLT 🌊", "most": None}]

    assert json.loads(rows_of(table, "json", capsys)) == rows
    assert [json.loads(each) for each in rows_of(table, "ndjson", capsys).splitlines()] == rows
    assert rows_of(table, "csv", capsys) == "symbol,most\nACME,100.0\nBÖLT 🌊,\n"
    assert "2 rows" in rows_of(table, "table", capsys)


def test_in_the_forms_for_programs_only_rows_are_printed(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"INSERT INTO {table} VALUES ('CRUX', 1); SHOW TABLES;"

    assert main(["sql", "-c", text, "--format", "json"]) == 0

    said = capsys.readouterr()
    assert table in [row["name"] for row in json.loads(said.out)]
    assert "1 rows inserted" in said.err


def test_statements_from_a_file_stop_at_one_that_fails_and_tell_its_line(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "a.sql"
    script.write_text(
        f"-- first\nSHOW TABLES;\n\n  SELECT nothing FROM {table};\nDROP TABLE {table};\n"
    )

    assert main(["sql", "-f", str(script)]) == 1

    said = capsys.readouterr()
    assert table in said.out
    assert "  4 |   SELECT nothing FROM" in said.err
    assert "    |          ^^^^^^^" in said.err
    assert rows_of(table, "csv", capsys).startswith("symbol")


def test_statements_from_a_pipe(
    table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"SELECT symbol FROM {table}"))

    assert main(["sql", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "symbol"


def test_a_server_that_is_away_has_a_status_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millrace.client.patience.Patience.pause", lambda *_: 0.0)

    assert main(["sql", f"http://127.0.0.1:{free_port()}", "-c", "SHOW STREAMS"]) == 3
    assert "cannot be reached" in capsys.readouterr().err


def test_an_address_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "localhost", "-c", "SHOW STREAMS"]) == 1
    assert '"localhost" is not the address of a server' in capsys.readouterr().err
