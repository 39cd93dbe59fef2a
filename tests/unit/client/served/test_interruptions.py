"""Connections cut, servers killed, tokens wrong: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

import millrace
from millrace.client.handles import RemoteQuery
from millrace.errors import AccessError, LostAnswersError, UnreachableError
from millrace.testing.server_process import Line, ServerProcess

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
CUTS_A_PUSH = 3
HURRIED = millrace.Patience(first=0.02, longest=0.2, attempts=50, outage=60)


def rows_from(first: int, stop: int) -> dict[str, list[object]]:
    return {
        "n": list(range(first, stop)),
        "ts": [NOON + timedelta(milliseconds=n) for n in range(first, stop)],
    }


def declared(client: millrace.Client) -> tuple[str, RemoteQuery]:
    stream = f"s{uuid4().hex[:10]}"
    client.stream(stream, "n bigint, ts timestamp", time="ts")
    return stream, client.query(f"SELECT n FROM {stream}", name=f"q_{stream}", keep=100_000)


class Follower(threading.Thread):
    """Takes what a subscription gives, until it has as many rows as it is to get."""

    def __init__(self, query: RemoteQuery, wanted: int, after: str | None = None) -> None:
        super().__init__(daemon=True)
        self.found: list[int] = []
        self.cursor = after
        self._wanted, self._changes = wanted, query.changes(after=after, timeout=60)
        self.start()

    def run(self) -> None:
        for result in self._changes:
            self.found += result["n"].to_pylist()
            self.cursor = result.cursor
            if len(self.found) >= self._wanted:
                return


def test_a_subscription_survives_cuts(server: ServerProcess, line: Line) -> None:
    chance = random.Random(7)
    with (
        millrace.connect(server.url) as direct,
        millrace.connect(line.url, patience=HURRIED) as client,
    ):
        stream, query = declared(direct)
        found = client.standing(query.name)
        assert isinstance(found, RemoteQuery)
        follower = Follower(found, 600)

        for step in range(60):
            direct.push(stream, rows_from(10 * step, 10 * step + 10))
            if chance.random() < 0.4:
                line.cut()
            time.sleep(0.01)
        follower.join(60)

    assert follower.found == list(range(600))
    assert line.cuts > 10


def test_pushes_survive_cuts_and_count_once(server: ServerProcess, line: Line) -> None:
    chance = random.Random(11)
    stopped = threading.Event()

    taken, before = 0, line.cuts

    def cutting() -> None:
        """Cut now and then, on a slow machine too so rarely that each push comes through."""
        while not stopped.wait(0.01 + 0.05 * chance.random()):
            if line.cuts - before <= CUTS_A_PUSH * taken:
                line.cut()

    with (
        millrace.connect(server.url) as direct,
        millrace.connect(line.url, patience=HURRIED) as client,
    ):
        stream, query = declared(direct)
        threading.Thread(target=cutting, daemon=True).start()
        try:
            for step in range(40):
                client.push(stream, rows_from(10 * step, 10 * step + 10))
                taken = step
        finally:
            stopped.set()
        ends = time.monotonic() + 30
        while len(query.results()) < 400 and time.monotonic() < ends:
            time.sleep(0.05)

        assert query.results()["n"].to_pylist() == list(range(400))
        assert line.cuts - before > 10


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_subscription_survives_the_server(
    serve: Callable[..., ServerProcess], how: signal.Signals
) -> None:
    server = serve()
    with millrace.connect(server.url, patience=HURRIED) as client:
        stream, query = declared(client)
        follower = Follower(query, 300)

        client.push(stream, rows_from(0, 100))
        server.stop(how)
        with pytest.raises(UnreachableError):
            millrace.connect(server.url, patience=millrace.Patience(attempts=1)).health()
        server.start()
        client.push(stream, rows_from(100, 200))
        client.push(stream, rows_from(200, 300))
        follower.join(60)

        assert follower.found == list(range(300))
        assert query.results()["n"].to_pylist() == list(range(300))


def test_a_cursor_is_good_in_another_process(server: ServerProcess) -> None:
    with millrace.connect(server.url) as client:
        stream, query = declared(client)
        first = Follower(query, 10)
        client.push(stream, rows_from(0, 10))
        first.join(20)

        client.push(stream, rows_from(10, 20))

    with millrace.connect(server.url) as another:
        found = another.standing(query.name)
        assert isinstance(found, RemoteQuery)
        second = Follower(found, 10, first.cursor)
        second.join(20)
    assert second.found == list(range(10, 20))


def test_answers_that_have_made_room_are_told(server: ServerProcess) -> None:
    with millrace.connect(server.url) as client:
        stream = f"s{uuid4().hex[:10]}"
        client.stream(stream, "n bigint, ts timestamp", time="ts")
        query = client.query(f"SELECT n FROM {stream}", name=f"q_{stream}", keep=20)
        first = Follower(query, 10)
        client.push(stream, rows_from(0, 10))
        first.join(20)
        for step in range(1, 20):
            client.push(stream, rows_from(10 * step, 10 * step + 10))
            time.sleep(0.05)

        cursors, found = [first.cursor], list[int]()
        ends = time.monotonic() + 20
        while not found and time.monotonic() < ends:
            try:
                found = next(query.changes(after=cursors[-1], timeout=10))["n"].to_pylist()
            except LostAnswersError as error:  # while room is made it may be told again
                cursors.append(str(error.oldest))

        assert len(cursors) > 1
        assert found[-1] % 10 == 9


@pytest.mark.slow
def test_one_that_is_too_slow_is_let_in_again_and_misses_nothing(server: ServerProcess) -> None:
    n_events, heavy = 700, "x" * 50_000
    with millrace.connect(server.url) as client:
        stream = f"s{uuid4().hex[:10]}"
        client.stream(stream, "n bigint, load text, ts timestamp", time="ts")
        query = client.query(f"SELECT n, load FROM {stream}", name=f"q_{stream}", keep=100_000)
        changes = query.changes(timeout=60)
        client.push(stream, {"n": [0], "load": [heavy], "ts": [NOON]})
        found = next(changes)["n"].to_pylist()

        for n in range(1, n_events):  # nobody reads meanwhile
            client.push(stream, {"n": [n], "load": [heavy], "ts": [NOON + timedelta(seconds=n)]})
        for result in changes:
            found += result["n"].to_pylist()
            if found[-1] == n_events - 1:
                break

    assert found == list(range(n_events))


def test_many_follow_at_once(server: ServerProcess) -> None:
    async def all_of_them() -> list[list[int]]:
        async with millrace.connect_async(server.url) as client:
            stream = f"s{uuid4().hex[:10]}"
            await client.stream(stream, "n bigint, ts timestamp", time="ts")
            queries = [
                await client.query(f"SELECT n FROM {stream} WHERE n % 5 = {at}",
                                   name=f"q{at}_{stream}")
                for at in range(5)
            ]  # fmt: skip

            async def follow(at: int) -> list[int]:
                found: list[int] = []
                changes = queries[at].changes(timeout=30)
                async for result in changes:
                    found += result["n"].to_pylist()
                    if len(found) == 20:
                        break
                await changes.aclose()
                return found

            following = [asyncio.create_task(follow(at)) for at in range(5)]
            await asyncio.sleep(1)
            for step in range(10):
                await client.push(stream, rows_from(10 * step, 10 * step + 10))
            return await asyncio.gather(*following)

    assert asyncio.run(all_of_them()) == [list(range(at, 100, 5)) for at in range(5)]


@pytest.mark.slow
def test_nobody_enters_without_a_token(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    made = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "token", "add", "--tokens", str(tokens),
         "--role", "writer"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    server = serve("--tokens", str(tokens))

    with millrace.connect(server.url, made.stdout.strip()) as client:
        assert client.tables() == []
        with pytest.raises(AccessError) as forbidden:
            client.change_settings(trigger=1)
        assert forbidden.value.code == "forbidden"
    for token in (None, "wrong", "mr_" + "x" * 40):
        with (
            millrace.connect(server.url, token) as client,
            pytest.raises(AccessError) as refused,
        ):
            client.streams()
        assert refused.value.code == "unauthorized"


@pytest.mark.slow
def test_too_many_requests_are_slowed_down_and_not_lost(
    serve: Callable[..., ServerProcess],
) -> None:
    server = serve("--demo", "--max-rate", "20")
    patience = millrace.Patience(first=0.01, attempts=20)
    with millrace.connect(server.url, patience=patience) as client:
        stream, query = declared(client)
        for step in range(100):
            client.push(stream, rows_from(step, step + 1))
        ends = time.monotonic() + 30
        while len(query.results()) < 100 and time.monotonic() < ends:
            time.sleep(0.1)

        assert query.results()["n"].to_pylist() == list(range(100))
