"""What windows, joins and aggregates cost, against Spark's own stateful operators.

make bench-cql              all cases
python -m bench.cql --only join,tumbling
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console

from bench.cql_runs import Keys, Measured, Workload, growing, our_epochs, spark_epochs
from bench.epoch import victim
from bench.report import Figure, publish
from millrace.spark.launch import local_spark
from millrace.time import MINUTE, SECOND

CORES = 2
ROUNDS = 2
console = Console(stderr=True)

Case = Callable[[SparkSession, Path, int], list[Figure]]
Build = Callable[[Mapping[str, DataFrame]], DataFrame]


def after(epochs: int) -> Keys:
    """Give each row a key of its own, which a stream has so many epochs after another."""

    def keys(epoch: int, rows: int) -> np.ndarray:
        mine = (epoch - epochs) * rows + np.arange(rows)
        return np.random.default_rng(epoch).permutation(mine)

    return keys


def among(n_keys: int) -> Keys:
    """Give rows keys among some, at random."""

    def keys(epoch: int, rows: int) -> np.ndarray:
        return np.random.default_rng(epoch).integers(0, n_keys, rows)

    return keys


@dataclass(frozen=True, slots=True)
class Contest:
    """One question as Spark's query, told in a mode, and as ours; Spark may run fewer epochs."""

    name: str
    work: Workload
    build: Build
    mode: str
    text: str
    fewer: Workload | None = None
    settled: bool = False


def contest(
    spark: SparkSession, scratch: Path, rounds: int, asked: Contest
) -> tuple[list[Measured], list[Measured]]:
    """Run both contestants in turn."""
    directory = scratch / asked.name
    asked.work.write(directory)
    theirs, ours = [], []
    for round_ in range(rounds):
        work = asked.fewer or asked.work
        first = spark_epochs(spark, directory, work, asked.build, asked.mode, settled=asked.settled)
        second = our_epochs(spark, directory, asked.work, asked.text)
        progress(
            asked.name, round_, f"Spark {first.seconds:.2f} s, ours {second.seconds:.2f} s an epoch"
        )
        theirs.append(first)
        ours.append(second)
    shutil.rmtree(directory)
    return theirs, ours


def ratio(theirs: list[Measured], ours: list[Measured]) -> float:
    """Return how many times faster ours is."""
    return median(a.seconds / b.seconds for a, b in zip(theirs, ours, strict=True))


def note(theirs: list[Measured], ours: list[Measured]) -> str:
    """Say what an epoch took."""
    times = [median(each.seconds for each in some) for some in (theirs, ours)]
    return f"Spark {times[0]:.2f} s, ours {times[1]:.2f} s an epoch"


