"""What a server does: answers among many queries, pushed rows, subscribers, lists.

make bench-server                  all cases
python -m bench.server --only search,push --scale 0.1

The engine runs without Spark, in a process of its own beside the gateway; what is measured is the
server. The load comes from a third process (`bench.server_load`), whose processor time is told.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console

from bench.psoup import experiments
from bench.report import Figure, publish
from bench.server_load import trades
from bench.server_runs import (
    STREAM,
    finished,
    load,
    parameters,
    prepared,
    served,
    started,
)

console = Console(stderr=True)
Case = Callable[[Path, float], list[Figure]]
ALERT = "SELECT symbol, price, ts FROM trades WHERE symbol = :sym AND price > :low"

COMMON_WORDS = ["symbol", "price", "1", "nowhere"]


def told_rate(pushed: dict[str, Any]) -> float:
    """Return how many rows a second were pushed."""
    return float(pushed["rows"] / pushed["seconds"])


def invoke(place: Path, scale: float) -> list[Figure]:
    """One query among 100,000 whose answers wait, asked for while rows are pushed."""
    n_queries, n_rows = round(100_000 * scale), round(1_000_000 * scale)
    with prepared(place / "root") as session:
        session.template("alert", ALERT, sym="text", low="double", retain="1 hour")
        found = session.standing("alert")
        found.insert(parameters(n_queries))  # type: ignore[union-attr]
    with served(place / "root", script=STREAM) as server:
        batches = max(n_rows // 10_000, 1)
        full = load(server, "push", n_batches=batches, rows=10_000, symbols=n_queries)
        counted = batches * 10_000
        took = server.until(lambda: server.get("/v1/stats")["rows"] >= counted)
        rate = counted / (full["seconds"] + took)
        ids = [row["_query"] for row in server.get("/v1/templates/alert/rows?limit=2000")["rows"]]
        background = started(server, "push", n_batches=1 << 30, rows=10_000, symbols=n_queries,
                             rate=rate / 2, seconds=30.0)  # fmt: skip
        time.sleep(3)
        paths = [f"/v1/queries/{qid}/results" for qid in ids]
        asked = load(server, "ask", paths=paths, seconds=20.0, connections=2)
        pushed = finished(background)
    note = (
        f"{asked['n']:,} requests, median {asked['p50']:.1f} ms, greatest {asked['most_ms']:.0f}; "
        f"{asked['bad']} bad; {rate:,.0f} rows/s were taken at full load; "
        f"generators took {asked['cpu']} s and {pushed['cpu']} s"
    )
    half = f"{told_rate(pushed):,.0f} rows/s were pushed meanwhile, of half the full load"
    return [
        Figure("invoke p99", asked["p99"], "at most", 25.0, "ms", note),
        Figure("invoke load", told_rate(pushed) / (rate / 2), "at least", 0.95, "", half),
    ]


def push(place: Path, scale: float) -> list[Figure]:
    """The same rows, pushed in Arrow batches of 10,000, and read from files."""
    n_batches = max(round(200 * scale), 20)
    rows = n_batches * 10_000
    query = "CREATE QUERY few AS SELECT symbol FROM trades WHERE price > 99.99;"
    (place / "in").mkdir()
    (place / "made").mkdir()
    for number in range(n_batches):
        pq.write_table(trades(10_000, 1_000, number), place / "made" / f"{number:04d}.parquet")
    source = f"files(path => '{place}/in/*.parquet')"
    script = STREAM.replace("push()", source) + query
    with served(place / "files", script=script) as server:
        began_at = time.perf_counter()
        for each in sorted((place / "made").iterdir()):
            each.rename(place / "in" / each.name)
        server.until(lambda: server.get("/v1/stats")["rows"] >= rows)
        files = rows / (time.perf_counter() - began_at)
    with served(place / "push", script=STREAM + query) as server:
        began_at = time.perf_counter()
        pushed = load(server, "push", n_batches=n_batches, rows=10_000, symbols=1_000)
        server.until(lambda: server.get("/v1/stats")["rows"] >= rows)
        rate = rows / (time.perf_counter() - began_at)
    note = f"{rate:,.0f} rows/s pushed, {files:,.0f} from Parquet files; {rows:,} rows, counted by "
    note += f"an epoch; the generator took {pushed['cpu']} s"
    return [
        Figure("push / files", rate / files, "at least", 0.5, "", note),
        Figure("push rate", rate, "reported", None, "rows/s"),
    ]


def subscribers(place: Path, scale: float) -> list[Figure]:
    """2,000 subscribers with a query each, 1,000 answers a second in all."""
    n_subscribers, rate, seconds = round(2_000 * scale), 1_000 * scale, 30.0
    with prepared(place / "root") as session:
        session.template("alert", ALERT, sym="text", low="double", keep=1_000_000)
        found = session.standing("alert")
        found.insert(parameters(n_subscribers))  # type: ignore[union-attr]
    with served(place / "root", script=STREAM) as server:
        rows = server.get(f"/v1/templates/alert/rows?limit={n_subscribers}")["rows"]
        ids = [row["_query"] for row in rows]
        load(server, "push", n_batches=2, rows=100, symbols=n_subscribers)
        following = started(server, "follow", root=str(place / "root"), ids=ids,
                            seconds=seconds + 5, rows=0)  # fmt: skip
        assert following.stdout is not None
        following.stdout.readline()
        before = server.get("/v1/stats")["results"]
        pushed = load(server, "push", n_batches=round(rate * seconds / 100), rows=100,
                      symbols=n_subscribers, rate=rate, connections=1)  # fmt: skip
        told = finished(following)
        expected = server.get("/v1/stats")["results"] - before
    note = (
        f"{n_subscribers:,} subscribers, {told['n'] / seconds:,.0f} results/s, median "
        f"{told['p50']:.0f} ms; generators took {told['cpu']} s and {pushed['cpu']} s"
    )
    return [
        Figure("subscribers p99", told["p99"], "at most", 250.0, "ms", note),
        Figure("subscribers got", told["n"] / max(expected, 1), "at least", 1.0, "",
               f"{told['n']:,} of {expected:,} answers"),
    ]  # fmt: skip


def search(place: Path, scale: float) -> list[Figure]:
    """Pages of the list, and searches in it, among 1,000,000 queries, while rows are pushed."""
    count = round(1_000_000 * scale)
    with prepared(place / "root") as session:
        session.template("alert", ALERT, sym="text", low="double")
        found = session.standing("alert")
        for first in range(0, count, 100_000):
            part = parameters(count).slice(first, 100_000)
            found.insert(part)  # type: ignore[union-attr]
    with served(place / "root", script=STREAM) as server:
        assert server.get("/v1/queries?limit=1")["total"] == count
        words = [f"s{each}" for each in range(1, count, max(count // 400, 1))]
        paths = [f"/v1/queries?search={word}" for word in [*words, *COMMON_WORDS]]
        pushed = started(server, "push", n_batches=1 << 30, rows=1_000, symbols=count, rate=10_000,
                         connections=1, seconds=26.0)  # fmt: skip
        time.sleep(3)
        searched = load(server, "ask", paths=paths, seconds=15.0, connections=1)
        listed = load(server, "ask", paths=["/v1/queries?limit=100"], seconds=5.0, connections=1)
        memory = server.rss()["gateway"]
        rate = told_rate(finished(pushed))
    note = (
        f"{searched['n']:,} searches for {len(paths)} words, median {searched['p50']:.0f} ms; "
        f"pages: p99 {listed['p99']:.0f} ms; pushed {rate:,.0f} rows/s beside; the "
        f"gateway has {memory:,.0f} MB; the generator took {searched['cpu']} s"
    )
    return [
        Figure("search p99", searched["p99"], "at most", 100.0, "ms", note),
        Figure("list p99", listed["p99"], "at most", 100.0, "ms"),
    ]


def registrations(place: Path, scale: float) -> list[Figure]:
    """10,000 registrations at once, one by one and as a bulk."""
    count = round(10_000 * scale)
    with served(place / "root", script=STREAM) as server:
        done = load(server, "register", count=count, connections=200)
        added = [{"sql": f"SELECT symbol FROM trades WHERE price > {each}.25", "name": f"b{each}",
                  "into": "bulk"} for each in range(count)]  # fmt: skip
        began = time.perf_counter()
        ids = server.post("/v1/queries/bulk", {"add": added})["ids"]
        bulk = time.perf_counter() - began
        began = time.perf_counter()
        server.post("/v1/queries/bulk", {"drop": ids})
        dropped = time.perf_counter() - began
    note = f"answers by status: {done['statuses']}; the generator took {done['cpu']} s"
    return [
        Figure("registrations", count / done["seconds"], "reported", None, "a second", note),
        Figure("bulk add", bulk, "reported", None, "s", f"{count:,} queries, all or none"),
        Figure("bulk drop", dropped, "reported", None, "s"),
    ]


def psoup(place: Path, scale: float) -> list[Figure]:
    """PSoup's experiments, in process: what waiting answers cost, and what asking anew costs."""
    del place, scale
    return experiments()


CASES: dict[str, Case] = {
    "psoup": psoup,
    "invoke": invoke,
    "push": push,
    "subscribers": subscribers,
    "search": search,
    "registrations": registrations,
}


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES), help="cases, with commas between")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is what is required")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    for name in arguments.only.split(","):
        console.print(f"[dim]{name}: {CASES[name].__doc__}")
        place = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
        try:
            figures += CASES[name](place, arguments.scale)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    full = arguments.scale == 1.0 and set(arguments.only.split(",")) == set(CASES)
    publish("server", figures, Path("bench/results/server.json") if full else None)


if __name__ == "__main__":
    main()
