"""Fan-out: everybody gets all of their own, in order and once, or is told what they miss."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millrace.errors import StoreError
from millrace.reading.fan_out import changes_of
from millrace.server import fan_out
from millrace.server.cursors import Cursor, NoCursorError
from millrace.server.events import Event, events_of
from millrace.server.fan_out import Subscription
from millrace.server.limits import Limits
from millrace.testing.serving import STREAM, Served, trade

ALL = "SELECT symbol, price FROM trades WHERE price > 0"
EVENTS = {"accept": "text/event-stream"}


def sent(served: Served, query: str, n_rows: int, **headers: str) -> list[dict[str, Any]]:
    """Follow a query until so many rows have come; return the events."""
    found: list[dict[str, Any]] = []
    path = f"/v1/queries/{query}/changes"
    with served.client.stream("GET", path, headers={**EVENTS, **headers}) as stream:
        for event in _events(stream.iter_lines()):
            found.append(event)
            if sum(len(each["rows"]) for each in found) >= n_rows:
                break
    return found


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def symbols(events: list[dict[str, Any]]) -> list[str]:
    return [row["symbol"] for event in events for row in event["rows"]]


def test_a_subscriber_resumes_where_it_was(served: Served) -> None:
    served.post("/v1/queries", json={"sql": ALL, "name": "all"})
    start = served.get("/v1/queries/all/changes").json()["cursor"]
    for each in range(3):
        served.push([trade(f"s{each}", 1.0, each)])

    first = sent(served, "all", 3, **{"last-event-id": start})
    for each in range(3, 5):
        served.push([trade(f"s{each}", 1.0, each)])
    rest = sent(served, "all", 2, **{"last-event-id": first[-1]["cursor"]})

    assert symbols(first) + symbols(rest) == [f"s{each}" for each in range(5)]


def test_each_of_many_subscribers_gets_its_own(served: Served) -> None:
    names = [f"s{each}" for each in range(20)]
    made = [
        served.post("/v1/queries", json={"name": each, "into": "shared", "keep": 1000,
                    "sql": f"SELECT symbol FROM trades WHERE symbol = '{each}'"})
        for each in names
    ]  # fmt: skip
    assert {each.status_code for each in made} == {201}
    found: dict[str, list[str]] = {}

    def follow(name: str) -> None:
        found[name] = symbols(sent(served, name, 3))

    threads = [threading.Thread(target=follow, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    served.until(lambda: len(served.service.fan_out) == len(names))
    for second in range(3):
        served.push([trade(name, 1.0, second) for name in names])
    for thread in threads:
        thread.join(30)

    assert found == {name: [name] * 3 for name in names}


def test_beyond_what_is_kept_a_cursor_is_gone(served: Served) -> None:
    served.post("/v1/queries", json={"sql": ALL, "name": "few", "keep": 2})
    start = served.get("/v1/queries/few/changes").json()["cursor"]
    for each in range(12):
        served.push([trade(f"s{each}", 1.0, each)])
        assert served.results("few", 1)
        _await_symbol(served, f"s{each}")

    answer = served.get(f"/v1/queries/few/changes?cursor={start}")
    error = answer.json()["error"]
    again = served.get(f"/v1/queries/few/changes?cursor={error['cursor']}&wait=5")

    assert (answer.status_code, error["code"]) == (410, "gone")
    assert error["cursor"] in error["hint"]
    assert symbols([again.json()])[-1] == "s11"


def _await_symbol(served: Served, symbol: str) -> None:
    served.until(lambda: symbol in served.get("/v1/queries/few/results").text)


def test_a_cursor_of_another_query_is_refused(served: Served) -> None:
    for name in ("a", "b"):
        served.post("/v1/queries", json={"sql": ALL, "name": name})
    cursor = served.get("/v1/queries/a/changes").json()["cursor"]

    answers = [served.get(f"/v1/queries/b/changes?cursor={each}") for each in (cursor, "x", "é")]

    assert [each.status_code for each in answers] == [400] * 3
    assert answers[0].json()["error"]["message"] == "the cursor is of another query"


def test_a_slow_subscriber_is_detached_with_its_cursor() -> None:
    class Feed:
        number = 1

    async def followed() -> tuple[list[Event | None], Subscription]:
        slow = Subscription(Feed(), 1, Cursor(-1, 0, 1), size=2)  # type: ignore[arg-type]
        taken = []
        for epoch in range(5):
            slow.put(Event(Cursor(epoch, 0, 1), [{"n": epoch}]))
            if epoch == 0:
                taken.append(await slow.next(1))
        taken.append(await slow.next(1))
        return taken, slow

    taken, slow = asyncio.run(followed())

    assert [None if each is None else each.rows for each in taken] == [[{"n": 0}], None]
    assert (slow.ended, slow.cursor.epoch) == ("slow", 0)


def test_an_epoch_with_many_rows_is_told_in_parts_and_resumed_within() -> None:
    table = pa.table({"n": range(25_000), "_epoch": [3] * 25_000})

    events = list(events_of(table, Cursor(2, 0, 7), 5))
    middle = events[0].cursor
    rest = list(events_of(table, middle, 5))

    assert [len(each.rows) for each in events] == [10_000, 10_000, 5_000]
    assert [row["n"] for each in rest for row in each.rows] == list(range(10_000, 25_000))
    assert events[-1].cursor == Cursor(5, 0, 7)


def test_rows_that_expired_within_an_epoch_make_none_be_skipped() -> None:
    whole = pa.table({"n": range(25_000), "_epoch": [3] * 25_000})
    middle = next(events_of(whole, Cursor(2, 0, 7), 5)).cursor

    rest = list(events_of(whole.slice(5), middle, 5))

    assert [row["n"] for each in rest for row in each.rows] == list(range(10_000, 25_000))


def test_what_is_queued_is_taken_however_short_the_wait() -> None:
    class Feed:
        number = 1

    async def taken() -> Event | None:
        subscription = Subscription(Feed(), 1, Cursor(-1, 0, 1), size=2)  # type: ignore[arg-type]
        subscription.put(Event(Cursor(0, 0, 1), [{"n": 0}]))
        return await subscription.next(0)

    event = asyncio.run(taken())

    assert event is not None
    assert event.rows == [{"n": 0}]


def test_a_query_that_is_dropped_ends_its_subscriptions_and_the_next_of_its_name_begins(
    served: Served,
) -> None:
    lazy = {"sql": ALL, "name": "again", "retain": "1 hour"}
    served.post("/v1/queries", json=lazy)
    ended: list[str] = []

    def follow() -> None:
        with served.client.stream("GET", "/v1/queries/again/changes", headers=EVENTS) as stream:
            ended.extend(line for line in stream.iter_lines() if "reason" in line)

    thread = threading.Thread(target=follow)
    thread.start()
    served.until(lambda: len(served.service.fan_out) == 1)
    served.request("DELETE", "/v1/queries/again")
    served.post("/v1/queries", json=lazy)
    start = served.get("/v1/queries/again/changes").json()["cursor"]
    served.push([trade("new", 1.0, 1)])
    told = served.get(f"/v1/queries/again/changes?cursor={start}&wait=20").json()
    thread.join(20)

    assert symbols([told]) == ["new"]
    assert ["dropped" in each for each in ended] == [True]


def test_a_query_that_cannot_be_read_ends_its_own_subscriptions_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        served.post("/v1/queries", json={"sql": ALL, "name": name, "retain": "1 hour"})
    read = changes_of

    def failing(root: Any, manifest: Any, wanted: Any, after: int, **more: Any) -> Any:
        if any(feed.name == "bad" for feed, _ in wanted):
            raise StoreError("it cannot be computed")
        return read(root, manifest, wanted, after, **more)

    monkeypatch.setattr(fan_out, "changes_of", failing)
    answers = {}

    def follow(name: str) -> None:
        answers[name] = served.get(f"/v1/queries/{name}/changes?wait=20").json()

    threads = [threading.Thread(target=follow, args=[name]) for name in ("good", "bad")]
    for thread, followed in zip(threads, (1, 2), strict=True):
        thread.start()  # any commit may end the one that cannot be read
        served.until(lambda n=followed: "bad" in answers or len(served.service.fan_out) == n)  # type: ignore[misc]
    served.push([trade("one", 1.0, 1)])
    for thread in threads:
        thread.join(30)

    assert symbols([answers["good"]]) == ["one"]
    assert answers["bad"]["rows"] == []
    monkeypatch.undo()
    behind = served.get(f"/v1/queries/bad/changes?cursor={answers['bad']['cursor']}&wait=5").json()
    assert symbols([behind]) == ["one"]


def test_a_cursor_of_an_epoch_that_never_was_is_refused(served: Served) -> None:
    served.post("/v1/queries", json={"sql": ALL, "name": "all", "keep": 10})
    number = served.service.reader.catalog.feeds["all"].number

    answer = served.get(f"/v1/queries/all/changes?cursor={Cursor(1_000_000, 0, number)}")

    assert answer.status_code == 410
    assert "still to come" in answer.json()["error"]["message"]


def test_a_client_that_never_reads_harms_nobody(tmp_path: Path) -> None:
    with Served(tmp_path / "root", limits=Limits(queued_events=4)) as served:
        served.sql(STREAM)
        served.post("/v1/queries", json={"sql": ALL, "name": "all", "keep": 1_000_000})
        deaf = socket.create_connection(("127.0.0.1", served.port))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.sendall(b"GET /v1/queries/all/changes HTTP/1.1\r\nHost: localhost\r\n"
                     b"Accept: text/event-stream\r\n\r\n")  # fmt: skip
        served.until(lambda: len(served.service.fan_out) == 1)
        [[subscription]] = served.service.fan_out._followed.values()

        for second in range(60):
            served.push([trade("x" * 1_000, 1.0, second)] * 500)
            if subscription.ended:
                break
            time.sleep(0.05)

        deaf.close()
        assert subscription.ended == "slow"
        assert served.get("/v1/health").status_code == 200
        served.push([trade("last", 1.0, 3_000)])
        served.until(lambda: "last" in served.get("/v1/queries/all/results?last=1").text)


@pytest.mark.parametrize("text", ["", "AAAA", "MS4x", "🙂", "a" * 10_000])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(NoCursorError):
        Cursor.read(text, 1)
