"""Deciding: what an epoch will do, from the state before it and the clock.

The result is logged before it is used, so nothing here needs to be repeatable; what is decided
is repeated by reading it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from millrace.engine import facts
from millrace.engine.backfill import needed_since
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision, Identity
from millrace.engine.keeping import Consumed, kept_merges
from millrace.engine.plan_stores import (
    beside_stores,
    element_horizons,
    element_stores,
    is_read_by_time,
    seen_for,
    state_stores,
)
from millrace.engine.resting import marks_horizons
from millrace.engine.retention import retained
from millrace.engine.settings import Settings
from millrace.engine.stores import (
    DEAD_LETTERS,
    found_store,
    is_found,
    late_store,
    rows_store,
    seen_store,
    store_specs,
)
from millrace.engine.streams import StreamSpec
from millrace.engine.warming import lagging, warm_needs
from millrace.operators.relational.timed import OPEN
from millrace.state.cuts import Fences
from millrace.state.levels import merge_budget, plan_drops, plan_merges
from millrace.state.manifest import Manifest
from millrace.state.merge import MergeStep
from millrace.state.store_state import StoreSpec
from millrace.time import SECOND

TICK = SECOND
SPREAD_BYTES = 2 << 20
"""An epoch is spread out if the one before it sent more than this to its shards."""


def decide(
    manifest: Manifest,
    catalog: Catalog,
    identity: Identity,
    settings: Settings,
    *,
    term: int,
    clock: int,
) -> Decision:
    """Decide the first attempt at an epoch; who runs, for whom, and merges the engine adds."""
    idle = _idle(manifest, catalog, clock)
    return Decision(
        identity,
        attempt=0,
        term=term,
        clock=clock,
        catalog=catalog.file,
        clocks=facts.clocks(manifest, catalog),
        watermarks=facts.watermarks(manifest, catalog),
        idle=idle,
        ahead=_ahead(manifest, catalog, idle, clock),
        access=settings.access,
        memory=settings.memory,
        narrow=settings.narrow,
        upkeep=settings.upkeep,
        shards=settings.shard_bounds,
        spread=_spread(manifest, settings),
    )


def merges(
    manifest: Manifest,
    catalog: Catalog,
    settings: Settings,
    fences: Fences,
    consumed: Consumed,
    *,
    clock: int,
    resting: Collection[str] = (),
) -> tuple[MergeStep, ...]:
    """Choose what the next epoch merges; what plans remember that begin to rest is not."""
    if not settings.merging:
        return ()
    last = manifest.facts.get("statistics", {})
    wanted = {name for name, _ in store_specs(catalog)} - _left(manifest, catalog)
    wanted -= {store for name in resting for store, _ in state_stores(catalog.feeds[name], catalog)}
    stores = {name: each for name, each in manifest.stores.items() if name in wanted}
    total = sum(store.rows for store in stores.values() if not store.queue)
    found = any(map(is_found, stores))
    new_rows = max(last.get("rows", 0), last.get("results", 0) if found else 0)
    stored = plan_merges(
        stores,
        fences,
        epoch=manifest.epoch + 1,
        budget_rows=merge_budget(new_rows, total),
        horizon=_unneeded(manifest, catalog, settings.keep_rejected, clock),
        by_time={name for name in stores if is_read_by_time(name)},
    )
    return (*stored, *kept_merges(manifest, catalog, consumed))


def horizons(
    manifest: Manifest, catalog: Catalog, keep_rejected: int, clock: int
) -> dict[str, int]:
    """Return, for each store, the time before which its rows have expired."""
    marks = facts.watermarks(manifest, catalog)
    found = {DEAD_LETTERS: clock - keep_rejected}
    frontiers = facts.frontiers(manifest, catalog)
    found |= element_horizons(catalog, frontiers, facts.reaches(manifest, catalog))
    found |= marks_horizons(catalog, frontiers)
    for name, begin in frontiers.items():
        for store, _ in state_stores(catalog.feeds[name], catalog):
            found[store] = begin
    for name, beside in facts.besides(manifest, catalog).items():
        if beside["begin"] is not None:
            feed = catalog.feeds[name]
            found |= {store: beside["begin"] for store, _ in beside_stores(feed, catalog)}
    for name, kept in retained(catalog).items():
        if name in marks:
            stream = catalog.streams[name]
            found[seen_store(stream)] = marks[name] - kept.longest
            for retain in kept.lazy:
                found[found_store(stream, retain)] = marks[name] - retain
    for stream in catalog.streams.values():
        found[late_store(stream)] = clock - keep_rejected
        mark = marks.get(stream.name)
        if mark is not None and stream.retain is not None:
            found[rows_store(stream)] = mark - stream.retain
    return found


def _unneeded(
    manifest: Manifest, catalog: Catalog, keep_rejected: int, clock: int
) -> dict[str, int]:
    """Return the time before which rows of stores may go: also queries that see it have had it."""
    found = horizons(manifest, catalog, keep_rejected, clock)
    needed = needed_since(manifest, catalog)
    for store, time in warm_needs(manifest, catalog).items():
        needed[store] = min(time, needed.get(store, time))
    return {store: min(time, needed.get(store, time)) for store, time in found.items()}


def expired(
    manifest: Manifest, catalog: Catalog, keep_rejected: int, decision: Decision
) -> dict[str, tuple[int, ...]]:
    """Return the runs that hold nothing but expired rows, and that no merge of the epoch reads."""
    horizon = _unneeded(manifest, catalog, keep_rejected, decision.clock)
    merging = {(merge.store, each.run) for merge in decision.merges for each in merge.inputs}
    drops = {}
    for store, runs in plan_drops(manifest.stores, horizon).items():
        drops[store] = tuple(run for run in runs if (store, run) not in merging)
    return {store: runs for store, runs in drops.items() if runs}


def abandoned(
    manifest: Manifest, catalog: Catalog, decision: Decision
) -> dict[str, tuple[int, ...]]:
    """Return all that plans remember that do not run: suspended ones begin anew if resumed.

    So does a family that has no queries for a while; those that ran beside one have joined it.
    Plans that rest make it again when they wake.
    """
    merging = {(merge.store, each.run) for merge in decision.merges for each in merge.inputs}
    drops = {}
    for name in catalog.planned:
        feed, stores = catalog.feeds[name], list[tuple[str, StoreSpec]]()
        runs = name in decision.plans and decision.plans[name][0] not in decision.suspended
        runs &= name not in decision.resting
        if not runs:
            stores += state_stores(feed, catalog)
        if not runs or decision.besides.get(name, {}).get("births") is None:
            stores += beside_stores(feed, catalog)
        for store, _ in stores:
            known = manifest.stores[store].runs if store in manifest.stores else ()
            drops[store] = tuple(each.id for each in known if (store, each.id) not in merging)
    return {store: runs for store, runs in drops.items() if runs}


def _left(manifest: Manifest, catalog: Catalog) -> set[str]:
    """Return the stores of what ran beside families and does so no more: they are not merged."""
    besides = facts.besides(manifest, catalog)
    gone = [name for name in catalog.historic if besides.get(name, {}).get("births") is None]
    return {store for name in gone for store, _ in beside_stores(catalog.feeds[name], catalog)}


def next_due(manifest: Manifest, catalog: Catalog) -> int | None:
    """Return when, by the wall clock, time has to pass though nothing comes, if ever.

    That is at once while queries catch up with history, when a query ends by itself, and when the
    next partition turns idle; and once a whole stream is, every second for as
    long as a plan that reads it waits for something.
    """
    idle = manifest.facts.get("idle", {})
    due = [] if catalog.first_end is None else [catalog.first_end]
    behind = any(facts.backfills(manifest, catalog).values()) or lagging(manifest, catalog)
    due += [0] if behind else []
    due += [
        when + stream.idle
        for stream, name, when in _seen(manifest, catalog)
        if stream.idle is not None and name not in idle.get(stream.name, [])
    ]
    if any(_waiting(manifest, catalog, name) for name in _silent(manifest, catalog, idle)):
        due.append(manifest.facts.get("clock", 0) + TICK)
    return min(due, default=None)


def _silent(
    manifest: Manifest, catalog: Catalog, idle: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the streams all of whose partitions are idle, and that plans read."""
    read = {name for feed in catalog.plans() for name in feed.sources}
    for name, partitions in facts.seen(manifest, catalog).items():
        if name in read and partitions and set(partitions) <= set(idle.get(name, [])):
            yield name


