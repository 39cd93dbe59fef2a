"""One shard's step, the other half of an epoch: from chunks to runs and a receipt.

    chunks, sorted by origin ─► runs of retained rows ┐
                             ─► runs of answers       ├─► one file, or the receipt itself
                             ─► late rows, letters    │
    logged merges of this shard ─► merged pieces ─────┘

Where rows of plans travel between shards, an epoch has several stages, and a shard has a step in
each. The first does all of the above, the others run what is left of the plans; those before the
last hand on what they have made (`engine.hop`), and the last hands back one receipt for all.

The step is a pure function of its chunks, the decision and the files that the decision's
merges name: run again, it makes the same bytes under the same names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millrace import failpoints
from millrace.engine import chunk as kinds
from millrace.engine.backfilling import Backfilled, backfill
from millrace.engine.catalog import Catalog
from millrace.engine.chunk import Chunk
from millrace.engine.decision import Decision
from millrace.engine.plan_stores import is_of_plans, remembers_counts
from millrace.engine.progress import Progress
from millrace.engine.receipt import BESIDE, Receipt, Written
from millrace.engine.registry import read_catalog
from millrace.engine.running import EVERYTHING, Moved, Running, Sent
from millrace.engine.set_folding import folded_sets
from millrace.engine.standing import of_standing
from millrace.engine.stores import answers_in, is_found, retained_in
from millrace.engine.tally import Tally
from millrace.operators.canonical import ordered_by
from millrace.operators.select import Function
from millrace.state.folding import slim
from millrace.state.merge import perform
from millrace.state.order import sort_rows
from millrace.state.root import Root
from millrace.state.run import write_runs

INLINE_BYTES = 64 << 10
"""Outputs up to this size travel in the receipt and rest in the commit."""


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """What a step has made: the receipt so far, rows for other shards, how far time has come."""

    receipt: Receipt
    sent: Sequence[Sent] = ()
    progress: Progress | None = None


def step(
    chunks: Iterable[Chunk],
    decision: Decision,
    root: Root,
    shard: int | None = None,
    *,
    hop: int = 0,
    functions: Mapping[str, Function] | None = None,
    catalog: Catalog | None = None,
) -> Stepped:
    """Run one shard's part of a stage of an epoch; without a shard, all of them together."""
    begun = time.perf_counter()
    arrived = [each for each in chunks if each.hop == hop]
    arrived.sort(key=lambda each: each.origin)
    failpoints.reach("step.before")
    moved, progress = Moved(), None
    if decision.plans or decision.backfill:
        catalog = catalog or read_catalog(root, decision.catalog)
    backfilled = Backfilled()
    if catalog is not None and decision.backfill and hop == 0 and not shard:
        backfilled = backfill(decision, catalog, root, functions or {})
    arrived += backfilled.chunks
    if catalog is not None and decision.plans:
        keys = EVERYTHING if shard is None else decision.key_range(shard)
        running = Running(decision, catalog, root, functions or {}, keys, hop)
        progress = _progress(arrived, running)
        moved = running.run(_inputs(arrived), progress)
    runs = _sorted_runs(arrived, moved, shard or 0)
    runs |= _sorted_runs(backfilled.apart, Moved(), BESIDE)
    sorted_at = time.perf_counter()
    if hop == 0:
        runs.update(_merged(decision, root, shard))
    merged_at = time.perf_counter()
    failpoints.reach("step.computed")
    receipt = _store(runs, decision, root, shard)
    failpoints.reach("step.written")
    receipt = replace(
        receipt,
        tallies=(*_tallies(arrived, kinds.TALLY), *_of_plans(moved), *backfilled.tallies),
        oversize=any(each.kind == kinds.OVERSIZE for each in arrived),
        seconds={
            "sort": sorted_at - begun,
            "merge": merged_at - sorted_at,
            "write": time.perf_counter() - merged_at,
        },
        work=moved.work,
        reaches=moved.reaches,
        weighed=moved.weighed,
    )
    for each in arrived:
        if each.kind == kinds.RECEIPT:
            receipt = receipt.following(Receipt.unpack(each.payload))
    return Stepped(receipt, moved.sent, progress)


