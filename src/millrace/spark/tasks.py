"""What runs in Spark's Python workers: routes on the map side, steps on the shard side.

A worker keeps nothing that matters: it learns from a local property which logged decision it
runs under and reads that, and the catalog it names, from the root. Both are remembered by name
and query: a query never uses a name twice, so an idle worker that is used again reads nothing,
and a root that was deleted and made anew in its place has another query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
from pyspark import TaskContext

from millrace.connectors.files import Files
from millrace.connectors.pushed import PushedFile
from millrace.connectors.splits import FileSplit
from millrace.engine import chunk as chunks
from millrace.engine.arrivals import from_pushed, from_rows, from_splits
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.hop import travel
from millrace.engine.registry import read_catalog
from millrace.engine.route import Arrived, Router
from millrace.engine.step import step
from millrace.operators.select import Function
from millrace.spark.chunk_rows import DECISION_PROPERTY
from millrace.state.root import open_root
from millrace.state.run_file import forget

Batches = Iterator[pa.RecordBatch]
Mapper = Callable[[Batches], Batches]


def route_rows(root: str, stream: str, functions: Mapping[str, Function]) -> Mapper:
    """Return the map side for a stream of rows."""

    def routed(batches: Batches) -> Batches:
        task = _task()
        router = _router(root, stream, functions, task)
        if router is None:
            return
        spec, first = router.spec, 0
        for batch in batches:
            arrived = from_rows(spec, batch, origin=f"spark partition {task}", first=first)
            first += batch.num_rows
            yield from _packed(router.take(arrived))
        yield from _packed(router.finish())

    return routed


def route_files(root: str, stream: str, source: Files, functions: Mapping[str, Function]) -> Mapper:
    """Return the map side for a stream of files, whose descriptors arrive instead of rows."""

    def read(router: Router, descriptor: str) -> Iterator[Arrived]:
        spelt = json.loads(descriptor)
        splits = [FileSplit.from_json(each) for each in spelt["splits"]]
        return from_splits(router.spec, source, splits, spelt["begin"])

    return _described(root, stream, functions, read)


@dataclass(frozen=True, slots=True)
class Share:
    """Consecutive splits of one stream's files, and the number of the first."""

    stream: str
    source: Files
    begin: int
    splits: tuple[FileSplit, ...]


def route_shares(
    root: str, shares: Sequence[Sequence[Share]], functions: Mapping[str, Function]
) -> Mapper:
    """Return the map side for files that the driver has dealt: a task is told its number."""

    def routed(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for each in shares[number]:
                    yield from _shared(root, each, functions)

    return routed


def _shared(root: str, share: Share, functions: Mapping[str, Function]) -> Batches:
    router = _router(root, share.stream, functions, _task())
    if router is None:
        return
    for arrived in from_splits(router.spec, share.source, share.splits, share.begin):
        yield from _packed(router.take(arrived))
    yield from _packed(router.finish())


def route_pushed(root: str, stream: str, folder: str, functions: Mapping[str, Function]) -> Mapper:
    """Return the map side for a stream of pushed rows, whose files are named by descriptors."""

    def read(router: Router, descriptor: str) -> Iterator[Arrived]:
        files = [PushedFile.from_json(each) for each in json.loads(descriptor)]
        return from_pushed(open_root(root), folder, files, router.spec)

    return _described(root, stream, functions, read)


def _described(
    root: str,
    stream: str,
    functions: Mapping[str, Function],
    read: Callable[[Router, str], Iterator[Arrived]],
) -> Mapper:
    """Return the map side for a stream whose rows are read here, by descriptors."""

    def routed(batches: Batches) -> Batches:
        router = _router(root, stream, functions, _task())
        if router is None:
            return
        for batch in batches:
            for descriptor in batch.column(0).to_pylist():
                for arrived in read(router, descriptor):
                    yield from _packed(router.take(arrived))
        yield from _packed(router.finish())

    return routed


def run_hop(root: str, functions: Mapping[str, Function], hop: int) -> Mapper:
    """Return the shard side of a stage that is not the last."""

    def travelled(batches: Batches) -> Batches:
        arrived = [each for batch in batches for each in chunks.from_batch(batch)]
        decision = _decision(root)
        catalog = _catalog(root, decision.catalog, decision.identity.query)
        place = open_root(root), _task()
        yield from _packed(
            travel(arrived, decision, *place, hop=hop, functions=functions, catalog=catalog)
        )

    return travelled


def run_step(root: str, functions: Mapping[str, Function], hop: int) -> Mapper:
    """Return the shard side of the last stage."""

    def stepped(batches: Batches) -> Batches:
        arrived = [each for batch in batches for each in chunks.from_batch(batch)]
        decision = _decision(root)
        catalog = _catalog(root, decision.catalog, decision.identity.query)
        place = open_root(root), _task()
        receipt = step(
            arrived, decision, *place, hop=hop, functions=functions, catalog=catalog
        ).receipt
        forget(open_root(root))  # a deleted file takes room for as long as a worker maps it
        yield pa.record_batch({"receipt": pa.array([receipt.pack()], pa.binary())})

    return stepped


def _packed(routed: Iterator[chunks.Chunk]) -> Batches:
    for each in routed:
        yield chunks.to_batch([each])


def _router(root: str, stream: str, functions: Mapping[str, Function], task: int) -> Router | None:
    """Return the router of a stream; None if it was dropped while its rows were on their way."""
    decision = _decision(root)
    catalog = _catalog(root, decision.catalog, decision.identity.query)
    if stream not in catalog.streams:
        return None
    spec = catalog.stream(stream)
    return Router(spec, decision, catalog, open_root(root), task=task, functions=functions)


def _task() -> int:
    context = TaskContext.get()
    assert context is not None, "tasks run in Spark's workers"
    return int(context.partitionId())


def _decision(root: str) -> Decision:
    context = TaskContext.get()
    assert context is not None, "tasks run in Spark's workers"
    file, query = json.loads(context.getLocalProperty(DECISION_PROPERTY) or "")
    return _logged(root, file, query)


@lru_cache(maxsize=4)
def _logged(root: str, file: str, _query: str) -> Decision:
    return Decision.read(open_root(root), file)


@lru_cache(maxsize=4)
def _catalog(root: str, file: str, _query: str) -> Catalog:
    return read_catalog(open_root(root), file)
