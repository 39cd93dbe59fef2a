"""Rows for tests on Spark: the same trades as a table, as files of each format, and as bytes.

A trade is known by its `number`, so that a test can say which one is missing or came twice. Times
go up by one second, but for every 17th row, which is 30 seconds behind: late under any delay
below that. No two rows have one time, so an order by time is a total one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

COLUMNS = "symbol text, price double, size int, number bigint, ts timestamp"
SPARK_COLUMNS = "symbol string, price double, size int, number bigint, ts timestamp"
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)

_SYMBOLS = ("ACME", "BOLT", "CRUX", "Ölmühle", "")
_ARROW = pa.schema(
    [
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("size", pa.int32()),
        ("number", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)


def trades(first: int, stop: int) -> pa.Table:
    """Return the trades of the numbers `[first, stop)`."""
    numbers = range(first, stop)
    times = [BEGIN + timedelta(seconds=each, microseconds=each % 7) for each in numbers]
    late = timedelta(seconds=30, microseconds=11)
    columns = {
        "symbol": [None if each % 13 == 5 else _SYMBOLS[each % 5] for each in numbers],
        "price": [None if each % 11 == 3 else (each * 7 % 200) / 8 for each in numbers],
        "size": [each % 50 for each in numbers],
        "number": list(numbers),
        "ts": [
            at - late if number % 17 == 16 else at
            for number, at in zip(numbers, times, strict=True)
        ],
    }
    return pa.table(columns, schema=_ARROW)


def write_file(path: Path, table: pa.Table) -> None:
    """Write a table by the ending of the path; the file appears complete, by a rename.

    Files get times of modification in the order of their names, since sources go by that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.new")
    if path.suffix == ".parquet":
        pq.write_table(table, hidden)
    elif path.suffix == ".csv":
        pc.write_csv(table, hidden)
    else:
        lines = [json.dumps(_spelt(row), ensure_ascii=False) for row in table.to_pylist()]
        hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(path)


def write_files(directory: Path, ending: str, cuts: list[int]) -> None:
    """Write the trades of the numbers from `cuts[0]` on, one file between each two cuts."""
    for first, stop in pairwise(cuts):
        path = directory / f"trades-{first:06d}.{ending}"
        write_file(path, trades(first, stop))
        os.utime(path, (1_700_000_000 + first, 1_700_000_000 + first))


def canonical_bytes(table: pa.Table, *, without: tuple[str, ...] = ("_epoch",)) -> bytes:
    """Return a table as bytes that do not depend on its order, its chunks or its epochs."""
    kept = table.drop_columns([each for each in without if each in table.column_names])
    ordered = kept.sort_by([(name, "ascending") for name in kept.column_names])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ordered.schema) as writer:
        writer.write_table(ordered.combine_chunks())
    return bytes(sink.getvalue())


def wait_until(
    holds: Callable[[], bool], seconds: float = 90.0, describe: Callable[[], object] = str
) -> None:
    """Wait until something holds; fail, with a description, if it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            message = f"it did not come about in {seconds:g} s: {describe()}"
            raise TimeoutError(message)
        time.sleep(0.02)


def _spelt(row: dict[str, object]) -> dict[str, object]:
    at = row["ts"]
    assert isinstance(at, datetime), "every trade has a time"
    return {**row, "ts": at.isoformat()}
