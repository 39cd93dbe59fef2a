"""Plans: standing queries that need more than the row at hand, as a feed names them.

A plan reads elements of streams in slabs of time. What has arrived and is not complete yet waits
in a store of inputs; what the operators remember is in stores of states. All of them belong to the
feed, and go with it.

    input/<feed>.<number>/<stream>        state/<feed>.<number>/<operator>
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from millrace.operators.relational.plan import Plan
from millrace.operators.relational.state import state_schema
from millrace.plan.declared import Declared
from millrace.plan.relation_json import plan_from_json, plan_to_json
from millrace.plan.relations import StreamOf, Windowed
from millrace.plan.scopes import inputs
from millrace.schema import Schema, type_named
from millrace.state.store_state import StoreSpec

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.engine.decision import Decision
    from millrace.engine.feeds import FeedSpec

CHANGE = "_change"
"""The column of a relation's answers that says whether a row came (1) or went (-1)."""


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """What a plan tells, which streams it reads, and by which columns those are spread.

    A query whose answer is a stream tells that. One whose answer is a relation tells what comes
    and what goes, and `CHANGE` tells them apart. Without columns the plan runs in one shard.
    """

    told: tuple[StreamOf, ...]
    sources: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] | None = None
    functions: tuple[tuple[str, str], ...] = ()
    """Registered functions that are used, with the types that they return."""

    def to_json(self) -> dict[str, Any]:
        """Spell the plan as JSON."""
        return {
            "told": plan_to_json(self.told),
            "sources": list(self.sources),
            "columns": self.columns,
            "functions": self.functions,
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        columns = spelt["columns"]
        return cls(
            plan_from_json(spelt["told"]),
            tuple(spelt["sources"]),
            None if columns is None else tuple((stream, column) for stream, column in columns),
            tuple((name, kind) for name, kind in spelt["functions"]),
        )


def input_store(feed: FeedSpec, stream: str) -> str:
    """Name the store of a stream's elements that wait for their time to be complete."""
    return f"input/{feed.name}.{feed.number}/{stream}"


def state_prefix(feed: FeedSpec) -> str:
    """Return what the names of all stores of a plan's states begin with."""
    return f"state/{feed.name}.{feed.number}/"


def readers_of(stream: str, catalog: Catalog, decision: Decision) -> dict[str | None, list[str]]:
    """Return the stores that get a stream's rows, by the column that decides about the shard."""
    found: dict[str | None, list[str]] = {}
    for name in decision.plans:
        feed = catalog.feeds[name]
        if feed.plan is not None and stream in feed.plan.sources:
            column = None if feed.plan.columns is None else dict(feed.plan.columns)[stream]
            found.setdefault(column, []).append(input_store(feed, stream))
    return found


def is_spread(store: str) -> bool:
    """Say whether the runs of all shards in a store are of different keys, and make one run."""
    return store.startswith(("rows/", "input/", "state/"))


def compiled(feed: FeedSpec, catalog: Catalog) -> Plan:
    """Return the operators of a feed's plan."""
    assert feed.plan is not None, "only a plan is compiled"
    schemas = tuple((name, catalog.stream(name).schema) for name in feed.plan.sources)
    return _compiled(feed.plan, schemas)


@lru_cache(maxsize=10_000)
def _compiled(plan: PlanSpec, schemas: tuple[tuple[str, Schema], ...]) -> Plan:
    functions = {name: type_named(kind) for name, kind in plan.functions}
    declared = Declared(dict(schemas), functions=functions)
    columns = None if plan.columns is None else dict(plan.columns)
    return Plan(plan.told, declared, columns)


@lru_cache(maxsize=10_000)
def ordered_sources(plan: PlanSpec) -> frozenset[str]:
    """Return the streams whose elements have to be in order: windows of rows count them."""
    found, waiting = set[str](), [each.relation for each in plan.told]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Windowed):
            if isinstance(node.stream, StreamOf):
                waiting.append(node.stream.relation)
            elif node.window.kind == "rows":
                found.add(node.stream.name)
        waiting.extend(inputs(node))
    return frozenset(found)


def plan_stores(feed: FeedSpec, catalog: Catalog) -> Iterator[tuple[str, StoreSpec]]:
    """Give every store that a feed's plan calls for."""
    if feed.plan is None:
        return
    for name in feed.plan.sources:
        schema = state_schema(catalog.stream(name).schema.to_arrow())
        yield input_store(feed, name), StoreSpec(schema)
    for name, schema in compiled(feed, catalog).stores().items():
        yield state_prefix(feed) + name, StoreSpec(schema, fold=True)
