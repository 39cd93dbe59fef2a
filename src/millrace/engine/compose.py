"""Composing a commit: from the receipts of an epoch to the delta of the manifest.

A pure function of the manifest before, the decision and the receipts; the order in which the
receipts came in does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.lateness import watermark
from millrace.engine.receipt import Receipt, Written
from millrace.engine.stores import query_of, results_store, store_specs
from millrace.engine.tally import Tally, advanced
from millrace.state.manifest import Delta, Manifest, commit_name
from millrace.state.merge import MergeProgress
from millrace.state.piece import Piece
from millrace.state.run import pieces_of

Consumed = Callable[[str], int | None]
"""For a query, the least epoch that a sink of it still needs; None if no sink wants it."""


def inline_runs(receipts: list[Receipt]) -> dict[str, pa.Table]:
    """Return the small runs that will rest in the commit itself, by their labels."""
    return {name: table for each in _ordered(receipts) for name, table in each.inline.items()}


def compose(
    manifest: Manifest,
    catalog: Catalog,
    decision: Decision,
    receipts: list[Receipt],
    *,
    term: int,
    dropped: Mapping[str, tuple[int, ...]],
    verdicts: Mapping[int, Mapping[str, Any]],
) -> Delta:
    """Return what the epoch changes."""
    ordered = _ordered(receipts)
    file = commit_name(decision.identity.epoch)
    inline = pieces_of(file, inline_runs(ordered))
    placed = [
        (each, each.piece or inline.get(each.label))
        for receipt in ordered
        for each in receipt.written
    ]
    wanted = dict(store_specs(catalog))
    tallies = [tally for receipt in ordered for tally in receipt.tallies]
    failed = {results_store(each) for each in catalog.queries.values() if each.qid in verdicts}
    return Delta(
        decision.identity.epoch,
        term,
        decision.identity.digest,
        created={name: spec for name, spec in wanted.items() if name not in manifest.stores},
        removed=tuple(_outlived(manifest, wanted)),
        dropped=dropped,
        merged=_merged(decision, placed),
        added=_added(placed, failed),
        facts={
            **_facts(manifest, catalog, decision, tallies, verdicts),
            "counts": _counts(manifest, tallies, lost=_n_rows(placed, failed)),
        },
    )


def consumed_runs(manifest: Manifest, consumed: Consumed) -> dict[str, tuple[int, ...]]:
    """Return the runs of answers that every sink has passed."""
    dropped = {}
    for store, state in manifest.stores.items():
        query = query_of(store)
        if query is not None and state.runs:
            needed = consumed(query)
            runs = (run.id for run in state.runs if needed is None or run.epoch < needed)
            dropped[store] = tuple(runs)
    return {store: runs for store, runs in dropped.items() if runs}


def _ordered(receipts: list[Receipt]) -> list[Receipt]:
    return sorted(receipts, key=lambda each: each.shard)


def _outlived(manifest: Manifest, wanted: Mapping[str, object]) -> list[str]:
    """Return stores of what has been dropped; answers stay until they are delivered."""
    gone = [name for name in manifest.stores if name not in wanted]
    return [
        name for name in gone if not manifest.stores[name].queue or not manifest.stores[name].runs
    ]


def _merged(
    decision: Decision, placed: list[tuple[Written, Piece | None]]
) -> tuple[MergeProgress, ...]:
    outputs = {each.merge: piece for each, piece in placed if each.merge is not None}
    assert len(outputs) == len(decision.merges), "every merge of the decision was performed once"
    return tuple(
        MergeProgress(merge, outputs[number]) for number, merge in enumerate(decision.merges)
    )


def _added(
    placed: list[tuple[Written, Piece | None]], failed: set[str]
) -> dict[str, tuple[tuple[Piece, ...], ...]]:
    """Return the new runs: one of all shards for what is keyed, one a shard for answers.

    Of a query that failed in this epoch nothing is kept: which of its answers came before the
    failure depends on how the rows were spread over tasks.
    """
    added: dict[str, tuple[tuple[Piece, ...], ...]] = {}
    for each, piece in placed:
        if each.merge is not None or piece is None or each.store in failed:
            continue
        runs = added.get(each.store, ())
        if runs and each.store.startswith("rows/"):
            added[each.store] = ((*runs[0], piece),)
        else:
            added[each.store] = (*runs, (piece,))
    return added


def _facts(
    manifest: Manifest,
    catalog: Catalog,
    decision: Decision,
    tallies: list[Tally],
    verdicts: Mapping[int, Mapping[str, Any]],
) -> dict[str, Any]:
    clocks, marks = facts.clocks(manifest, catalog), facts.watermarks(manifest, catalog)
    seen = facts.seen(manifest, catalog)
    still_idle: dict[str, list[str]] = {}
    for name, stream in catalog.streams.items():
        mine = [each for each in tallies if each.stream == name]
        clocks[name] = advanced(clocks.get(name, {}), mine)
        had_rows = {segment.partition for tally in mine for segment in tally.segments}
        seen[name] = {**seen.get(name, {}), **dict.fromkeys(had_rows, decision.clock)}
        idle = [each for each in decision.idle.get(name, []) if each not in had_rows]
        still_idle[name] = idle
        mark = watermark(clocks[name], idle, delay=stream.delay, previous=marks.get(name))
        if mark is not None:
            marks[name] = mark
    digests = [
        *manifest.facts.get("digests", []),
        [decision.identity.epoch, decision.identity.digest],
    ]
    still = facts.suspended(manifest, catalog)
    return {
        "clocks": clocks,
        "watermarks": marks,
        "seen": seen,
        "born": {name: stream.born for name, stream in catalog.streams.items()},
        "idle": {name: each for name, each in still_idle.items() if each},
        "suspended": {str(qid): verdict for qid, verdict in {**still, **verdicts}.items()},
        "query": decision.identity.query,
        "digests": digests[-facts.N_DIGESTS :],
    }


def _counts(manifest: Manifest, tallies: list[Tally], *, lost: int) -> dict[str, int]:
    before: dict[str, int] = manifest.facts.get("counts", {})
    counts = {
        name: before.get(name, 0) + sum(getattr(each, name) for each in tallies)
        for name in ("rows", "late", "dead", "results")
    }
    return {**counts, "results": counts["results"] - lost}


def _n_rows(placed: list[tuple[Written, Piece | None]], stores: set[str]) -> int:
    return sum(each.rows for each, _ in placed if each.store in stores)
