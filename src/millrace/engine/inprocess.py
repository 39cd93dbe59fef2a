"""Epochs without Spark: the same routes, steps and commits, run by a loop in this process.

It serves tests, small embedded uses, and as the plain answer to what Spark's tasks should do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.chunk import Chunk, pack_table
from millrace.engine.decision import Decision, Identity
from millrace.engine.hop import travel
from millrace.engine.receipt import Receipt
from millrace.engine.registry import read_catalog
from millrace.engine.route import Arrived, Router
from millrace.engine.step import step
from millrace.engine.supervise import ExecutionError
from millrace.errors import StoreError
from millrace.operators.select import Function
from millrace.state.root import Root

QUERY = "in process"


@dataclass(frozen=True, slots=True)
class Task:
    """What one map task would get: batches of one stream."""

    stream: str
    arrived: Sequence[Arrived]


@dataclass(frozen=True, slots=True)
class InProcess:
    """Executes an epoch over tasks that are in memory.

    `arrange` may change the order in which chunks reach the shards; tests shuffle them.
    """

    root: Root
    tasks: Sequence[Task]
    functions: Mapping[str, Function] = field(default_factory=dict)
    arrange: Callable[[list[Chunk]], Iterable[Chunk]] = iter

    def execute(self, decision: Decision) -> list[Receipt]:
        """Run all routes, then all steps, stage by stage."""
        try:
            catalog = read_catalog(self.root, decision.catalog)
            chunks = list(self.arrange(list(self._routed(decision, catalog))))
            if not decision.spread:
                whole = step(chunks, decision, self.root, functions=self.functions, catalog=catalog)
                return [whole.receipt]
            for hop in range(decision.n_hops):
                chunks = list(self.arrange(list(self._travelled(chunks, decision, hop, catalog))))
            return [
                step(
                    _of(chunks, shard),
                    decision,
                    self.root,
                    shard,
                    hop=decision.n_hops,
                    functions=self.functions,
                    catalog=catalog,
                ).receipt
                for shard in range(decision.n_shards)
            ]
        except (StoreError, OSError) as cause:
            raise ExecutionError(
                f"a task failed: {cause}", signature=str(cause), blames_query=False
            ) from cause

    def _routed(self, decision: Decision, catalog: Catalog) -> Iterable[Chunk]:
        for number, task in enumerate(self.tasks):
            spec = catalog.stream(task.stream)
            router = Router(
                spec, decision, catalog, self.root, task=number, functions=self.functions
            )
            for arrived in task.arrived:
                yield from router.take(arrived)
            yield from router.finish()

    def _travelled(
        self, chunks: list[Chunk], decision: Decision, hop: int, catalog: Catalog
    ) -> Iterator[Chunk]:
        """Run a stage in all shards, and give what goes to the next."""
        for shard in range(decision.n_shards):
            yield from travel(
                _of(chunks, shard),
                decision,
                self.root,
                shard,
                hop=hop,
                functions=self.functions,
                catalog=catalog,
            )

    def identity(self, epoch: int) -> Identity:
        """Identify this input as the input of an epoch."""
        digest = hashlib.sha256()
        for task in self.tasks:
            digest.update(task.stream.encode())
            for arrived in task.arrived:
                digest.update(pack_table(pa.Table.from_batches([arrived.rows])))
        return Identity(QUERY, epoch, digest.hexdigest())


def _of(chunks: list[Chunk], shard: int) -> Iterator[Chunk]:
    return (each for each in chunks if each.shard == shard)
