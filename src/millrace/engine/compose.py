"""Composing a commit: from the receipts of an epoch to the delta of the manifest.

A pure function of the manifest before, the decision and the receipts; the order in which the
receipts came in does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millrace.engine import facts
from millrace.engine.beside import Beside
from millrace.engine.births import births_now
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.plan_stores import is_spread
from millrace.engine.policies import policies_now
from millrace.engine.progress import Progress, can_begin, earliest, frontier
from millrace.engine.receipt import BESIDE, Receipt, Written
from millrace.engine.resting import rest_after
from millrace.engine.retention import grown, spanned
from millrace.engine.stores import store_specs
from millrace.engine.streams import SYSSTREAM
from millrace.engine.tally import Tally, advanced
from millrace.engine.warming import WARMING
from millrace.state.manifest import Delta, Manifest, commit_name
from millrace.state.merge import MergeProgress
from millrace.state.piece import Piece
from millrace.state.run import pieces_of


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
    suspended: Mapping[int, Mapping[str, Any]],
) -> Delta:
    """Return what the epoch changes; `suspended` are the verdicts that hold after it."""
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
    filled = {each.store for each, _ in placed}
    return Delta(
        decision.identity.epoch,
        term,
        decision.identity.digest,
        created={
            name: spec
            for name, spec in wanted.items()
            if name not in manifest.stores and (name in filled or not spec.queue)
        },
        removed=tuple(_outlived(manifest, wanted)),
        dropped=dropped,
        merged=_merged(decision, placed),
        added=_added(placed),
        facts={
            **_facts(manifest, catalog, decision, tallies),
            "reaches": _reaches(manifest, catalog, ordered),
            "ranges": _ranges(manifest, catalog, decision),
            **_verdicts(manifest, suspended),
            "counts": _counts(manifest, tallies),
            "catalog": decision.catalog,
        },
    )


def _reaches(manifest: Manifest, catalog: Catalog, receipts: list[Receipt]) -> dict[str, int]:
    """Return how far back plans read elements, where the queries of a family say so."""
    known = facts.reaches(manifest, catalog)
    found = {str(catalog.feeds[name].number): reach for name, reach in known.items()}
    for receipt in receipts:
        found |= {str(number): reach for number, reach in receipt.reaches.items()}
    return found


def _ranges(manifest: Manifest, catalog: Catalog, decision: Decision) -> dict[str, Any]:
    """Return the ranges of families, also of those that have no queries for a while."""
    known = {**facts.ranges(manifest, catalog), **decision.ranges}
    return {str(catalog.feeds[name].number): each for name, each in known.items()}


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
    placed: list[tuple[Written, Piece | None]],
) -> dict[str, tuple[tuple[Piece, ...], ...]]:
    """Return the new runs: one of all shards for what is keyed, one a shard for answers.

    What a shard made beside its own keys is a run of its own.
    """
    added: dict[str, tuple[tuple[Piece, ...], ...]] = {}
    for each, piece in sorted(placed, key=lambda one: one[0].shard == BESIDE):
        if each.merge is not None or piece is None:
            continue
        runs = added.get(each.store, ())
        if runs and is_spread(each.store) and each.shard != BESIDE:
            added[each.store] = ((*runs[0], piece),)
        else:
            added[each.store] = (*runs, (piece,))
    return added


def _facts(
    manifest: Manifest,
    catalog: Catalog,
    decision: Decision,
    tallies: list[Tally],
) -> dict[str, Any]:
    clocks, seen = facts.clocks(manifest, catalog), facts.seen(manifest, catalog)
    progress = Progress.of(catalog, decision, tallies)
    marks = {**facts.watermarks(manifest, catalog), **progress.marks}
    progress = Progress(marks, progress.earliest)
    plans = _of_plans(catalog, decision, progress)
    still_idle: dict[str, list[str]] = {}
    for name in catalog.streams:
        mine = [each for each in tallies if each.stream == name]
        clocks[name] = advanced(clocks.get(name, {}), mine)
        had_rows = {segment.partition for tally in mine for segment in tally.segments}
        seen[name] = {**seen.get(name, {}), **dict.fromkeys(had_rows, decision.clock)}
        idle = [each for each in decision.idle.get(name, []) if each not in had_rows]
        still_idle[name] = idle
    digests = [
        *manifest.facts.get("digests", []),
        [decision.identity.epoch, decision.identity.digest],
    ]
    return {
        "clock": decision.clock,
        **_spans(manifest, catalog, decision, tallies, marks),
        **policies_now(manifest, catalog, decision, marks),
        **plans,
        **rest_after(manifest, catalog, decision, progress, plans["frontiers"]),
        "clocks": clocks,
        "watermarks": marks,
        "seen": seen,
        "born": {name: stream.born for name, stream in catalog.streams.items()},
        "idle": {name: each for name, each in still_idle.items() if each},
        "backfills": {name: each["after"] for name, each in decision.backfill.items()},
        "asked": catalog.next_qid,
        "query": decision.identity.query,
        "digests": digests[-facts.N_DIGESTS :],
    }


def _spans(
    manifest: Manifest,
    catalog: Catalog,
    decision: Decision,
    tallies: list[Tally],
    marks: Mapping[str, int],
) -> dict[str, dict[str, list[list[int]]]]:
    """Return the least times of epochs, of streams whose answers are retained.

    Those of rows of the history that were answered are apart: only who sees history misses them.
    What was too old when it was answered was never there to be missed.
    """
    known, past = facts.spans(manifest, catalog), facts.past_spans(manifest, catalog)
    found: dict[str, dict[str, list[list[int]]]] = {"spans": {}, "past_spans": {}}
    epoch = decision.identity.epoch
    for stream, longest in spanned(catalog).items():
        times = [each.least for each in tallies if each.stream == stream and each.least is not None]
        horizon = marks[stream] - longest if stream in marks else None
        least = min(times, default=None)
        found["spans"][stream] = grown(known.get(stream, ()), epoch, least, horizon)
        slices = decision.backfill.get(stream, {}).get("slices", ())
        begins = [each["begin"] if horizon is None else max(each["begin"], horizon)
                  for each in slices]  # fmt: skip
        answered = grown(past.get(stream, ()), epoch, min(begins, default=None), horizon)
        if answered:
            found["past_spans"][stream] = answered
    return found


def _of_plans(
    catalog: Catalog, decision: Decision, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return up to where plans have come, and what they have seen.

    Those that ran are where their streams are complete, and have seen all changes of tables.
    """
    found = _of_families(catalog, decision, progress)
    for name, (qid, begin, begun) in decision.plans.items():
        if qid in decision.suspended or name in decision.births:
            continue
        feed = catalog.feeds[name]
        reached, number = frontier(feed, progress.marks), str(feed.number)
        warming = decision.warming.get(name)
        if warming is not None and warming["end"] is not None:
            reached = warming["end"]
            found["warming"][number] = {each: warming[each] for each in WARMING}
        entered = decision.entered.get(name, decision.identity.epoch)
        found["entered"][number] = entered
        if begin is None:
            least = earliest(feed, decision, progress.earliest)
            if least is not None and not can_begin(least, reached):
                found["earliest"][number] = least
            if not can_begin(least, reached):
                continue
        if reached is None:
            continue
        ran = begin is None or reached > begin
        if not ran and not begun:
            continue
        found["frontiers"][number] = reached if begin is None else max(begin, reached)
        if feed.plan is not None and feed.plan.tables:
            found["taken"][number] = catalog.sequence if ran else decision.taken[name]
    return found


