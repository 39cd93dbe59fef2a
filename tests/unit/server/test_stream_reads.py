"""Rows that a stream keeps: the newest of them, without reading all."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.server import stream_reads
from millrace.state.run import read_piece
from millrace.testing.serving import Served, trade

N_EPOCHS = 3


def until_counted(served: Served, what: str, count: int) -> None:
    served.until(lambda: served.get("/v1/stats").json()[what] == count)


def filled(served: Served) -> None:
    """Push rows in several epochs, each with two rows."""
    for at in range(N_EPOCHS):
        served.push([trade("A", float(at), 2 * at), trade("B", float(at), 2 * at + 1)])
        until_counted(served, "rows", 2 * at + 2)


def test_the_newest_are_the_last_of_all(served: Served) -> None:
    filled(served)
    path = "/v1/streams/trades/rows"

    whole = served.get(path).json()["rows"]

    times = [row["_time"] for row in whole]
    assert times == sorted(times)
    assert len(whole) == 2 * N_EPOCHS
    for limit in range(1, 2 * N_EPOCHS + 2):
        assert served.get(f"{path}?limit={limit}").json()["rows"] == whole[-limit:]
    window = f"{path}?begin={times[1]}&end={times[4]}"
    assert served.get(window).json()["rows"] == whole[1:4]
    assert served.get(f"{window}&limit=2").json()["rows"] == whole[2:4]


def test_a_few_rows_are_had_without_the_rest(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(served)
    read: list[Any] = []

    def watched(root: Any, piece: Any, **more: Any) -> Any:
        read.append(piece)
        return read_piece(root, piece, **more)

    monkeypatch.setattr(stream_reads, "read_piece", watched)
    served.get("/v1/streams/trades/rows")
    n_whole = len(read)
    read.clear()
    served.get("/v1/streams/trades/rows?limit=2")

    assert 1 <= len(read) < n_whole


def test_late_rows_and_dead_letters_are_the_newest_that_are_seen(served: Served) -> None:
    served.post("/v1/queries", json={"sql": "SELECT symbol FROM trades", "name": "all"})
    served.push([trade("A", 1.0, 3_000)])
    served.results("all", 1)
    for at in range(3):
        late = {**trade("LATE", float(at)), "ts": f"2026-01-31T11:00:0{at}Z"}
        bad = {"symbol": "BAD", "price": f"no {at}", "ts": "2026-01-31T12:00:00Z"}
        served.post("/v1/streams/trades/rows?bad=dead-letter", json=[late, bad])
        until_counted(served, "dead", at + 1)

    late_rows = served.get("/v1/streams/trades/late?limit=2").json()["rows"]
    dead = served.get("/v1/streams/trades/dead-letters?limit=2").json()["rows"]

    assert len(served.get("/v1/streams/trades/late").json()["rows"]) == 3
    assert [row["price"] for row in late_rows] == [1.0, 2.0]
    assert len(dead) == 2
