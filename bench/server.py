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

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from bench.psoup import experiments
from bench.report import Figure, publish
from bench.server_answers import difference
from bench.server_load import trades
from bench.server_runs import (
    STREAM,
    Server,
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

COMMON_WORDS = {"symbol": "symbol", "price": "price", "1": '"id"', "nowhere": '"total":0'}
"""Words to search for that say nothing, or too little, and what the answer must hold."""


def told_rate(pushed: dict[str, Any]) -> float:
    """Return how many rows a second were pushed."""
    return float(pushed["rows"] / pushed["seconds"])


def all_good(case: str, *measured: dict[str, Any]) -> Figure:
    """Require that no request was refused, and no answer wrong."""
    bad = sum(each["bad"] for each in measured)
    return Figure(f"{case} bad", bad, "at most", 0, "requests", "refused, or answered wrongly")


def invoke(place: Path, scale: float) -> list[Figure]:
    """One query among 100,000 whose answers wait, asked for while rows are pushed."""
    n_queries, n_rows = round(100_000 * scale), round(1_000_000 * scale)
    with prepared(place / "root") as session:
        session.template("alert", ALERT, sym="text", low="double", retain="1 hour")
        found = session.standing("alert")
        found.insert(parameters(n_queries))  # type: ignore[union-attr]
    with served(place / "root", script=STREAM) as server:
        batches = max(n_rows // 10_000, 1)
        full = load(server, "push", n_batches=batches, rows=10_000, symbols=n_queries,
                    drawn=batches)  # fmt: skip
        counted = batches * 10_000
        took = server.until(lambda: server.get("/v1/stats")["rows"] >= counted)
        rate, stats = counted / (full["seconds"] + took), server.get("/v1/stats")
        retained = stats["rows"] - stats["late"] - stats["dead"]
        some = server.get("/v1/templates/alert/rows?limit=2000")["rows"]
        background = started(server, "push", n_batches=1 << 30, rows=10_000, symbols=n_queries,
                             rate=rate / 2, seconds=30.0)  # fmt: skip
        time.sleep(3)
        known = {each for number in range(batches)
                 for each in trades(10_000, n_queries, number)["symbol"].to_pylist()}  # fmt: skip
        wanted = [
            (f"/v1/queries/{row['_query']}/results",
             f'"{row["sym"]}"' if row["sym"] in known else '"rows":[]')
            for row in some
        ]  # fmt: skip
        asked = load(server, "ask", asked=wanted, seconds=20.0, connections=2)
        pushed = finished(background)
    note = (
        f"{asked['n']:,} requests, median {asked['p50']:.1f} ms, greatest {asked['most_ms']:.0f}; "
        f"{rate:,.0f} rows/s were taken at full load; "
        f"generators took {asked['cpu']} s and {pushed['cpu']} s"
    )
    half = f"{told_rate(pushed):,.0f} rows/s were pushed meanwhile, of half the full load"
    return [
        Figure("invoke p99", asked["p99"], "at most", 25.0, "ms", note),
        Figure("invoke load", told_rate(pushed) / (rate / 2), "at least", 0.95, "", half),
        Figure("invoke retained", retained, "at least", counted, "rows", "before it is measured"),
        all_good("invoke", full, asked, pushed),
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
        began = time.time()
        for each in sorted((place / "made").iterdir()):
            each.rename(place / "in" / each.name)
        server.until(lambda: server.get("/v1/stats")["rows"] >= rows)
        files = rows / (time.time() - began)
        from_files = server.get("/v1/stats")["results"]
    with served(place / "push", script=STREAM + query) as server:
        pushed = load(server, "push", n_batches=n_batches, rows=10_000, symbols=1_000,
                      drawn=n_batches)  # fmt: skip
        server.until(lambda: server.get("/v1/stats")["rows"] >= rows)
        rate = rows / (time.time() - pushed["began"])
        answers = server.get("/v1/stats")["results"]
    note = f"{rate:,.0f} rows/s pushed, {files:,.0f} from Parquet files; {rows:,} rows, counted by "
    note += f"an epoch; the generator took {pushed['cpu']} s"
    return [
        Figure("push / files", rate / files, "at least", 0.5, "", note),
        Figure("push rate", rate, "reported", None, "rows/s"),
        Figure("push answers", abs(answers - from_files), "at most", 0, "",
               f"more or less than from files, of {from_files:,}"),
        all_good("push", pushed),
    ]  # fmt: skip


def subscribers(place: Path, scale: float) -> list[Figure]:
    """2,000 subscribers with a query each, 1,000 answers a second in all."""
    n_subscribers, rate, seconds = round(2_000 * scale), 1_000 * scale, 30.0
    with prepared(place / "root") as session:
        session.template("alert", ALERT, sym="text", low="double", keep=1_000_000)
        found = session.standing("alert")
        found.insert(parameters(n_subscribers))  # type: ignore[union-attr]
    sent, heard, over = place / "sent", place / "heard", place / "over"
    with served(place / "root", script=STREAM) as server:
        rows = server.get(f"/v1/templates/alert/rows?limit={n_subscribers}")["rows"]
        first = load(server, "push", n_batches=2, rows=100, symbols=n_subscribers)
        server.until(lambda: server.get("/v1/stats")["rows"] >= first["rows"])
        following = started(server, "follow", root=str(place / "root"), until=str(over),
                            ids=[row["_query"] for row in rows], note=str(heard))  # fmt: skip
        assert following.stdout is not None
        following.stdout.readline()
        n_batches = round(rate * seconds / 100)
        pushed = load(server, "push", n_batches=n_batches, rows=100, symbols=n_subscribers,
                      rate=rate, connections=1, note=str(sent))  # fmt: skip
        total = first["rows"] + pushed["rows"]
        server.until(lambda: server.get("/v1/stats")["rows"] >= total)
        over.touch()
        told = finished(following)
    found_wrong = difference(sent, heard, pa.Table.from_pylist(rows))
    note = (
        f"{n_subscribers:,} subscribers, median {told['p50']:.0f} ms; "
        f"generators took {told['cpu']} s and {pushed['cpu']} s"
    )
    return [
        Figure("subscribers p99", told["p99"], "at most", 250.0, "ms", note),
        Figure("subscribers rate", told["n"] / pushed["seconds"], "at least", 0.95 * rate,
               "results/s"),
        Figure("subscribers wrong", found_wrong.total, "at most", 0, "answers",
               f"{found_wrong}, compared query by query"),
        all_good("subscribers", first, pushed, told),
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
        words = {f"s{each}": f"s{each}" for each in range(1, count, max(count // 400, 1))}
        paths = [(f"/v1/queries?search={word}", held)
                 for word, held in (words | COMMON_WORDS).items()]  # fmt: skip
        pushed = started(server, "push", n_batches=1 << 30, rows=1_000, symbols=count, rate=10_000,
                         connections=1, seconds=26.0)  # fmt: skip
        time.sleep(3)
        searched = load(server, "ask", asked=paths, seconds=15.0, connections=1)
        listed = load(server, "ask", asked=pages(server, count), seconds=5.0, connections=1)
        memory, background = server.rss()["gateway"], finished(pushed)
    note = (
        f"{searched['n']:,} searches for {len(paths)} words, median {searched['p50']:.0f} ms; "
        f"pushed {told_rate(background):,.0f} rows/s beside; the "
        f"gateway has {memory:,.0f} MB; the generator took {searched['cpu']} s"
    )
    return [
        Figure("search p99", searched["p99"], "at most", 100.0, "ms", note),
        Figure("list p99", listed["p99"], "at most", 100.0, "ms", f"{listed['n']:,} pages"),
        all_good("search", searched, listed, background),
    ]


def pages(server: Server, count: int) -> list[tuple[str, str]]:
    """Return paths of the first pages of the list, one behind the other, and what they hold."""
    after, found = "", list[tuple[str, str]]()
    for _ in range(20):
        path = f"/v1/queries?limit=100{after}"
        found.append((path, f'"total":{count}'))
        after = f"&after={server.get(path)['next']}"
    return found


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
        all_good("registrations", done),
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
