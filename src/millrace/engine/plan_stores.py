"""The stores of plans: elements of streams, once for all plans, and what operators remember.

    elements/<stream>.<born>/<column>.<order>        state/<feed>.<number>/<operator>
    elements/<stream>.<born>/<column>~<ranges>.<order>

Elements are stored by the column that decides about their shard, for all plans that spread the
stream so. Their order is by key and then by time if they are looked for by keys; else by bucket and
time. What has come ahead of time waits there, and what has been seen stays for as long as the
widest window reads it again, or answers are found anew of it (`engine.resting`).

    _key   _time   _epoch                   columns of the stream, but for its time
    hash           in which it has come

Where joins by bands are spread, elements are stored by the range that they were sent to, and
have that as a column (`engine.laying`); plans with the same ranges share them.

A plan sees what has come since it is there, whatever others have left in the store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from millrace.engine.laying import constant_ranges
from millrace.engine.plans import compiled, forgets_after
from millrace.operators.relational.events import DUE
from millrace.operators.relational.state import state_schema
from millrace.plan.bands import Laid
from millrace.plan.placement import FIRST
from millrace.remembering import remembered
from millrace.schema import Schema
from millrace.state.store_state import StoreSpec

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.engine.decision import Decision
    from millrace.engine.feeds import FeedSpec
    from millrace.engine.streams import StreamSpec

EPOCH = "_epoch"


@dataclass(frozen=True, slots=True)
class ElementStore:
    """Where a plan finds the elements of a stream, and how far back it reads them again."""

    name: str
    stream: str
    column: str | None
    order: Literal["key", "time"]
    reach: int | None
    """0: they only wait for their time; None: they are read for ever."""
    laid: Laid | None = None
    """How elements are laid out over ranges, if they are."""
    feed: str = ""
    """Whose ranges those are."""

    @property
    def place(self) -> str | None:
        """What decides about the shard of an element, in words."""
        return self.column if self.laid is None else f"ranges of {self.laid.column}"


def element_stores(feed: FeedSpec, catalog: Catalog) -> Iterator[ElementStore]:
    """Give the stores of the elements that a feed's plan reads, one for each stream."""
    assert feed.plan is not None, "only plans read elements"
    plan = compiled(feed, catalog)
    for name in feed.plan.sources:
        spec = catalog.stream(name)
        chosen = FIRST if feed.plan.columns is None else dict(feed.plan.columns)[name]
        column = None if chosen == FIRST else chosen
        order: Literal["key", "time"] = "key" if name in plan.rereading.keyed else "time"
        laid = next((each for each in feed.plan.laid if each.stream == name), None)
        by = (column or "") if laid is None else f"{laid.column}{_ranges(feed, laid)}"
        store = f"elements/{name}.{spec.born}/{by}.{order}"
        reach = plan.rereading.reaches.get(name, 0)
        if feed.found_anew and reach is not None:
            reach = max(reach, kept_back(feed))
        yield ElementStore(store, name, column, order, reach, laid, feed.name)


def kept_back(feed: FeedSpec) -> int:
    """Return how far back elements are kept of which answers are found anew."""
    assert feed.retain is not None, "answers that are found anew are retained for some time"
    return feed.retain + seen_for(feed)


@remembered
def seen_for(feed: FeedSpec) -> int:
    """Return for how long answers depend on an element after its time, where that has an end."""
    assert feed.plan is not None, "only plans read elements"
    found = forgets_after(feed.plan)
    assert found is not None, "answers of a plan that never forgets are not found anew"
    return found


def _ranges(feed: FeedSpec, laid: Laid) -> str:
    """Name the ranges of a plan: by what they are, or if that may change, by the plan."""
    assert feed.plan is not None, "only plans read elements"
    if feed.plan.parameters is not None:
        return f"~{feed.number}"
    ranges = constant_ranges(feed.plan.laid)
    spelt = json.dumps([ranges.width, ranges.n_slots, ranges.reaches.get(laid.stream), laid.anchor])
    return f"~{hashlib.sha256(spelt.encode()).hexdigest()[:12]}"


