"""For how long somebody is let in: tokens that are forgotten."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from millrace.server import event_stream
from millrace.server.routes import live
from millrace.server.tokens import LOOK_SECONDS
from millrace.testing.serving import STREAM, Served, trade

ALL = "SELECT symbol FROM trades"


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Served]:
    """A server that lets nobody in without a token, with a query."""
    with Served(tmp_path / "root", demo=False) as served:
        admin = served.tokens.add("admin")[0]
        served.sql(STREAM, admin)
        served.sql(f"CREATE QUERY all_of_it AS {ALL}", admin)
        yield served


def forgotten(served: Served, id_: str) -> None:
    """Forget a token, and wait until gateways know."""
    served.tokens.remove(id_)
    time.sleep(2 * LOOK_SECONDS)


def detached(lines: Iterator[str]) -> tuple[list[Any], dict[str, Any]]:
    """Return the events before the end of a stream, and what its end says."""
    told = [json.loads(each[6:]) for each in lines if each.startswith("data: ")]
    return told[:-1], told[-1]


def test_events_end_when_the_token_is_forgotten(closed: Served) -> None:
    writer = closed.tokens.add("writer")[0]
    text, token = closed.tokens.add("reader")
    headers = {"accept": "text/event-stream", "authorization": f"Bearer {text}"}

    with closed.client.stream("GET", "/v1/queries/all_of_it/changes", headers=headers) as stream:
        lines = stream.iter_lines()
        start = next(lines)
        forgotten(closed, token.id)
        closed.push([trade("ACME", 1.0)], token=writer)
        events, end = detached(lines)

    assert events == []
    assert end["reason"] == "revoked"
    assert start == f": from {end['cursor']}"


def test_who_hears_nothing_is_told_at_the_next_beat(
    closed: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.2)
    text, token = closed.tokens.add("reader")
    headers = {"accept": "text/event-stream", "authorization": f"Bearer {text}"}
    path = "/v1/queries/all_of_it"

    with (
        connect(f"ws://127.0.0.1:{closed.port}{path}/live?token={text}") as socket,
        closed.client.stream("GET", f"{path}/changes", headers=headers) as stream,
    ):
        forgotten(closed, token.id)
        _, end = detached(stream.iter_lines())
        while "detached" not in (message := json.loads(socket.recv(20))):
            pass

    assert end["reason"] == "revoked"
    assert message["detached"]["reason"] == "revoked"


def test_who_is_known_goes_on(closed: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 0.1)
    text, _ = closed.tokens.add("writer")

    with connect(f"ws://127.0.0.1:{closed.port}/v1/queries/all_of_it/live?token={text}") as socket:
        beats = [json.loads(socket.recv(20)) for _ in range(10)]
        closed.push([trade("ACME", 1.0)], token=text)
        while not (event := json.loads(socket.recv(20)))["rows"]:
            pass

    assert all(each["rows"] == [] for each in beats)
    assert [row["symbol"] for row in event["rows"]] == ["ACME"]


def test_no_token_is_made_or_forgotten_that_is_not_written_down(closed: Served) -> None:
    text, token = closed.tokens.add("admin")
    before = closed.tokens.listed()
    closed.stop_engine()
    closed.until(lambda: not closed.service.link.up)

    made = closed.post("/v1/tokens", text, json={"role": "reader"})
    removed = closed.request("DELETE", f"/v1/tokens/{token.id}", text)

    assert (made.status_code, removed.status_code) == (503, 503)
    assert closed.tokens.listed() == before
