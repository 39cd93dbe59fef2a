"""`millrace inspect` on a root with a late row and a dead letter in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.cli.main import main
from millrace.state.lease import held
from millrace.state.root import open_root


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_page_tells_what_is_there(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert [each["name"] for each in found["queries"]] == ["dear"]
    assert found["sinks"][0]["next_epoch"] == 3
    rows = {each["name"]: each["rows"] for each in found["stores"]}
    del rows["results/dear.1"]  # how many still wait there depends on the sink's thread
    assert rows == {"dead letters": 1, "late/trades.1": 1, "rows/trades.1": 22}


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
