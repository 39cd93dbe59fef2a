"""A driver to be killed: keeps the history of a stream of files and says each epoch it commits.

With a query as its third argument it keeps what that remembers of a stream "a" instead.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import millrace
from bench import cql_runs
from bench.epoch_runs import COLUMNS
from millrace.spark.launch import local_spark


def main() -> None:
    """Run until killed."""
    root, directory, *text = Path(sys.argv[1]), *sys.argv[2:]
    spark = local_spark(cores=2, memory="2g")
    up = time.perf_counter()
    session = millrace.Session(root, spark=spark, settings=millrace.Settings(rows=1_000_000))
    opened = session.engine.manifest
    say(rows_in_runs=sum(each.rows for each in opened.stores.values()), epochs=opened.epoch + 1)
    if text:
        session.stream("a", millrace.Files(directory), schema=cql_runs.COLUMNS, time="ts")
        session.query(text[0], name="q")
    else:
        session.stream(
            "trades", millrace.Files(directory), schema=COLUMNS, time="ts", key="symbol",
            retain="10 hours", delay="10 hours",
        )  # fmt: skip
        session.query(
            millrace.select("trades", "number", where=millrace.col("price") > 99), name="dear"
        )
    session.start()
    said = opened.epoch
    while True:
        time.sleep(0.01)
        for each in session.statistics():
            if each.epoch > said:
                said = each.epoch
                rows = sum(store.rows for store in session.engine.manifest.stores.values())
                say(
                    epoch=each.epoch,
                    rows=each.rows,
                    rows_in_runs=rows,
                    since_spark=time.perf_counter() - up,
                    fresh=bool(each.rows and opened.epoch >= 0),
                )


def say(**facts: object) -> None:
    """Print one line of JSON."""
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