def element_schema(spec: StreamSpec, laid: Laid | None = None) -> pa.Schema:
    """Return the columns of stored elements."""
    columns = [each for each in spec.schema.to_arrow() if each.name != spec.time]
    columns += [] if laid is None else [*Schema(laid.columns).to_arrow()]
    return state_schema(pa.schema([pa.field(EPOCH, pa.uint32()), *columns]))


def state_prefix(feed: FeedSpec) -> str:
    """Return what the names of all stores of a plan's states begin with."""
    return f"state/{feed.name}.{feed.number}/"


def beside_prefix(feed: FeedSpec) -> str:
    """Return the same for queries of a family that run beside its plan."""
    return f"{state_prefix(feed)}beside/"


def state_stores(feed: FeedSpec, catalog: Catalog) -> Iterator[tuple[str, StoreSpec]]:
    """Give the stores of what a feed's plan remembers."""
    for name, schema in compiled(feed, catalog).stores.items():
        yield state_prefix(feed) + name, StoreSpec(schema, fold=True)


def beside_stores(feed: FeedSpec, catalog: Catalog) -> Iterator[tuple[str, StoreSpec]]:
    """Give the stores of what runs beside a family's plan, if its queries see history."""
    if feed.history is None or feed.plan is None or feed.plan.parameters is None:
        return
    for name, schema in compiled(feed, catalog).stores.items():
        yield beside_prefix(feed) + name, StoreSpec(schema, fold=True)


def plan_stores(feed: FeedSpec, catalog: Catalog) -> Iterator[tuple[str, StoreSpec]]:
    """Give every store that a feed's plan calls for."""
    for each in element_stores(feed, catalog):
        yield each.name, StoreSpec(element_schema(catalog.stream(each.stream), each.laid))
    yield from state_stores(feed, catalog)
    yield from beside_stores(feed, catalog)


def readers_of(stream: str, catalog: Catalog, decision: Decision) -> dict[str, ElementStore]:
    """Return the stores that get a stream's rows, by name."""
    feeds = (catalog.feeds[name] for name in decision.plans)
    return {
        each.name: each
        for feed in feeds
        if feed.plan is not None and stream in feed.plan.sources
        for each in element_stores(feed, catalog)
        if each.stream == stream
    }


def element_horizons(
    catalog: Catalog, frontiers: Mapping[str, int], reaches: Mapping[str, int]
) -> dict[str, int]:
    """Return, for stores of elements, the time before which no plan reads them any more.

    `reaches` says how far back those plans read elements whose queries say so.
    """
    found, endless = dict[str, int](), set[str]()
    for feed in catalog.plans():
        if catalog.born.get(feed.name) == ():
            continue  # a family without queries does not run
        reached = frontiers.get(feed.name)
        for store in element_stores(feed, catalog):
            reach = reaches.get(feed.name) if store.reach is None else store.reach
            if reached is None or reach is None:
                endless.add(store.name)
            else:
                horizon = reached - reach
                found[store.name] = min(found.get(store.name, horizon), horizon)
    return {name: each for name, each in found.items() if name not in endless}


def is_of_plans(store: str) -> bool:
    """Say whether plans alone read a store, and take single rows out of it."""
    return store.startswith(("elements/", "state/"))


def remembers_counts(store: str) -> bool:
    """Say whether a store is of what operators remember, which has counts."""
    return store.startswith("state/")


def is_read_by_time(store: str) -> bool:
    """Say whether a store is of what falls due, or of elements that nobody looks for by keys."""
    if remembers_counts(store):
        return store.endswith(DUE)
    return store.startswith("elements/") and store.endswith(".time")


def is_spread(store: str) -> bool:
    """Say whether the runs of all shards in a store are of different keys, and make one run."""
    return store.startswith(("rows/", "elements/", "state/", "found/"))
