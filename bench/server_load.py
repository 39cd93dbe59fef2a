"""The load generator of the server benchmark: a process of its own, which says what it cost.

python -m bench.server_load '{"do": "ask", "port": 8642, …}'

It speaks HTTP by hand over asyncio streams: a client library would take longer than the server.
The last line that it prints is a JSON object with what it measured and its processor seconds.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import uvloop

from millrace.client.request import ARROW
from millrace.server.wire import arrow_stream

Measured = dict[str, Any]

TOLD_SCHEMA = pa.schema(
    {"_query": pa.int64(), "symbol": pa.string(), "price": pa.float64(), "ts": pa.string()}
)
QUIET_SECONDS = 2.0
"""For how long nothing may have come before one who follows is content that it has all."""


class Connection:
    """One connection that is kept alive."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """Make a request; return the status and the body."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next((each for each in lines if each.startswith("content-length")), "x: 0")
        answer = await self._reader.readexactly(int(length.split(":")[1]))
        return int(lines[0].split()[1]), answer


async def ask(
    port: int, asked: list[tuple[str, str]], seconds: float, connections: int
) -> Measured:
    """Get paths, chosen at random, again and again on some connections; return the latencies.

    Beside each path stands a text that its answer must hold; one that does not is bad.
    """
    taken: list[float] = []
    bad = 0

    async def one(number: int) -> None:
        nonlocal bad
        choose, link = random.Random(number), await Connection.open(port)
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            (path, held), began = choose.choice(asked), time.perf_counter()
            status, answer = await link.ask("GET", path)
            taken.append(time.perf_counter() - began)
            bad += status != 200 or held.encode() not in answer

    await asyncio.gather(*(one(number) for number in range(connections)))
    return {"n": len(taken), "bad": bad, **quantiles(taken)}