def _waiting(manifest: Manifest, catalog: Catalog, stream: str) -> bool:
    """Say whether a plan that reads a stream remembers something that will end or fall due."""
    reached = facts.frontiers(manifest, catalog)
    for feed in catalog.plans():
        if stream not in feed.sources or feed.name not in reached:
            continue
        since = {store: reached[feed.name] for store, _ in state_stores(feed, catalog)}
        for each in element_stores(feed, catalog):
            reach = seen_for(feed) if feed.found_anew else each.reach or 0
            since[each.name] = reached[feed.name] - reach
        for store, begin in since.items():
            runs = manifest.stores[store].runs if store in manifest.stores else ()
            pieces = (piece for run in runs for piece in run.pieces)
            if any(begin <= each.max_time < OPEN for each in pieces):
                return True
    return False


def _ahead(
    manifest: Manifest, catalog: Catalog, idle: Mapping[str, Sequence[str]], clock: int
) -> dict[str, int]:
    """Say by how much the time of silent streams has gone on: as the clock has, since then."""
    found = {}
    for name in _silent(manifest, catalog, idle):
        last = max(facts.seen(manifest, catalog)[name].values())
        found[name] = max(clock - last - (catalog.streams[name].idle or 0), 0)
    return found


def _idle(manifest: Manifest, catalog: Catalog, clock: int) -> dict[str, list[str]]:
    idle: dict[str, list[str]] = {}
    for stream, partition, when in _seen(manifest, catalog):
        if stream.idle is not None and clock - when >= stream.idle:
            idle.setdefault(stream.name, []).append(partition)
    return idle


def _seen(manifest: Manifest, catalog: Catalog) -> Iterator[tuple[StreamSpec, str, int]]:
    for name, partitions in facts.seen(manifest, catalog).items():
        for partition, when in partitions.items():
            yield catalog.streams[name], partition, when


def _spread(manifest: Manifest, settings: Settings) -> bool:
    if settings.spread != "auto":
        return settings.spread == "always"
    last = manifest.facts.get("statistics", {})
    return bool(last.get("bytes_sent", 0) > SPREAD_BYTES)
