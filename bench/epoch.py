"""What an epoch costs: against the identity yardstick, over time, on a quiet stream, after a kill.

make bench-epoch            all cases, about ten minutes
python -m bench.epoch --only small,large
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

import millrace
from bench import paced_source
from bench.epoch_runs import identity, ours, write_files
from bench.report import Figure, publish
from millrace.spark.launch import local_spark
from millrace.time import SECOND

CORES = 2
ROUNDS = 5
console = Console(stderr=True)

Case = Callable[[SparkSession, Path, int], list[Figure]]


def small(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """Epochs of 1,000 rows against the yardstick."""
    directory = scratch / "small"
    write_files(directory, rows=1_000, files=90)
    yardstick, engine = [], []
    for round_ in range(rounds + 1):
        first = identity(spark, directory, epochs=60, warm=20)
        second = ours(spark, directory, epochs=60, warm=20, threshold=99.0, rows=1_000)
        if round_:  # the first round warms the JVM up
            yardstick.append(first)
            engine.append(second)
        progress("small", round_, f"I {first * 1e3:.0f} ms, ours {second * 1e3:.0f} ms")
    above = median(b - a for a, b in zip(yardstick, engine, strict=True)) * 1e3
    note = f"I {median(yardstick) * 1e3:.0f} ms, ours {median(engine) * 1e3:.0f} ms an epoch"
    return [Figure("epoch of 1,000 rows, above I", above, "at most", 60, "ms", note)]


def large(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """Epochs of 1,000,000 rows, 1 % passing, against the yardstick."""
    directory, rows = scratch / "large", 1_000_000
    write_files(directory, rows=rows, files=20)
    seconds: dict[str, list[float]] = {"I": [], "rows": [], "files": []}
    for round_ in range(rounds + 1):
        found = {
            "I": identity(spark, directory, epochs=6, warm=3),
            "rows": ours(spark, directory, epochs=6, warm=3, threshold=99.0, rows=rows),
            "files": ours(
                spark, directory, epochs=6, warm=3, threshold=99.0, rows=rows, descriptors=True
            ),
        }
        if round_:
            for name, value in found.items():
                seconds[name].append(value)
        shown = ", ".join(f"{name} {rows / value / 1e6:.2f}" for name, value in found.items())
        progress("large", round_, f"{shown} million rows/s")
    figures = []
    for name, required, what in (("rows", 0.8, "general path"), ("files", 1.5, "descriptor files")):
        pairs = zip(seconds["I"], seconds[name], strict=True)
        ratio = median(a / b for a, b in pairs)
        mine, yard = (rows / median(seconds[each]) / 1e6 for each in (name, "I"))
        note = f"{mine:.2f} against {yard:.2f} million rows/s"
        case = f"1,000,000-row epochs, {what}, of I"
        figures.append(Figure(case, ratio, "at least", required, "x", note))
    return figures


def latency(spark: SparkSession, scratch: Path, _rounds: int) -> list[Figure]:
    """From a row's arrival to its delivery, at steady rates."""
    spark.dataSource.register(paced_source.PacedSource)
    figures = []
    for rate in (1_000, 10_000):
        waits, epoch = _latencies(spark, scratch / f"latency-{rate}", rate)
        p50, p99 = np.percentile(waits, [50, 99]) * 1e3
        progress("latency", rate, f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, epoch {epoch * 1e3:.0f} ms")
        case = f"arrival to delivery, {rate:,} rows/s"
        figures.append(Figure(f"{case}, p50", p50, "reported", None, "ms"))
        note = f"p99 {p99:.0f} ms, epoch {epoch * 1e3:.0f} ms"
        ratio = p99 / (epoch * 1e3)
        figures.append(Figure(f"{case}, p99 of the epoch time", ratio, "at most", 3, "x", note))
    return figures


def _latencies(spark: SparkSession, root: Path, rate: int) -> tuple[np.ndarray, float]:
    start, seconds, warm = time.time() + 1, 40, 15
    source = spark.readStream.format("paced").name("paced").options(
        rate=rate, start=start, stop=start + seconds
    ).load()  # fmt: skip
    waits: list[np.ndarray] = []

    def delivered(_query: str, _epoch: int, table: pa.Table) -> None:
        arrived = table["_time"].cast(pa.int64()).to_numpy() / 1e6
        if arrived[0] > start + warm:
            waits.append(time.time() - arrived)

    with millrace.Session(root, spark=spark) as session:
        session.stream("rows", source, time="arrived", delay="1 second")
        every = millrace.select("rows", "number", where=millrace.col("value") >= 0)
        session.query(every, name="every")
        session.sink(millrace.CallbackSink(delivered))
        session.start()
        time.sleep(start + seconds + 1 - time.time())
        ran = [each for each in session.statistics() if each.started / 1e6 > start + warm]
        starts = [each.started / 1e6 for each in ran if each.rows]
    return np.concatenate(waits), median(np.diff(starts))


def many(spark: SparkSession, scratch: Path, _rounds: int) -> list[Figure]:
    """2,000 epochs of 100 rows: neither files nor time may pile up."""
    directory, root = scratch / "many", scratch / "many-root"
    write_files(directory, rows=100, files=2_030)
    columns = "number bigint, symbol bigint, price double, size bigint, venue bigint, ts timestamp"
    source = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
    ends: list[float] = []
    most_files = 0
    with millrace.Session(root, spark=spark) as session:
        frame = source.name("trades").parquet(str(directory))
        session.stream("trades", frame, time="ts", key="symbol", retain="1 hour", delay="1 hour")
        session.query(millrace.select("trades", where=millrace.col("price") > 50), name="dear")
        session.sink(millrace.ParquetSink(scratch / "many-answers"))
        session.start()
        seen = -1
        while seen < 2_020:
            time.sleep(0.01)
            last = session.engine.manifest.epoch
            if last != seen:
                ends += [time.perf_counter()] * (last - seen)
                seen = last
                if last % 100 == 0:
                    files = sum(1 for each in root.rglob("*") if each.is_file())
                    most_files = max(most_files, files)
                    progress("many", last, f"{files} files")
    times = np.diff(ends)
    first, last = median(times[10:110]), median(times[-100:])
    note = f"first 100: {first * 1e3:.0f} ms, last 100: {last * 1e3:.0f} ms"
    return [
        Figure("2,000 epochs of 100 rows: files in root", most_files, "at most", 500, "files"),
        Figure("2,000 epochs: last 100 of first 100", last / first, "at most", 1.2, "x", note),
    ]


def timer(spark: SparkSession, scratch: Path, rounds: int) -> list[Figure]:
    """Measure when a due timer fires on a quiet stream."""
    trigger, idle = 0.5, 2.0
    spark.dataSource.register(paced_source.PacedSource)
    delays = []
    for round_ in range(rounds):
        start = time.time() + 2
        source = spark.readStream.format("paced").name("paced").options(
            rate=100, start=start, stop=start + 10
        ).load()  # fmt: skip
        settings = millrace.Settings(trigger=int(trigger * SECOND))
        with millrace.Session(
            scratch / f"timer-{round_}", spark=spark, settings=settings
        ) as session:
            session.stream("rows", source, time="arrived", idle=int(idle * SECOND))
            session.query(millrace.select("rows"), name="every")
            session.start()
            due, fired = _fired(session, idle)
        delays.append((fired - due) / trigger)
        progress("timer", round_, f"{delays[-1] * trigger * 1e3:.0f} ms after it was due")
    return [
        Figure("a due timer on a quiet stream fires after", max(delays), "at most", 2, "triggers",
               f"worst of {rounds}, trigger {trigger * 1e3:.0f} ms")
    ]  # fmt: skip


def _fired(session: millrace.Session, idle: float) -> tuple[float, float]:
    """Wait for an epoch without rows after the stream fell quiet; return when it was due."""
    deadline = time.time() + 120
    while time.time() < deadline:
        time.sleep(0.05)
        ran = session.statistics()
        due = max((each.started for each in ran if each.rows), default=2**62) / 1e6 + idle
        fired = [each.started / 1e6 for each in ran if not each.rows and each.started / 1e6 >= due]
        if fired and time.time() > due + 1:
            return due, min(fired)
    return 0.0, float("inf")


def restart(_spark: SparkSession, scratch: Path, _rounds: int) -> list[Figure]:
    """Kill the driver with 10,000,000 rows in runs; measure how soon it serves again."""
    directory, root = scratch / "restart", scratch / "restart-root"
    write_files(directory, rows=1_000_000, files=10)
    command = [sys.executable, "-m", "bench.epoch_victim", str(root), str(directory)]
    before = victim(command, lambda line: line.get("rows_in_runs", 0) >= 10_000_000)
    write_files(scratch / "news", rows=1_000, files=1)
    shutil.move(scratch / "news" / "part-00000.parquet", directory / "part-90000.parquet")
    after = victim(command, lambda line: line.get("fresh", False))
    committed = max(line["epoch"] for line in before if "epoch" in line)
    reread = [line for line in after if line.get("rows") and line["epoch"] <= committed]
    served = next(line["since_spark"] for line in after if line.get("fresh"))
    progress("restart", 0, f"{served:.1f} s, {len(reread)} committed epochs read again")
    rows = next(line["rows_in_runs"] for line in after if "rows_in_runs" in line)
    note = f"{rows:,} rows in runs; from Spark being up to the commit of new rows"
    return [
        Figure("restart with 10,000,000 rows in runs", served, "at most", 10, "s", note),
        Figure("committed epochs read again", len(reread), "at most", 0, "epochs"),
    ]


def victim(command: list[str], enough: Callable[[dict], bool]) -> list[dict]:  # type: ignore[type-arg]
    """Run the victim until it has said enough, then kill it; return what it said."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(300, process.kill)
    timer.start()
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        said.append(json.loads(line))
        if enough(said[-1]):
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    timer.cancel()
    return said


CASES: dict[str, Case] = {
    "small": small,
    "large": large,
    "latency": latency,
    "timer": timer,
    "restart": restart,
    "many": many,
}


def progress(case: str, step: int, text: str) -> None:
    """Say how far a case is."""
    console.print(f"[dim]{case:>8} {step:>6}  {text}")


def main() -> None:
    """Run the chosen cases."""
    parser = argparse.ArgumentParser(prog="bench.epoch", description=__doc__)
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="interleaved repetitions")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    scratch = Path(tempfile.mkdtemp(prefix="bench-epoch-"))
    spark = local_spark(cores=CORES, memory="2g")
    figures: list[Figure] = []
    try:
        for name in chosen:
            figures += CASES[name](spark, scratch, arguments.rounds)
    finally:
        spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    keep = Path(__file__).parent / "results" / "epoch.json" if len(chosen) == len(CASES) else None
    publish("What an epoch costs", figures, keep)


if __name__ == "__main__":
    main()