async def push(  # noqa: PLR0913  they are the words of a JSON object
    port: int,
    n_batches: int,
    rows: int,
    *,
    symbols: int,
    rate: float = 0.0,
    connections: int = 4,
    seconds: float = 1e9,
    drawn: int = 32,
    note: str = "",
    above: float = -1.0,
) -> Measured:
    """Push batches of rows, as fast as they are taken or so many rows a second.

    So many batches are `drawn` at random, and come again and again; each time they are stamped
    anew, so that rows are of the time at which they are sent, and no two of them are equal. Those
    that were acknowledged, and whose price is above something, are written into the file `note`.
    """
    tables = [trades(rows, symbols, number) for number in range(min(n_batches, drawn))]
    noted = [each.filter(pc.greater(each["price"], above)) for each in tables]
    sent, done, bad, last = list[pa.Table](), 0, 0, 0
    begun, began = time.time(), time.perf_counter()

    async def one() -> None:
        nonlocal done, bad, last
        link = await Connection.open(port)
        while done < n_batches and time.perf_counter() - began < seconds:
            number, done = done, done + 1
            if rate:
                wait = began + number * rows / rate - time.perf_counter()
                await asyncio.sleep(max(wait, 0))
            last = stamp = max(time.time_ns() // 1_000, last + 1)
            body = arrow_stream(stamped(tables[number % len(tables)], stamp)).to_pybytes()
            status, _ = await link.ask("POST", "/v1/streams/trades/rows", body, ARROW)
            if status != 200:
                bad += 1
            elif note:
                sent.append(stamped(noted[number % len(noted)], stamp))

    await asyncio.gather(*(one() for _ in range(connections)))
    took = time.perf_counter() - began
    if note:
        pq.write_table(pa.concat_tables(sent), note)
    return {"rows": (done - bad) * rows, "bad": bad, "seconds": took, "began": begun}


def trades(rows: int, symbols: int, seed: int) -> pa.Table:
    """Draw rows of the stream `trades`, of now."""
    chosen = np.random.default_rng(seed)
    numbers = chosen.integers(0, symbols, rows)
    drawn = pa.table(
        {
            "symbol": pa.array([f"s{each}" for each in numbers.tolist()]),
            "price": chosen.random(rows) * 100,
        }
    )
    return stamped(drawn, time.time_ns() // 1_000)


def stamped(table: pa.Table, micros: int) -> pa.Table:
    """Return rows with another time."""
    times = pa.array(np.full(table.num_rows, micros), pa.timestamp("us", tz="UTC"))
    return pa.table({"symbol": table["symbol"], "price": table["price"], "ts": times})


class Heard:
    """What those who follow queries were told, and how long after the commit of its epoch."""

    def __init__(self, root: Path) -> None:
        self._root, self._commits = root, dict[int, float]()
        self.taken: list[float] = []
        self.told: dict[str, list[Any]] = {name: [] for name in TOLD_SCHEMA.names}
        self.detached = 0

    def line(self, qid: int, line: bytes) -> None:
        """Take a line of an event stream."""
        self.detached += line.startswith(b"event: detached")
        if line.startswith(b"data: "):
            now, event = time.time(), json.loads(line[6:])
            for row in event.get("rows", ()):
                self.taken.append(now - self._committed(row["_epoch"]))
                for name, values in self.told.items():
                    values.append(qid if name == "_query" else row[name])

    def _committed(self, epoch: int) -> float:
        if epoch not in self._commits:
            path = self._root / "commits" / f"{epoch:012d}"
            try:  # the time at which the file got its name, after it was synced
                self._commits[epoch] = path.stat().st_ctime
            except FileNotFoundError:  # so long ago that it is gone
                self._commits[epoch] = -math.inf
        return self._commits[epoch]


async def follow(port: int, root: str, ids: list[int], note: str, until: str) -> Measured:
    """Follow queries by server-sent events; measure from the commit of an epoch to its arrival.

    All that each is told is written into the file `note`. It ends when the file `until` is there
    and nothing more has come for a while.
    """
    heard, ready = Heard(Path(root)), asyncio.Semaphore(0)

    async def one(qid: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        request = f"GET /v1/queries/{qid}/changes HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{request}Accept: text/event-stream\r\n\r\n".encode())
        await reader.readuntil(b": from")
        ready.release()
        while line := await reader.readline():
            heard.line(qid, line)

    tasks = [asyncio.create_task(one(qid)) for qid in ids]
    for _ in ids:
        await ready.acquire()
    print("following", flush=True)
    content = False
    while not content:
        over, seen = Path(until).exists(), len(heard.taken)
        await asyncio.sleep(QUIET_SECONDS)
        content = over and seen == len(heard.taken)
    ended = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    pq.write_table(pa.table(heard.told, TOLD_SCHEMA), note)
    return {"n": len(heard.taken), "bad": heard.detached + ended, **quantiles(heard.taken)}


async def register(port: int, count: int, connections: int) -> Measured:
    """Register queries, all at once on some connections."""
    left, statuses = list(range(count)), dict[int, int]()
    began = time.perf_counter()

    async def one() -> None:
        link = await Connection.open(port)
        while left:
            number = left.pop()
            text = f"SELECT symbol FROM trades WHERE price > {number}.5"
            body = {"sql": text, "name": f"crowd_{number}", "into": "crowd"}
            status, _ = await link.ask("POST", "/v1/queries", json.dumps(body).encode())
            statuses[status] = statuses.get(status, 0) + 1

    await asyncio.gather(*(one() for _ in range(connections)))
    bad = sum(n for status, n in statuses.items() if status != 201)
    return {"bad": bad, "statuses": statuses, "seconds": time.perf_counter() - began}


def quantiles(taken: list[float]) -> Measured:
    """Return the median, p99 and greatest of some seconds, in ms."""
    if not taken:
        return {"p50": 0.0, "p99": 0.0, "most_ms": 0.0}
    ordered = np.sort(np.array(taken)) * 1_000
    at = {"p50": 0.5, "p99": 0.99}
    found = {name: float(ordered[int(share * (ordered.size - 1))]) for name, share in at.items()}
    return {**found, "most_ms": float(ordered[-1])}


ACTIONS = {"ask": ask, "push": push, "follow": follow, "register": register}


def main() -> None:
    """Do what the argument says."""
    asked = json.loads(sys.argv[1])
    action = ACTIONS[asked.pop("do")]
    measured = uvloop.run(action(**asked))  # type: ignore[operator]
    print(json.dumps({**measured, "cpu": round(time.process_time(), 2)}), flush=True)


if __name__ == "__main__":
    main()
