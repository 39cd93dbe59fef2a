"""Composing a commit: the order of receipts does not matter, and what is dropped is what may be."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.compose import compose, inline_runs
from millrace.engine.decision import Decision, Identity
from millrace.engine.receipt import Receipt, Written
from millrace.engine.streams import StreamSpec
from millrace.engine.tally import Segment, Tally
from millrace.plan.nodes import select
from millrace.schema import Schema
from millrace.state.manifest import Manifest, apply
from millrace.testing.registering import add_feed

SCHEMA = Schema.of("x bigint, ts timestamp")


def catalog(keep: int = 0) -> Catalog:
    stream = StreamSpec("s", SCHEMA, "ts", 5, retain=100, idle=10)
    made = Catalog().apply({"do": "add stream", "stream": stream.to_json()})
    return made.apply(add_feed("q", select("s", "x"), schema=SCHEMA, keep=keep))


def decision(epoch: int = 0, **words: Any) -> Decision:
    return Decision(Identity("spark", epoch, f"d{epoch}"), 0, 1, 1_000, "c", {}, **words)


def rows(low: int) -> pa.Table:
    keys = pa.array([low, low + 1], pa.uint64())
    times = pa.array([5, 6], pa.timestamp("us", "UTC"))
    return pa.table({"_key": keys, "_time": [5, 6], "x": [1, 2], "ts": times})


def answers() -> pa.Table:
    return pa.table({"_key": pa.array([1], pa.uint64()), "_time": [5], "_late": [False], "x": [1]})


def receipts() -> list[Receipt]:
    made = []
    for shard in range(3):
        tables = {
            Written("rows/s.1", shard, 2): rows(10 * shard),
            Written("results/q.1", shard, 1): answers(),
        }
        tally = Tally(
            "s", rows=2, results=2 - shard, segments=(Segment(f"p{shard}", [0], 50 + shard, 50),)
        )
        inline = {each.label: table for each, table in tables.items()}
        made.append(Receipt(shard, tuple(tables), inline, (tally,) if shard < 2 else ()))
    return made


def composed(given: list[Receipt], manifest: Manifest | None = None, **words: Any) -> Any:
    parts = {"term": 1, "dropped": {}, "suspended": {}, **words}
    return compose(manifest or Manifest(), catalog(), decision(), given, **parts)


def test_the_order_of_receipts_does_not_matter() -> None:
    spelt = {str(composed(list(order)).to_json()) for order in permutations(receipts())}
    labels = {tuple(inline_runs(list(order))) for order in permutations(receipts())}

    assert len(spelt) == len(labels) == 1


def test_history_becomes_one_run_of_all_shards_and_answers_one_a_shard() -> None:
    manifest = apply(Manifest(), composed(receipts()))

    assert [len(run.pieces) for run in manifest.stores["rows/s.1"].runs] == [3]
    assert [len(run.pieces) for run in manifest.stores["results/q.1"].runs] == [1, 1, 1]
    assert manifest.facts["counts"] == {"rows": 4, "late": 0, "dead": 0, "results": 3}
    assert manifest.facts["clocks"] == {"s": {"p0": 50, "p1": 51}}
    assert manifest.facts["watermarks"] == {"s": 45}
    assert manifest.facts["seen"] == {"s": {"p0": 1_000, "p1": 1_000}}


def test_verdicts_are_facts() -> None:
    delta = composed(receipts(), suspended={1: {"generation": 0}})

    assert delta.facts["suspended"] == {"1": {"generation": 0}}


def test_a_store_of_answers_is_made_when_there_are_some() -> None:
    assert "results/q.1" in composed(receipts()).created
    assert sorted(composed([]).created) == ["dead letters", "late/s.1", "rows/s.1"]


def test_a_partition_that_had_rows_is_not_idle() -> None:
    idle = {"s": ["p0", "p9"]}
    delta = compose(
        Manifest(), catalog(), decision(idle=idle), receipts(), term=1, dropped={}, suspended={}
    )

    assert delta.facts["idle"] == {"s": ["p9"]}


def test_a_dropped_query_keeps_its_store_while_answers_wait_and_a_stream_does_not() -> None:
    manifest = apply(Manifest(), composed(receipts()))
    empty = compose(
        manifest, Catalog(sequence=4), decision(1), [], term=1, dropped={}, suspended={}
    )

    assert sorted(empty.removed) == ["late/s.1", "rows/s.1"]
    after = apply(manifest, empty)
    assert sorted(after.stores) == ["dead letters", "results/q.1"]
    assert after.facts["clocks"] == {}


def test_verdicts_are_told_again_only_when_they_change() -> None:
    verdicts = {1: {"generation": 0}}
    before = apply(Manifest(), composed(receipts(), suspended=verdicts))

    def facts(suspended: dict[int, dict[str, int]]) -> dict[str, Any]:
        delta = compose(before, catalog(), decision(1), [], term=1, dropped={}, suspended=suspended)
        return dict(delta.facts)

    assert "suspended" not in facts(verdicts)
    assert facts({})["suspended"] == {}
    assert facts({1: {"generation": 1}})["suspended"] == {"1": {"generation": 1}}
