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

    retained = sorted(session.history("trades")["number"].to_pylist())
    wait_until(lambda: chosen.results().num_rows >= len(retained), describe=chosen.results)
    found = chosen.results()
    assert sorted(found["number"].to_pylist()) == retained
    assert all(found["_backfill"].to_pylist())
    assert len(set(found["_epoch"].to_pylist())) > 1
    wait_until(lambda: counted.results().num_rows > 2, describe=counted.results)
    assert all(counted.results()["_backfill"].to_pylist())
