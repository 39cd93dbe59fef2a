"""Plans that rest: nothing is stored of their answers, which are found anew when asked for.

A plan whose policy is "none" does not run in epochs, unless a sink wants what it tells. Its
elements are stored as those of all plans are, for as long as its answers are retained and its
windows reach back; whoever asks runs it over them (`reading.plans_anew`).

    elements  ├── as far as windows reach ──┼──────── retained ────────┤ frontier
                                            └ answers, found when somebody asks

An answer is told in the epoch in which the frontier passes its instant. So that a reader finds the
same epochs, it is noted for each stream how far each epoch has brought it: a row an epoch, whatever
the number of plans, in `marks/<stream>.<born>`.

    anew    [a, b]: elements are stored from a on, and answers can be found from b on

Of a plan that was registered so both are where it began. One that has told rows of its own before
goes on doing so until b, which is as much later as its answers depend on what came before; so how
answers are kept cannot be seen in them. One that is to tell rows of its own again *wakes*: its
first slab begins as far back, and what it tells of the time before is not heard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.feeds import FeedSpec
from millrace.engine.plan_stores import kept_back, seen_for
from millrace.engine.progress import Progress, earliest
from millrace.engine.retention import grown, horizon_of
from millrace.engine.streams import StreamSpec
from millrace.state.manifest import Manifest
from millrace.state.store_state import StoreSpec

MARKS = pa.schema(
    [
        ("_key", pa.uint64()),
        ("_time", pa.int64()),  # up to where the stream is complete after the epoch
        ("epoch", pa.int64()),
        ("before", pa.int64()),  # and up to where it was; NULL if nothing had come
    ]
)


def marks_store(spec: StreamSpec) -> str:
    """Name the store that says how far epochs have brought a stream."""
    return f"marks/{spec.name}.{spec.born}"


def marks_stores(catalog: Catalog) -> Iterator[tuple[str, StoreSpec]]:
    """Give those stores, of streams of which answers are found anew."""
    for name in _noted(catalog):
        yield marks_store(catalog.streams[name]), StoreSpec(MARKS)


def _noted(catalog: Catalog) -> list[str]:
    found = {name for feed in _found_anew(catalog) for name in feed.sources}
    return sorted(found)


def _found_anew(catalog: Catalog) -> list[FeedSpec]:
    return [feed for feed in catalog.plans() if feed.found_anew]


def marks_horizons(catalog: Catalog, frontiers: Mapping[str, int]) -> dict[str, int]:
    """Return, for those stores, the time before which no answer is found any more."""
    found: dict[str, int] = {}
    endless = set[str]()
    for feed in _found_anew(catalog):
        for name in feed.sources:
            store = marks_store(catalog.streams[name])
            if feed.name not in frontiers:
                endless.add(store)
                continue
            horizon = frontiers[feed.name] - kept_back(feed)
            found[store] = min(found.get(store, horizon), horizon)
    return {store: each for store, each in found.items() if store not in endless}


def noted_marks(
    catalog: Catalog, decision: Decision, progress: Progress
) -> Iterator[tuple[str, pa.Table]]:
    """Yield how far an epoch has brought streams, as rows of their stores."""
    for name in _noted(catalog):
        before, after = decision.watermarks.get(name), progress.marks.get(name)
        if after is not None and after != before:
            row = {"_key": 0, "_time": after, "epoch": decision.identity.epoch, "before": before}
            yield marks_store(catalog.streams[name]), pa.Table.from_pylist([row], MARKS)


@dataclass(frozen=True, slots=True)
class Rest:
    """What is decided: since when answers are found anew, which plans rest, and which wake.

    The `cold` ones have to tell rows of their own for a while, though they are to be found anew.
    """

    anew: dict[str, list[int | None]]
    cold: frozenset[str]
    resting: tuple[str, ...]
    waking: dict[str, int]


def rest(
    manifest: Manifest, catalog: Catalog, wanted: Collection[str], plans: Mapping[str, Any]
) -> Rest:
    """Decide which plans rest; `wanted` are the feeds whose rows somebody awaits."""
    reached, known = facts.frontiers(manifest, catalog), facts.anew(manifest, catalog)
    rested = {*manifest.facts.get("resting", ())}
    anew: dict[str, list[int | None]] = {}
    cold, resting, waking = set[str](), [], {}
    for feed in _found_anew(catalog):
        name = feed.name
        if name not in plans:
            continue
        begin = reached.get(name)
        if begin is None:
            anew[name] = [None, None]
        else:
            since: list[int | None] = [begin, begin + seen_for(feed)]
            anew[name] = known.get(name, since)
        if feed.policy == "none" and _is_cold(anew[name], begin):
            cold.add(name)
        elif feed.policy == "none" and name not in wanted:
            resting.append(name)
        elif feed.number in rested and begin is not None:
            stored = anew[name][0]
            back = begin - seen_for(feed)
            waking[name] = back if stored is None else max(back, stored)
    return Rest(anew, frozenset(cold), tuple(resting), waking)


def _is_cold(since: list[int | None], begin: int | None) -> bool:
    return begin is not None and since[1] is not None and begin < since[1]


def cold_plans(decision: Decision) -> frozenset[str]:
    """Return the plans that are to be found anew, and are not there yet."""
    found = decision.anew.items()
    return frozenset(name for name, each in found if _is_cold(each, decision.plans[name][1]))


def rest_after(
    manifest: Manifest,
    catalog: Catalog,
    decision: Decision,
    progress: Progress,
    frontiers: Mapping[str, int],
) -> dict[str, Any]:
    """Return the facts after an epoch; `frontiers` are where plans have come, by number."""
    if not decision.anew:
        known = any(manifest.facts.get(each) for each in ("anew", "resting", "told_spans"))
        return {"anew": {}, "resting": [], "told_spans": {}} if known else {}
    spans, epoch = facts.told_spans(manifest, catalog), decision.identity.epoch
    found, told, resting = {}, {}, []
    for name, since in decision.anew.items():
        feed, (qid, begin, begun) = catalog.feeds[name], decision.plans[name]
        if qid in decision.suspended:
            continue
        number = str(feed.number)
        reached, first = frontiers.get(number), begin
        if begin is None:
            first = earliest(feed, decision, progress.earliest)
        found[number] = since if reached is None or begun else [first, first]
        moved = reached is not None and (begin is None or reached > begin)
        if name in decision.resting or (name in decision.waking and not moved):
            resting.append(feed.number)
        horizon = horizon_of(feed, progress.marks)
        told[number] = grown(spans.get(name, ()), epoch, first if moved else None, horizon)
    return {"anew": found, "resting": resting, "told_spans": told}
