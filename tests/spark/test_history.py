"""History on Spark: queries that are registered while a stream runs see what it retains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millrace
from millrace.testing.spark_rows import COLUMNS, wait_until, write_files

AwaitRows = Callable[[millrace.Session, int], None]

pytestmark = pytest.mark.spark

GROUPS = "SELECT number % 3 AS k, count(*) AS n FROM trades [RANGE 10 DAYS] GROUP BY number % 3 "
GROUPS += "HAVING count(*) > :low"
PAIRS = "SELECT ISTREAM(a.number, b.number AS other) FROM trades [RANGE 1 HOUR] a, "
PAIRS += "trades [RANGE 1 HOUR] b WHERE a.number = b.number AND a.number > :low"


def family(session: millrace.Session, name: str) -> millrace.Template:
    """Declare a template with a history, which has a query and so runs."""
    text = {"groups": GROUPS, "pairs": PAIRS}[name]
    template = session.template(name, text, low="int", keep=1_000, history="365 days")
    template.insert({"low": [100]})
    return template


def of_family_and_alone(
    session: millrace.Session, template: millrace.Template
) -> tuple[millrace.Query, millrace.Query]:
    """Add a query to a template that runs, and register the same query by itself."""
    [qid] = template.insert({"low": [2]}).to_pylist()
    text = template.feed.text.replace(":low", "2")
    alone = session.query(text, name=f"{template.name}_alone", keep=1_000, history="365 days")
    return template.query(qid), alone


def told(query: millrace.Query) -> list[str]:
    """Return what a query has told, in any order."""
    answers = query.results()
    names = [each for each in answers.column_names if each not in ("_query", "_epoch")]
    return sorted(map(repr, answers.select(names).to_pylist()))


@pytest.mark.parametrize("spread", ["never", "always"])
def test_a_query_with_history_answers_all_rows_once(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows, spread: str
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 20, 40])
    session = sessions.open(spread=spread, backfill_rows=7, shards=2)
    session.stream(
        "trades", millrace.Files(str(tmp_path / "in")), schema=COLUMNS, time="ts", retain="365 days"
    )
    session.start()
    await_rows(session, 40)

    chosen = session.query("SELECT number FROM trades", name="q", history="365 days")
    counted = session.query(
        "SELECT count(*) AS n FROM trades [RANGE 365 DAYS]", name="n", history="365 days"
    )
    families = [family(session, name) for name in ("groups", "pairs")]

    retained = sorted(session.history("trades")["number"].to_pylist())
    wait_until(lambda: chosen.results().num_rows >= len(retained), describe=chosen.results)
    found = chosen.results()
    assert sorted(found["number"].to_pylist()) == retained
    assert all(found["_backfill"].to_pylist())
    assert len(set(found["_epoch"].to_pylist())) > 1
    wait_until(lambda: counted.results().num_rows > 2, describe=counted.results)
    assert all(counted.results()["_backfill"].to_pylist())
    for each in families:
        added, alone = of_family_and_alone(session, each)
        wait_until(lambda: [] != told(alone) == told(added), describe=alone.results)  # noqa: B023  done before the next
