"""Routing: what leaves a task, for whom, and how much of it at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from millrace.engine import chunk as kinds
from millrace.engine import outgoing
from millrace.engine.arrivals import from_rows
from millrace.engine.chunk import Chunk
from millrace.engine.decision import Decision, Identity
from millrace.engine.registry import Registry
from millrace.engine.route import Router
from millrace.engine.standing import sources_of
from millrace.engine.streams import StreamSpec
from millrace.engine.tally import Tally
from millrace.operators.keys import bucket_of, hash_columns
from millrace.plan.nodes import select
from millrace.plan.term import col
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.testing.registering import ask

SCHEMA = Schema.of("x bigint, ts timestamp")
SPEC = StreamSpec("s", SCHEMA, "ts", 5, key=("x",), retain=100, ordered=True, born=1)
ROOT = MemoryRoot()
REGISTRY = Registry.open(ROOT)
REGISTRY.record([{"do": "add stream", "stream": SPEC.to_json()}])
QIDS = {
    name: ask(REGISTRY, name, select("s", "x", where=col("x") >= low), schema=SCHEMA)
    for name, low in [("all", 0), ("none", 1_000), ("paused", 0), ("out", 0)]
}
REGISTRY.record([{"do": "pause", "qids": [QIDS["paused"]]}])
CATALOG = REGISTRY.publish({})


def decision(*, spread: bool = False) -> Decision:
    return Decision(
        Identity("q", 0, "d"), 0, 1, 77, CATALOG.file, {"s": {"": 10}}, suspended=(QIDS["out"],),
        shards=(0, 300, 700, 1024), spread=spread, wanted={name: ["rows"] for name in QIDS},
    )  # fmt: skip


def routed(times: list[int | None], *, task: int = 1, spread: bool = False) -> list[Chunk]:
    router = Router(SPEC, decision(spread=spread), CATALOG, ROOT, task=task, functions={})
    columns = [range(len(times)), pa.array(times, pa.timestamp("us", "UTC"))]
    batch = pa.RecordBatch.from_arrays([pa.array(each) for each in columns], names=["x", "ts"])
    halves = (batch.slice(0, len(times) // 2), batch.slice(len(times) // 2))
    taken = [from_rows(SPEC, half, origin="here", first=at * len(halves[0]))
             for at, half in enumerate(halves)]  # fmt: skip
    return [chunk for each in taken for chunk in router.take(each)] + list(router.finish())


def tally(chunks: list[Chunk]) -> Tally:
    (found,) = [each for each in chunks if each.kind == kinds.TALLY]
    return Tally.from_json(json.loads(found.payload))


def test_queries_that_are_paused_suspended_or_of_other_streams_do_not_run() -> None:
    (source,) = sources_of(ROOT, CATALOG, decision(), "s")

    assert source.out is not None
    assert source.run.qids[~source.out].tolist() == [QIDS["all"], QIDS["none"]]
    assert sources_of(ROOT, CATALOG, decision(), "other") == []


def test_in_a_probe_only_its_families_run() -> None:
    for families in ((), tuple(REGISTRY.catalog.families_of("none"))):
        (source,) = sources_of(ROOT, CATALOG, replace(decision(), families=families), "s")

        assert source.out is not None
        asked = [QIDS["none"]] if families else []
        assert source.run.qids[~source.out].tolist() == asked


def test_every_row_goes_where_it_belongs_and_is_counted() -> None:
    chunks = routed([20, 11, None, 30, 2])
    by_kind = {each.kind: each for each in chunks}

    counted = tally(chunks)
    assert (counted.rows, counted.late, counted.dead, counted.results) == (5, 2, 1, 4)
    assert by_kind[kinds.RESULTS].table().column("_late").to_pylist() == [False, True, False, True]
    assert by_kind[kinds.LATE].table().column("_position").to_pylist() == [1, 4]
    assert by_kind[kinds.DEAD].table().column("position").to_pylist() == [2]
    assert by_kind[kinds.DEAD].table().column("_time").to_pylist() == [77]
    kept = sorted(
        x for each in chunks if each.kind == kinds.ROWS for x in each.table()["x"].to_pylist()
    )
    assert kept == [0, 3]


def test_retained_rows_go_to_the_shard_that_owns_their_bucket() -> None:
    chunks = [each for each in routed(list(range(20, 120))) if each.kind == kinds.ROWS]

    assert sorted(each.shard for each in chunks) == [0, 1, 2]
    for each in chunks:
        rows = each.table().combine_chunks().to_batches()[0]
        buckets = bucket_of(hash_columns(rows, ["x"]))
        low, high = decision().shards[each.shard : each.shard + 2]
        assert all(low <= bucket < high for bucket in buckets.tolist())


@pytest.mark.parametrize("task", [0, 1, 2, 3])
def test_what_needs_no_particular_shard_is_spread_by_the_number_of_the_task(task: int) -> None:
    chunks = routed([20, 1], task=task)

    assert {each.shard for each in chunks if each.kind in (kinds.RESULTS, kinds.LATE)} == {task % 3}
    assert {each.shard for each in chunks if each.kind == kinds.TALLY} == {0}
    ordinals = [each.ordinal for each in chunks]
    assert ordinals == sorted(set(ordinals))


def test_a_task_without_rows_still_says_so() -> None:
    (only,) = routed([])

    assert only.kind == kinds.TALLY
    assert tally([only]) == Tally("s", seconds=tally([only]).seconds)


def test_what_is_too_large_for_the_driver_is_not_sent_but_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outgoing, "DRIVER_BYTES", 0)
    monkeypatch.setattr(outgoing, "CHUNK_BYTES", 1)

    marked = [each.kind for each in routed([20, 21, 22, 23])]
    spread = [each.kind for each in routed([20, 21, 22, 23], spread=True)]

    assert marked == [kinds.OVERSIZE, kinds.TALLY]
    assert spread.count(kinds.RESULTS) == 2  # each batch left at once
    assert kinds.OVERSIZE not in spread
