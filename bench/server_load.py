"""The load generator of the server benchmark: a process of its own, which says what it cost.

python -m bench.server_load '{"do": "ask", "port": 8642, …}'

It speaks HTTP by hand over asyncio streams: a client library would take longer than the server.
The last line that it prints is a JSON object with what it measured and its processor seconds.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import uvloop

from millrace.server.wire import arrow_stream

Measured = dict[str, Any]


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


async def ask(port: int, paths: list[str], seconds: float, connections: int) -> Measured:
    """Get paths, chosen at random, again and again on some connections; return the latencies."""
    taken: list[float] = []
    bad = 0

    async def one(number: int) -> None:
        nonlocal bad
        choose, link = random.Random(number), await Connection.open(port)
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            path, began = choose.choice(paths), time.perf_counter()
            status, _ = await link.ask("GET", path)
            taken.append(time.perf_counter() - began)
            bad += status != 200

    await asyncio.gather(*(one(number) for number in range(connections)))
    return {"n": len(taken), "bad": bad, **quantiles(taken)}


async def push(
    port: int,
    n_batches: int,
    rows: int,
    *,
    symbols: int,
    rate: float = 0.0,
    connections: int = 4,
    seconds: float = 1e9,
) -> Measured:
    """Push batches of rows, as fast as they are taken or so many rows a second."""
    bodies = [batch(rows, symbols, number) for number in range(min(n_batches, 32))]
    began, done, bad = time.perf_counter(), 0, 0
    kind = "application/vnd.apache.arrow.stream"

    async def one() -> None:
        nonlocal done, bad
        link = await Connection.open(port)
        while done < n_batches and time.perf_counter() - began < seconds:
            number, done = done, done + 1
            if rate:
                wait = began + number * rows / rate - time.perf_counter()
                await asyncio.sleep(max(wait, 0))
            body = bodies[number % len(bodies)]
            status, _ = await link.ask("POST", "/v1/streams/trades/rows", body, kind)
            bad += status != 200

    await asyncio.gather(*(one() for _ in range(connections)))
    return {"rows": done * rows, "bad": bad, "seconds": time.perf_counter() - began}


def batch(rows: int, symbols: int, seed: int) -> bytes:
    """Return rows of the stream `trades` as an Arrow stream."""
    return arrow_stream(trades(rows, symbols, seed)).to_pybytes()


def trades(rows: int, symbols: int, seed: int) -> pa.Table:
    """Return rows of the stream `trades`, of now."""
    chosen = np.random.default_rng(seed)
    numbers = chosen.integers(0, symbols, rows)
    now = time.time_ns() // 1_000
    return pa.table(
        {
            "symbol": pa.array([f"s{each}" for each in numbers.tolist()]),
            "price": chosen.random(rows) * 100,
            "ts": pa.array(np.full(rows, now), pa.timestamp("us", tz="UTC")),
        }
    )


async def follow(port: int, root: str, ids: list[int], seconds: float, rows: int) -> Measured:
    """Follow queries by server-sent events; measure from the commit of an epoch to its arrival."""
    commits: dict[int, float] = {}
    taken: list[float] = []
    counts = dict.fromkeys(ids, 0)
    ready = asyncio.Semaphore(0)

    def committed(epoch: int) -> float:
        if epoch not in commits:  # the time at which the file got its name, after it was synced
            commits[epoch] = (Path(root) / "commits" / f"{epoch:012d}").stat().st_ctime
        return commits[epoch]

    async def one(qid: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        request = f"GET /v1/queries/{qid}/changes HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{request}Accept: text/event-stream\r\n\r\n".encode())
        await reader.readuntil(b": from")
        ready.release()
        while True:
            line = await reader.readline()
            if line.startswith(b"data: "):
                now, event = time.time(), json.loads(line[6:])
                counts[qid] += len(event["rows"])
                taken.extend(now - committed(row["_epoch"]) for row in event["rows"])

    tasks = [asyncio.create_task(one(qid)) for qid in ids]
    for _ in ids:
        await ready.acquire()
    print("following", flush=True)
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    told = sorted(counts.values())
    return {"n": sum(told), "least": told[0], "most": told[-1], "rows": rows, **quantiles(taken)}


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
    return {"statuses": statuses, "seconds": time.perf_counter() - began}


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