def join(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """A windowed equi-join of two streams, a match a row, which comes 6 minutes later."""
    streams = {"a": after(0), "b": after(3)}
    work = Workload(streams, rows=50_000, span=2 * MINUTE, epochs=7, warm=5)

    def build(frames: Mapping[str, DataFrame]) -> DataFrame:
        a, b = frames["a"].alias("a"), frames["b"].alias("b")
        near = f.expr(
            "a.k = b.k AND b.ts >= a.ts - INTERVAL 10 MINUTES "
            "AND b.ts <= a.ts + INTERVAL 10 MINUTES"
        )
        return a.join(b, near).select("a.k", "a.v", f.col("b.v").alias("w"))

    text = (
        "SELECT ISTREAM(a.k, a.v, b.v AS w) FROM a [RANGE 10 MINUTES], b [RANGE 10 MINUTES] "
        "WHERE a.k = b.k"
    )
    asked = Contest("join", work, build, "append", text, settled=True)
    theirs, ours = contest(spark, scratch, rounds, asked)
    states = median(b.state / a.state for a, b in zip(theirs, ours, strict=True))
    logged = f"{theirs[0].state / 1e6:.0f} MB of logs and a snapshot"
    sizes = f"{ours[0].state / 1e6:.0f} MB against {logged}"
    return [
        Figure("windowed join", ratio(theirs, ours), "at least", 8, "x", note(theirs, ours)),
        Figure("windowed join, state", states, "at most", 0.4, "x", sizes),
    ]


def grouped(slide: str | None) -> Build:
    """Return Spark's count and sum by window and key."""

    def build(frames: Mapping[str, DataFrame]) -> DataFrame:
        window = f.window("ts", "10 minutes", slide) if slide else f.window("ts", "10 minutes")
        return frames["a"].groupBy(window, "k").agg(f.count("*").alias("n"), f.sum("v").alias("s"))

    return build


def tumbling(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """Counts and sums by tumbling windows of 10 minutes, with few and with many groups."""
    text = (
        "SELECT ISTREAM(k, count(*) AS n, sum(v) AS s) "
        "FROM a [RANGE 10 MINUTES SLIDE 10 MINUTES] GROUP BY k"
    )
    found = []
    for n_groups, required in ((10_000, 0.5), (600_000, 2.0)):
        work = Workload({"a": among(n_groups)}, rows=1_000_000, span=2 * MINUTE, epochs=5, warm=3)
        case = f"tumbling, {n_groups:,} groups"
        theirs, ours = contest(
            spark, scratch, rounds, Contest(case, work, grouped(None), "update", text)
        )
        value = ratio(theirs, ours)
        found.append(Figure(case, value, "at least", required, "x", note(theirs, ours)))
    return found


def sliding(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """Counts and sums by windows of 10 minutes that slide by 10 seconds."""
    streams = {"a": among(10_000)}
    work = Workload(streams, rows=300_000, span=MINUTE, epochs=10, warm=11)
    fewer = Workload(streams, rows=300_000, span=MINUTE, epochs=3, warm=2)
    text = (
        "SELECT ISTREAM(k, count(*) AS n, sum(v) AS s) "
        "FROM a [RANGE 10 MINUTES SLIDE {}] GROUP BY k"
    )
    slow, fast = text.format("10 SECONDS"), text.format("10 MINUTES")
    build = grouped("10 seconds")
    theirs, ours = contest(
        spark, scratch, rounds, Contest("sliding", work, build, "update", slow, fewer)
    )
    work.write(scratch / "tumbles")
    tumbles = [our_epochs(spark, scratch / "tumbles", work, fast) for _ in range(rounds)]
    value = median(a.seconds for a in ours) / median(b.seconds for b in tumbles)
    return [
        Figure("sliding", ratio(theirs, ours), "at least", 10, "x", note(theirs, ours)),
        Figure("sliding, against tumbling", value, "at most", 1.5, "x"),
    ]


def five(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """A join of five streams by one key, within 10 minutes."""
    names = "abcde"
    streams = {name: after(at) for at, name in enumerate(names)}
    work = Workload(streams, rows=20_000, span=2 * MINUTE, epochs=7, warm=5)

    def build(frames: Mapping[str, DataFrame]) -> DataFrame:
        found = frames["a"].select("k", f.col("ts").alias("at"), f.col("v").alias("va"))
        for name in names[1:]:
            named = (
                f.col(old).alias(f"{new}{name}")
                for old, new in zip(("k", "ts", "v"), "ktv", strict=True)
            )
            other = frames[name].select(*named)
            near = f.expr(
                f"k = k{name} AND t{name} >= at - INTERVAL 10 MINUTES "
                f"AND t{name} <= at + INTERVAL 10 MINUTES"
            )
            found = found.join(other, near)
        return found.select("k", *(f"v{name}" for name in names))

    values = ", ".join(f"{name}.v AS v{name}" for name in names)
    streams = ", ".join(f"{name} [RANGE 10 MINUTES]" for name in names)
    equal = " AND ".join(f"a.k = {name}.k" for name in names[1:])
    text = f"SELECT ISTREAM(a.k, {values}) FROM {streams} WHERE {equal}"
    theirs, ours = contest(spark, scratch, rounds, Contest("five", work, build, "append", text))
    value = ratio(theirs, ours)
    return [Figure("5-way join", value, "at least", 10, "x", note(theirs, ours))]


def windows(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """A thousand windows, from a second to an hour, against one of an hour."""
    work = Workload({"a": among(10)}, rows=200_000, span=10 * MINUTE, epochs=6, warm=8)
    work.write(scratch / "windows")
    text = (
        "SELECT RSTREAM(k, count(*) AS n, sum(v) AS s) EVERY 1 MINUTE "
        "FROM a [RANGE {} SECONDS] GROUP BY k"
    )
    sizes = pa.table({"w": np.linspace(1, 3_600, 1_000).astype(np.int64)})
    ones, many = [], []
    for round_ in range(rounds):
        one = our_epochs(spark, scratch / "windows", work, text.format(3_600))
        thousand = our_epochs(spark, scratch / "windows", work, text.format(":w"), sizes)
        shown = f"one {one.seconds:.2f} s, a thousand {thousand.seconds:.2f} s an epoch"
        progress("windows", round_, shown)
        ones.append(one)
        many.append(thousand)
    states = median(b.state / a.state for a, b in zip(ones, many, strict=True))
    sizes_shown = f"{ones[0].state / 1e6:.1f} MB against {many[0].state / 1e6:.1f} MB"
    return [
        Figure("1,000 windows, state", states, "at most", 1.2, "x", sizes_shown),
        Figure("1,000 windows", ratio(ones, many), "at least", 0.2, "x", "10 groups, each minute"),
    ]


def growth(spark: SparkSession, scratch: Path, _rounds: int) -> list[Figure]:
    """Epochs of 1,000 rows while a window fills up to 10,000,000 rows."""
    work = Workload({"a": among(10_000)}, rows=1_000, span=SECOND, epochs=40, warm=10)
    work.write(scratch / "growth")
    large = Workload({"a": among(10_000)}, rows=1_000_000, span=MINUTE, epochs=9, warm=0)
    text = "SELECT k, count(*) AS n, sum(v) AS s FROM a [RANGE 10 HOURS] GROUP BY k"
    empty, full, rows = growing(spark, scratch / "growth", work, large, text)
    progress("growth", 0, f"{empty * 1e3:.0f} ms empty, {full * 1e3:.0f} ms full")
    shown = f"{empty * 1e3:.0f} ms an epoch, then {full * 1e3:.0f} ms with {rows:,} rows remembered"
    return [Figure("window of 10,000,000 rows", full / empty, "at most", 1.5, "x", shown)]


def restart(_spark: SparkSession, scratch: Path, _rounds: int) -> list[Figure]:
    """Kill the driver with a window of 10,000,000 rows; measure how soon it serves again."""
    directory, root = scratch / "restart", scratch / "restart-root"
    work = Workload({"a": among(10_000)}, rows=1_000_000, span=MINUTE, epochs=9, warm=0)
    work.write(directory)
    text = "SELECT k, count(*) AS n FROM a [RANGE 10 HOURS] GROUP BY k"
    command = [sys.executable, "-m", "bench.epoch_victim", str(root), str(directory / "a"), text]
    victim(command, lambda line: line.get("rows", 0) > 0 and line["epoch"] >= work.epochs)
    late = Workload({"a": among(10_000)}, rows=1_000, span=SECOND, epochs=0, warm=0)
    late.write(scratch / "news", first=work.epochs + 1, span=MINUTE)
    news = next((scratch / "news" / "a").iterdir())
    shutil.move(news, directory / "a" / "part-90000.parquet")
    after = victim(command, lambda line: line.get("fresh", False))
    served = next(line["since_spark"] for line in after if line.get("fresh"))
    rows = next(line["rows_in_runs"] for line in after if "rows_in_runs" in line)
    shown = f"{rows:,} rows remembered; from Spark being up to the commit of new rows"
    return [Figure("restart with a window", served, "at most", 10, "s", shown)]


CASES: dict[str, Case] = {
    "join": join,
    "tumbling": tumbling,
    "sliding": sliding,
    "five": five,
    "windows": windows,
    "growth": growth,
    "restart": restart,
}


def progress(case: str, round_: int, message: str) -> None:
    """Say how far the benchmark is."""
    console.print(f"  {case:>24} {round_:>2}  {message}", highlight=False)


def main() -> None:
    """Run the cases and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES), help="cases, by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-cql-"))
    spark = local_spark(cores=CORES)
    figures: list[Figure] = []
    try:
        for name in asked.only.split(","):
            figures += CASES[name](spark, scratch, asked.rounds)
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    keep = Path(__file__).parent / "results" / "cql.json" if asked.only.count(",") else None
    publish("CQL against Spark's stateful operators", figures, keep)


if __name__ == "__main__":
    main()
