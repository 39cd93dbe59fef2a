"""A server under half load for a while, with queries that come and go: it stays as it is.

make soak MINUTES=60
python -m bench.soak --minutes 1

Half load is half of the rows a second that it takes with as many queries as will stand.

Required: memory is flat after the warm-up (less than 5 %), no row is lost and none counts twice,
no answer is either, whether it was told as it came or has waited to be asked for, at the end rows
wait for seconds only, no process ends, and none logs an error.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.report import Figure, publish
from bench.server_answers import Difference, difference
from bench.server_load import TOLD_SCHEMA
from bench.server_runs import STREAM, Server, finished, load, served, started

Sample: TypeAlias = tuple[float, dict[str, float]]

SYMBOLS = 1_000
DEAR = 99.0
"""Rows above that price are written down when they are pushed, one of a hundred."""
WARM_UP = 0.4
"""The share of the time after which memory is to be flat."""
QUERIES = (
    "SELECT symbol, price FROM trades WHERE price > {limit}",
    "SELECT symbol FROM trades WHERE symbol = 's{number}'",
    "SELECT symbol, count(*) AS n, max(price) AS top FROM trades [RANGE 1 second] "
    "WHERE price > {limit} GROUP BY symbol",
)
WAITING = ("lazy", "eager")
"""Templates whose answers wait, by the policy by which they are kept."""
N_WAITING = 100
N_STANDING = 20
"""So many queries stand at a time that come and go."""
CALIBRATION = 0.05
"""For that share of the time, ten seconds at most, rows come as fast as they are taken."""
BEHIND = 10.0
"""Seconds: what is pushed at half load is counted as it comes, but for some epochs."""
SCRIPT = (
    f"{STREAM} CREATE QUERY all_rows AS SELECT symbol FROM trades WHERE price >= 0;"
    f"CREATE QUERY dear AS SELECT symbol, price, ts FROM trades WHERE price > {DEAR + 0.9};"
) + "".join(
    f"CREATE QUERY TEMPLATE {each} (sym TEXT, low DOUBLE) WITH (retain = '10 minutes', "
    f"policy = '{each}') AS SELECT symbol, price, ts FROM trades "
    "WHERE symbol = :sym AND price > :low;"
    f"INSERT INTO {each} VALUES "
    + ", ".join(f"('s{number}', {DEAR + number / 1_000})" for number in range(N_WAITING))
    + ";"
    for each in WAITING
)


@dataclass(slots=True)
class Soaked:
    """What a soak has seen."""

    rate: float
    pushed: int
    counted: int
    told: Difference
    counted_told: tuple[int, int]
    waiting: Difference
    growth: dict[str, float]
    memory: dict[str, float]
    errors: list[str]
    ended: int
    registered: int
    cpu: float
    behind: float


def soak(root: Path, minutes: float) -> Soaked:
    """Run a server for so long."""
    seconds = 60 * minutes
    sent, heard, over = (root.parent / f"{root.name}.{each}" for each in ("sent", "heard", "over"))
    with served(root, script=SCRIPT) as server:
        standing = [_registered(server, number) for number in range(N_STANDING)]
        first = load(server, "push", n_batches=1 << 30, rows=1_000, symbols=SYMBOLS, connections=1,
                     seconds=min(CALIBRATION * seconds, 10.0))  # fmt: skip
        assert first["bad"] == 0, "a push was refused"
        took = server.until(lambda: server.get("/v1/stats")["rows"] >= first["rows"])
        rate = first["rows"] / (first["seconds"] + took)
        before, dear = server.pids(), server.get("/v1/queries/dear")
        following = started(server, "follow", root=str(root), ids=[dear["id"]], note=str(heard),
                            until=str(over))  # fmt: skip
        assert following.stdout is not None
        following.stdout.readline()
        background = started(server, "push", n_batches=1 << 30, rows=1_000, symbols=SYMBOLS,
                             rate=rate / 2, connections=1, seconds=seconds, note=str(sent),
                             above=DEAR)  # fmt: skip
        with _weighed(server) as samples:
            registered = _come_and_go(server, seconds, standing)
        pushed = finished(background)
        total = first["rows"] + pushed["rows"]
        assert pushed["bad"] == 0, "a push was refused"
        behind = server.until(lambda: server.get("/v1/stats")["rows"] >= total)
        over.touch()
        told, stats = finished(following), server.get("/v1/stats")
        assert told["bad"] == 0, "the subscriber was detached"
        counted = server.get("/v1/queries/dear")["results"] - dear["results"]
        waiting = _waiting(server, sent)
        after = server.pids()
        ended = sum(after.get(name) != pid for name, pid in before.items())
    queries = pa.table({"_query": [dear["id"]], "sym": pa.nulls(1, pa.string()),
                        "low": [DEAR + 0.9]})  # fmt: skip
    growth, memory = _growth(samples, seconds)
    return Soaked(
        rate=rate,
        pushed=total,
        counted=stats["rows"],
        told=difference(sent, heard, queries),
        counted_told=(counted, told["n"]),
        waiting=waiting,
        growth=growth,
        memory=memory,
        errors=server.errors(),
        ended=ended,
        registered=registered,
        cpu=round(pushed["cpu"] + told["cpu"], 2),
        behind=behind,
    )


def _waiting(server: Server, sent: Path) -> Difference:
    """Compare the answers that wait, of the last minute, with what was pushed in it."""
    times = pq.read_table(sent)["ts"]
    oldest, newest = pc.min(times).as_py(), pc.max(times).as_py()
    since = max(oldest, newest - timedelta(minutes=1)).isoformat()
    queries, answers = list[pa.Table](), list[pa.Table]()
    for each in WAITING:
        rows = server.get(f"/v1/templates/{each}/rows?limit={N_WAITING}")["rows"]
        queries.append(pa.Table.from_pylist(rows))
        for row in rows:
            path = f"/v1/queries/{row['_query']}/results?begin={quote(since)}"
            found = [{**answer, "_query": row["_query"]} for answer in server.get(path)["rows"]]
            answers.append(pa.Table.from_pylist(found, TOLD_SCHEMA))
    return difference(sent, pa.concat_tables(answers), pa.concat_tables(queries), since)


@contextmanager
def _weighed(server: Server) -> Iterator[list[Sample]]:
    """Note the memory of all processes twice a second, also while the server keeps us waiting."""
    began, over, samples = time.monotonic(), threading.Event(), list[Sample]()

    def weigh() -> None:
        while not over.wait(0.5):
            samples.append((time.monotonic() - began, server.rss()))

    weighing = threading.Thread(target=weigh)
    weighing.start()
    try:
        yield samples
    finally:
        over.set()
        weighing.join()


def _registered(server: Server, number: int) -> str:
    """Register one of the queries that come and go; return its name."""
    name = f"q{number}"
    text = QUERIES[number % len(QUERIES)].format(limit=90 + number % 10, number=number % 1_000)
    server.post("/v1/queries", {"sql": text, "name": name, "keep": 1_000})
    return name


def _come_and_go(server: Server, seconds: float, standing: list[str]) -> int:
    """Register and drop queries until the time is over; return how many came."""
    began, number = time.monotonic(), len(standing)
    while time.monotonic() - began < seconds:
        standing.append(_registered(server, number))
        if len(standing) > N_STANDING:
            server.post("/v1/queries/bulk", {"drop": standing[:5]})
            del standing[:5]
        server.get(f"/v1/queries/{standing[0]}/results?last=10")
        server.get(f"/v1/queries/{WAITING[number % 2]}/results?begin=NOW%20-%2010%20seconds")
        server.get("/v1/queries?search=price&limit=20")
        number += 1
        time.sleep(0.5)
    return number


def _growth(samples: list[Sample], seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Compare memory at the end with that after the warm-up: medians of a fifth of the time."""
    warm = [each for at, each in samples if WARM_UP * seconds <= at < (WARM_UP + 0.2) * seconds]
    late = [each for at, each in samples if at >= 0.8 * seconds]
    growth, memory = {}, {}
    for name in late[-1]:
        before = sorted(each[name] for each in warm)[len(warm) // 2]
        memory[name] = sorted(each[name] for each in late)[len(late) // 2]
        growth[name] = memory[name] / before - 1
    return growth, memory


def figures(found: Soaked, minutes: float) -> list[Figure]:
    """Return what was found, and what is required."""
    worst = max(found.growth, key=lambda name: found.growth[name])
    shown = ", ".join(f"{name} {size:,.0f} MB" for name, size in found.memory.items())
    lost = abs(found.pushed - found.counted)
    note = f"{minutes:g} minutes at {found.rate / 2:,.0f} rows/s, half of what it takes; "
    note += f"{found.registered:,} queries came; the generators took {found.cpu} s"
    counted, told = found.counted_told
    return [
        Figure(
            "memory growth", 100 * found.growth[worst], "at most", 5.0, "%", f"{worst}; {shown}"
        ),
        Figure("rows lost or doubled", lost, "at most", 0, "", f"of {found.pushed:,}; {note}"),
        Figure("answers told wrongly", found.told.total, "at most", 0, "",
               f"{found.told}; the engine has counted {counted:,}"),
        Figure("answers counted and not told", abs(counted - told), "at most", 0, ""),
        Figure("answers kept wrongly", found.waiting.total, "at most", 0, "",
               f"{found.waiting}, in the last minute"),
        Figure("seconds behind at the end", found.behind, "at most", BEHIND, "s"),
        Figure("processes ended", found.ended, "at most", 0, ""),
        Figure("errors logged", len(found.errors), "at most", 0, "", "; ".join(found.errors[:2])),
    ]  # fmt: skip


def main() -> None:
    """Soak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    minutes = parser.parse_args().minutes
    place = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        told = figures(soak(place / "root", minutes), minutes)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    publish("soak", told)
    sys.exit(not all(each.ok for each in told))


if __name__ == "__main__":
    main()
