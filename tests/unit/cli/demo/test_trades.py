"""The market's ledger against its files, read line by line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millrace.cli.demo.questions import DELAY_SECONDS, QUESTIONS
from millrace.cli.demo.trades import Market
from millrace.time import SECOND, to_instant


def readable(line: str) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row["price"], float | int) and row["ts"] is not None


def test_the_ledger_says_what_the_files_say(tmp_path: Path) -> None:
    market = Market(tmp_path, rate=20.0, seed=7)  # of 20 rows, one is late and 0.6 are broken
    for _ in range(40):
        market.write(50)

    lines = [line for path in sorted(tmp_path.iterdir()) for line in path.read_text().splitlines()]
    rows = [json.loads(line) for line in lines if readable(line)]
    newest, late = 0, set()
    for row in rows:
        time = to_instant(row["ts"])
        if time < newest - DELAY_SECONDS * SECOND:
            late.add(row["id"])
        newest = max(newest, time)

    assert market.ledger.n_lines == len(lines) == 2_000
    assert market.ledger.late == late
    assert market.ledger.dead.total() == len(lines) - len(rows)
    assert len(late) > 20
    assert market.ledger.dead.total() > 20
    meanings: dict[str, Callable[[dict[str, Any]], bool]] = {
        "big": lambda row: row["size"] >= 9_000,
        "acme": lambda row: row["symbol"] == "ACME",
        "penny": lambda row: row["price"] < 5,
    }
    assert set(meanings) == {question.name for question in QUESTIONS}
    for name, accepts in meanings.items():
        due = {row["id"]: row["id"] in late for row in rows if accepts(row)}
        assert market.ledger.due[name] == due


def test_broken_lines_are_kept_as_they_were_written(tmp_path: Path) -> None:
    market = Market(tmp_path, rate=5.0, seed=3)
    path = market.write(500)

    broken = Counter(line for line in path.read_text().splitlines() if not readable(line))
    timeless = [line for line in broken if line.endswith('"ts": null}')]
    named = Counter(f"id {json.loads(line)['id']}" for line in timeless)

    assert market.ledger.dead == broken - Counter(timeless) + named


def test_a_file_appears_whole_and_its_moment_is_known(tmp_path: Path) -> None:
    market = Market(tmp_path, rate=100.0, seed=1)
    market.write(10)
    market.write(10)

    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        "trades-000000.ndjson",
        "trades-000001.ndjson",
    ]
    first, second = market.ledger.moment_of(3), market.ledger.moment_of(12)
    assert first is not None
    assert second is not None
    assert first < second
