"""Chunks: how rows travel from map tasks to shards, many rows as one binary value.

A chunk holds an Arrow table of one kind for one shard. It knows where it comes from (stage, source,
task, ordinal), and a shard sorts its chunks by that before it looks at them, so the order in
which the network delivers them cannot matter. In later stages of an epoch shards are what map tasks
are in the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("source", pa.string()),
        ("task", pa.int32()),
        ("ordinal", pa.int32()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("payload", pa.binary()),
        ("hop", pa.int32()),
    ]
)

ROWS = "rows"  # rows of a stream that is retained
RESULTS = "results"  # answers of queries
COUNTS = "counts"  # how many rows queries have matched
LATE = "late"  # rows that came too late
DEAD = "dead"  # rows that could not be read
TABLES = frozenset({ROWS, RESULTS, COUNTS, LATE, DEAD})  # `name` is the store they are for
INPUT = "input"  # rows of a stream that plans read; `name` lists the stores where they wait
TALLY = "tally"  # what a task saw: counts and clocks, as JSON; to the first shard
CLOCKS = "clocks"  # the same, to the other shards: so all know how far time has come
TRAVEL = "travel"  # rows between two stages of a plan; `name` is that of the feed, and of the hop
PROGRESS = "progress"  # how far time has come, as JSON: what later stages hear of the tallies
RECEIPT = "receipt"  # what a shard has made in earlier stages
OVERSIZE = "oversize"  # a task's output is too large for the driver; run the epoch spread out


@dataclass(frozen=True, slots=True)
class Chunk:
    """One table, or one document, on its way to a shard, to be there in the stage `hop`."""

    shard: int
    source: str
    task: int
    ordinal: int
    kind: str
    name: str
    payload: bytes
    hop: int = 0

    @property
    def origin(self) -> tuple[int, str, int, int]:
        """What a shard sorts its chunks by."""
        return self.hop, self.source, self.task, self.ordinal

    def table(self) -> pa.Table:
        """Return the rows inside; zero-copy."""
        return pa.ipc.open_stream(self.payload).read_all()


def pack_table(table: pa.Table) -> bytes:
    """Spell a table as bytes that `Chunk.table` reads back."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def to_batch(chunks: Iterable[Chunk]) -> pa.RecordBatch:
    """Return chunks as rows that can cross Spark."""
    listed = list(chunks)
    columns = [
        pa.array([getattr(each, field.name) for each in listed], field.type) for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def from_batch(batch: pa.RecordBatch) -> Iterator[Chunk]:
    """Read back what `to_batch` wrote; a chunk is large, so a loop over chunks is cheap."""
    for row in batch.to_pylist():
        yield Chunk(**row)