def _tallies(arrived: list[Chunk], *wanted: str) -> Iterable[Tally]:
    for each in arrived:
        if each.kind in wanted:
            yield Tally.from_json(json.loads(each.payload))


def _inputs(arrived: list[Chunk]) -> dict[str, pa.Table]:
    """Return what has come for plans: by the store where it waits, or by the hop it has made."""
    inputs: dict[str, list[pa.Table]] = {}
    for each in arrived:
        if each.kind in (kinds.INPUT, kinds.TRAVEL):
            inputs.setdefault(each.name, []).append(each.table())
    return {name: pa.concat_tables(tables) for name, tables in inputs.items()}


def _progress(arrived: list[Chunk], running: Running) -> Progress:
    """Return how far time has come: what all tasks say, or the stage before."""
    for each in arrived:
        if each.kind == kinds.PROGRESS:
            return Progress.unpack(each.payload)
    tallies = _tallies(arrived, kinds.TALLY, kinds.CLOCKS)
    return Progress.of(running.catalog, running.decision, tallies)


def _of_plans(moved: Moved) -> Iterable[Tally]:
    """Tell what plans have answered, and which have failed."""
    n_results, failures = sum(moved.found.values()), tuple(moved.failures)
    if n_results or failures:
        yield Tally("", results=n_results, failures=failures, found=moved.found)


def _sorted_runs(arrived: list[Chunk], moved: Moved, shard: int) -> dict[Written, pa.Table]:
    """Make one run for each store that got rows."""
    gathered: dict[str, list[pa.Table]] = {
        store: list(tables) for store, tables in moved.rows.items()
    }
    answers = {each.name for each in arrived if each.kind == kinds.RESULTS}
    answers |= {store for store in gathered if answers_in(store) is not None}
    counted = {each.name for each in arrived if each.kind == kinds.COUNTS}
    for each in arrived:
        if each.kind in kinds.TABLES:
            gathered.setdefault(each.name, []).append(each.table())
    runs = {}
    for store in sorted(gathered):
        table = pa.concat_tables(gathered[store])
        if store in answers:
            table = ordered_by(table, ("_key", "_time"))
        elif store in counted:
            table = _added_up(table)
        elif remembers_counts(store):
            table = slim(table)
        runs[Written(store, shard, table.num_rows)] = sort_rows(table)
    return runs


def _added_up(counts: pa.Table) -> pa.Table:
    """Add up what several tasks have counted for one query."""
    summed = counts.group_by(["_key", "_time"], use_threads=False).aggregate([("n_rows", "sum")])
    return summed.rename_columns({"n_rows_sum": "n_rows"}).select(counts.column_names)


def _merged(decision: Decision, root: Root, shard: int | None) -> dict[Written, pa.Table]:
    """Perform those of the epoch's merges that fall to this shard."""
    runs = {}
    for number, merge in enumerate(decision.merges):
        if shard is None or number % decision.n_shards == shard:
            table = perform(root, merge)
            if is_found(merge.store):
                table = of_standing(table, root, decision.catalog)
                table = folded_sets(table, retained_in(merge.store))
            runs[Written(merge.store, shard or 0, table.num_rows, number)] = table
    return runs


def _store(
    runs: dict[Written, pa.Table], decision: Decision, root: Root, shard: int | None
) -> Receipt:
    """Keep small outputs for the commit; write the others to one file."""
    size = sum(table.nbytes for table in runs.values())
    named = {each.label: table for each, table in runs.items() if table.num_rows}
    if size <= INLINE_BYTES:
        return Receipt(shard or 0, tuple(runs), named)
    low, high = (shard, shard + 1) if shard is not None else (0, decision.n_shards)
    buckets = (decision.shards[low], decision.shards[high])
    narrow = {each.label for each in runs if is_of_plans(each.store)}
    epoch = decision.identity.epoch
    pieces = write_runs(root, named, epoch=epoch, buckets=buckets, narrow=narrow)
    written = tuple(replace(each, piece=pieces.get(each.label)) for each in runs)
    return Receipt(shard or 0, written, bytes_written=sum(each.bytes for each in pieces.values()))
