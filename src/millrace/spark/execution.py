"""One epoch's tasks on Spark: one action over the batch, receipts back.

    quiet    no source has rows ─► step in the driver, without a job
    small    batch ─► collect chunks ─► step in the driver
    spread   batch ─► repartitionById(shard) ─► step in a task a shard ─► collect receipts
                        └── as often as rows of plans travel ──┘

Whatever takes a task down comes back as one `ExecutionError` that says whose fault it may be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from millrace.engine.chunk import from_batch
from millrace.engine.decision import Decision
from millrace.engine.receipt import Receipt
from millrace.engine.step import step
from millrace.engine.supervise import ExecutionError
from millrace.errors import StoreError
from millrace.operators.select import Function
from millrace.spark.chunk_rows import CHUNK_DDL, DECISION_PROPERTY, RECEIPT_DDL
from millrace.spark.tasks import run_hop, run_step
from millrace.state.root import Root

_OURS = re.compile(r"millrace\.[\w.]+\.(\w+Error): (.*)")
_NOT_A_QUERY = frozenset(
    {
        "StoreError",
        "StoreFullError",
        "CorruptionError",
        "SourceError",
        "OutageError",
        "MissingError",
        "SchemaError",
    }
)
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


@dataclass(frozen=True, slots=True)
class SparkExecution:
    """Executes an epoch over the DataFrame of chunks that Spark hands to it."""

    batch: DataFrame
    root: Root
    functions: Mapping[str, Function]
    quiet: bool = False

    def execute(self, decision: Decision) -> list[Receipt]:
        """Run the epoch's one action; an epoch without rows needs none."""
        context = self.batch.sparkSession.sparkContext
        known_by = json.dumps([decision.file, decision.identity.query])
        context.setLocalProperty(DECISION_PROPERTY, known_by)
        context.setJobDescription(f"epoch {decision.identity.epoch}.{decision.attempt}")
        try:
            if self.quiet:
                return [step([], decision, self.root, functions=self.functions).receipt]
            return self._spread(decision) if decision.spread else self._together(decision)
        except (PySparkException, Py4JError) as cause:
            if not decision.spread and "maxResultSize" in str(cause):
                return [Receipt(0, oversize=True)]
            raise _execution_error(str(cause)) from cause
        except (StoreError, OSError) as cause:
            raise ExecutionError(
                f"the driver's step failed: {cause}", signature=str(cause), blames_query=False
            ) from cause

    def _together(self, decision: Decision) -> list[Receipt]:
        table: pa.Table = self.batch.toArrow()
        chunks = (each for batch in table.to_batches() for each in from_batch(batch))
        return [step(chunks, decision, self.root, functions=self.functions).receipt]

    def _spread(self, decision: Decision) -> list[Receipt]:
        root, functions, last = self.root.uri, self.functions, decision.n_hops
        chunks = self.batch
        for hop in range(last):
            placed = chunks.repartitionById(decision.n_shards, chunks["shard"])
            chunks = placed.mapInArrow(run_hop(root, functions, hop), CHUNK_DDL)
        placed = chunks.repartitionById(decision.n_shards, chunks["shard"])
        stepped = placed.mapInArrow(run_step(root, functions, last), RECEIPT_DDL)
        receipts: pa.Table = stepped.toArrow()
        unpacked = [Receipt.unpack(each) for each in receipts.column("receipt").to_pylist()]
        shards = sorted(each.shard for each in unpacked)
        assert shards == list(range(decision.n_shards)), f"receipts of shards {shards}"
        return unpacked


def _execution_error(text: str) -> ExecutionError:
    """Say what took the tasks down, in a form in which equal failures look equal."""
    ours = _OURS.findall(text)
    if ours:
        name, message = ours[-1]
        return ExecutionError(
            f"a task failed: {message}",
            signature=f"{name} {message}",
            blames_query=name not in _NOT_A_QUERY,
        )
    telling = [line.strip() for line in text.splitlines() if _tells(line)]
    line = telling[-1] if telling else text.strip().splitlines()[0][:300]
    return ExecutionError(
        f"a task did not come back: {line[:300]}",
        signature=_NUMBERS.sub("#", line),
        detail=text[:2_000],
    )


def _tells(line: str) -> bool:
    words = ("Error", "Exception", "crashed", "exited", "Fatal", "Killed", "OutOfMemory", "lost")
    return any(word in line for word in words) and not line.lstrip().startswith("at ")
