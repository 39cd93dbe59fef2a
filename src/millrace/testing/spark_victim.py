"""A driver to be killed: runs a fixed stream to its end, and says each epoch that it commits.

    python -m millrace.testing.spark_victim DIRECTORY INPUT [--master MASTER]

The input stands there before the first start (`write_input`): the same number of files for a
stream that workers read by descriptors and for one whose rows Spark reads. An epoch takes one
file of each, so that the cut into epochs, and with it every byte of the output, is the same
however often the driver ends in between. The output, all below `out/` in the directory:

    out/sink/<query>/part-….parquet     what the Parquet sink made public
    out/tables/…                        history, late rows, dead letters and facts at the end

Invariant: with all files consumed, `out/` depends on the input alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

import millrace
from millrace import col
from millrace.engine.backend import Run
from millrace.errors import MachineError
from millrace.spark.backend import jvm_pid
from millrace.spark.launch import local_spark
from millrace.state.names import RUNS, epoch_of
from millrace.testing.spark_rows import (
    COLUMNS,
    SPARK_COLUMNS,
    canonical_bytes,
    trades,
    write_file,
)

PLANS = {
    "sliding": "SELECT symbol, count(*) AS n, sum(price) AS total, max(number) AS newest "
    "FROM rows [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY symbol",
    "pairs": "SELECT ISTREAM(f.number, r.number AS other) FROM files [RANGE 5 SECONDS] f "
    "JOIN rows [RANGE 5 SECONDS] r ON f.symbol = r.symbol",
    "newest": "SELECT number, price FROM files [PARTITION BY symbol ROWS 3]",
    "above": "SELECT ISTREAM(r.number, l.most) FROM rows [NOW] r JOIN limits l "
    "ON r.symbol = l.symbol AND r.price > l.most",
}
"""Queries that remember: a sliding group, a join, rows, and one with a table."""
LIMITS = [{"symbol": "ACME", "most": 12.0}, {"symbol": "BOLT", "most": 20.0}]
ROWS = 1_500
ROLL_EPOCHS = 4
STREAMS = ("files", "rows")
CROWDS = (
    "SELECT n, count(*) AS symbols FROM (SELECT symbol, count(*) AS n FROM files "
    "[RANGE 30 SECONDS SLIDE 30 SECONDS] GROUP BY symbol) GROUP BY n"
)
POLL_SECONDS = 0.02
DRAIN_SECONDS = 60.0


def write_input(directory: Path, n_epochs: int) -> None:
    """Write the input of `n_epochs` epochs; every hundredth row of it has no time."""
    assert n_epochs % ROLL_EPOCHS == 0, "the sink's last file ends with the last epoch"
    for stream in STREAMS:
        for epoch in range(n_epochs):
            table = trades(epoch * ROWS, (epoch + 1) * ROWS)
            timeless = pc.equal(pc.bit_wise_and(table["number"], 127), 100)
            stamps = pc.if_else(timeless, pa.scalar(None, table["ts"].type), table["ts"])
            path = directory / stream / f"{epoch:06d}.parquet"
            write_file(path, table.set_column(4, "ts", stamps))


def main() -> None:
    """Run until all files are consumed, then write down what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--master", default="local[2,4]")
    arguments = parser.parse_args()
    directory: Path = arguments.directory
    source: Path = arguments.input
    spark = local_spark(cores=2, extra={"spark.master": arguments.master})
    say(jvm=jvm_pid(spark))
    settings = millrace.Settings(spread="always", rows=1, backoff=50_000)
    with millrace.Session(directory / "root", spark=spark, settings=settings) as session:
        declare(session, spark, source)
        sink = directory / "out" / "sink"
        session.sink(millrace.ParquetSink(sink, roll_epochs=ROLL_EPOCHS, roll_every="1 day"))
        total = len(STREAMS) * ROWS * len(list((source / "files").iterdir()))
        run = session.start()
        try:
            run_to(session, run, total)
        except MachineError as error:  # to close would flush the sink, and shift its files
            sys.stderr.write(f"{error}\n")
            os._exit(1)
        run.stop()
        drained = session.engine.delivery.drain(DRAIN_SECONDS)
        assert drained, f"the sink has not taken everything: {session.sinks()}"
        write_tables(session, directory / "out" / "tables")
    say(done=True)
    spark.stop()


def declare(session: millrace.Session, spark: SparkSession, source: Path) -> None:
    """Declare both streams, a table, and some queries over them; done before, it does nothing."""
    words = {"time": "ts", "delay": "10 seconds", "order": "number", "key": "symbol"}
    files = millrace.Files(str(source / "files"))
    session.stream("files", files, schema=COLUMNS, retain="1 hour", **words)
    reader = spark.readStream.format("parquet").schema(SPARK_COLUMNS).name("rows")
    reader = reader.option("maxFilesPerTrigger", 1)
    session.stream("rows", reader.load(str(source / "rows")), retain="1 day", **words)
    for stream in STREAMS:
        dear = millrace.select(stream, "number", "price", where=col("price") > 20)
        session.query(dear, name=f"dear_{stream}")
        session.query(millrace.select(stream, "number", "symbol"), name=f"all_{stream}")
    session.table("limits", "symbol text, most double", key="symbol").insert_missing(LIMITS)
    for name, asked in PLANS.items():
        session.query(asked, name=name)
    session.query(CROWDS, name="crowds")


def run_to(session: millrace.Session, run: Run, n_rows: int) -> None:
    """Say each epoch, until so many rows are committed; raise what ends the run before."""
    said = -1
    while True:
        manifest = session.engine.manifest
        if manifest.epoch > said:
            said = manifest.epoch
            say(epoch=said)
        if manifest.facts.get("counts", {}).get("rows", 0) >= n_rows:
            return
        run.wait(POLL_SECONDS)


def write_tables(session: millrace.Session, directory: Path) -> None:
    """Write down what the root holds, without what depends on the clock."""
    directory.mkdir(parents=True, exist_ok=True)
    tables = {"dead": session.dead_letters()}
    for stream in STREAMS:
        tables[f"history_{stream}"] = retained(session, stream)
        tables[f"late_{stream}"] = session.late_rows(stream)
    for name, table in tables.items():
        without = () if name.startswith("history") else ("_time",)
        (directory / f"{name}.arrow").write_bytes(canonical_bytes(table, without=without))
    facts = session.engine.manifest.facts
    kept = {name: facts[name] for name in ("clocks", "watermarks", "suspended", "counts")}
    kept["leftovers"] = leftovers(session)
    (directory / "facts.json").write_text(json.dumps(kept, indent=1, sort_keys=True))


def retained(session: millrace.Session, stream: str) -> pa.Table:
    """Return a stream's history without expired rows, which go when an epoch has time for it."""
    spec = session.engine.registry.catalog.stream(stream)
    assert spec.retain is not None, "both streams are retained"
    horizon = session.engine.manifest.facts["watermarks"][stream] - spec.retain
    history = session.history(stream)
    return history.filter(pc.greater_equal(history["_time"], horizon))


def leftovers(session: millrace.Session) -> list[str]:
    """Collect garbage, and return the files of runs that are still there and that nothing names."""
    store = session.engine._store
    store.collect_garbage(temporary_seconds=0)
    named = frozenset().union(*(each.files() for each in (store.manifest, *store._kept())))
    found = [entry.name for entry in session.engine.root.list(f"{RUNS}/")]
    last = store.manifest.epoch
    return [name for name in found if name not in named and (epoch_of(name) or 0) <= last]


def say(**facts: object) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