def _of_families(
    catalog: Catalog, decision: Decision, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return up to where the plans of families have come, and what they have seen."""
    facts_of_plans = (
        *("frontiers", "entered", "taken", "earliest", "births", "warming", "besides"),
    )
    found: dict[str, dict[str, Any]] = {each: {} for each in facts_of_plans}
    for name in decision.births:
        qid, begin, begun = decision.plans[name]
        if qid in decision.suspended:
            continue
        feed = catalog.feeds[name]
        reached, number = frontier(feed, progress.marks), str(feed.number)
        births, complete = births_now(feed, decision, progress), reached
        warming = decision.warming.get(name)
        if warming is not None and warming["end"] is not None:
            reached = warming["end"]
            found["warming"][number] = {each: warming[each] for each in WARMING}
        start = births.first if begin is None else begin
        ran = start is not None and reached is not None and reached > start
        births = births.taken(catalog.sequence) if ran else births
        if name in decision.besides:
            beside = Beside.from_json(decision.besides[name])
            end, joins = beside.end(complete)
            beside = beside.ran(end, catalog.sequence)
            if joins and end is not None and beside.births is not None:
                births, beside = births.joined(beside.births, end), Beside(waiting=beside.waiting)
            if beside.births is not None or beside.waiting:
                found["besides"][number] = beside.to_json()
        found["births"][number] = births.to_json()
        found["entered"][number] = decision.entered.get(name, decision.identity.epoch)
        if ran or begun:
            found["frontiers"][number] = reached if ran else begin
            if feed.plan is not None and feed.plan.tables:
                found["taken"][number] = catalog.sequence if ran else decision.taken[name]
    return found


def _verdicts(
    manifest: Manifest, suspended: Mapping[int, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Spell who is suspended if that has changed: it may be a million queries."""
    spelt = {str(qid): verdict for qid, verdict in suspended.items()}
    return {} if spelt == manifest.facts.get("suspended") else {"suspended": spelt}


def _counts(manifest: Manifest, tallies: list[Tally]) -> dict[str, int]:
    """Add up what came, but for what the engine tells of itself, and what was answered."""
    before: dict[str, int] = manifest.facts.get("counts", {})
    came = [each for each in tallies if each.stream != SYSSTREAM]
    return {
        name: before.get(name, 0)
        + sum(getattr(each, name) for each in (tallies if name == "results" else came))
        for name in ("rows", "late", "dead", "results")
    }
