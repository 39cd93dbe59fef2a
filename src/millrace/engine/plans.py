"""Plans: standing queries that need more than the row at hand, as a feed names them.

A plan reads elements of streams in slabs of time; where it finds them, and what its operators
remember, is in `plan_stores`.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from millrace.engine.parameters import parameter_schema
from millrace.operators.relational.plan import Plan
from millrace.plan.bands import Laid, laid_declared
from millrace.plan.declared import Declared
from millrace.plan.family_bounds import Span, horizon
from millrace.plan.joining import Sharing
from millrace.plan.levels import family_declared
from millrace.plan.panes import PaneWay
from millrace.plan.relation_json import plan_from_json, plan_to_json
from millrace.plan.relations import StreamOf, Windowed
from millrace.plan.scopes import inputs
from millrace.remembering import remembered
from millrace.schema import Schema, type_named

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.engine.feeds import FeedSpec

CHANGE = "_change"
"""The column of a relation's answers that says whether a row came (1) or went (-1)."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PlanSpec:
    """What a plan tells, which streams and tables it reads, and by which columns those are spread.

    A query whose answer is a stream tells that. One whose answer is a relation tells what comes
    and what goes, and `CHANGE` tells them apart. Without columns the plan runs in one shard. Its
    rows may travel on `hops` times from where the columns have brought them.
    """

    told: tuple[StreamOf, ...]
    sources: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] | None = None
    functions: tuple[tuple[str, str], ...] = ()
    """Registered functions that are used, with the types that they return."""
    tables: tuple[str, ...] = ()
    again: bool = True
    """Whether operators read elements again where they can, and do not remember them."""
    panes: PaneWay = "auto"
    """How aggregates of a family share panes."""
    hops: int = 0
    parameters: tuple[str, ...] | None = None
    """The types of the parameters, if the plan is that of a family."""
    horizon: int | None = None
    """After how long an answer of a family does not depend on when its query was born."""
    spans: tuple[Span, ...] = ()
    """What that is the longest of for each query, if it depends on parameters."""
    sharing: Sharing | None = None
    """How all queries of a family are one join; None: the plan is joined with their table."""
    laid: tuple[Laid, ...] = ()
    """How rows of streams are laid out over ranges, if joins by bands are spread by these."""

    def to_json(self) -> dict[str, Any]:
        """Spell the plan as JSON."""
        return {
            "told": plan_to_json(self.told),
            "sources": list(self.sources),
            "columns": self.columns,
            "functions": self.functions,
            "tables": list(self.tables),
            "again": self.again,
            "panes": self.panes,
            "hops": self.hops,
            "parameters": self.parameters,
            "horizon": self.horizon,
            "spans": plan_to_json(self.spans),
            "sharing": None if self.sharing is None else astuple(self.sharing),
            "laid": plan_to_json(self.laid),
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
            tuple(spelt.get("tables", ())),
            again=spelt.get("again", False),
            panes=spelt.get("panes", "never"),
            hops=spelt.get("hops", 0),
            parameters=None if spelt.get("parameters") is None else tuple(spelt["parameters"]),
            horizon=spelt.get("horizon"),
            spans=plan_from_json(spelt.get("spans", [])),
            sharing=None if spelt.get("sharing") is None else Sharing(*spelt["sharing"]),
            laid=plan_from_json(spelt.get("laid", [])),
        )

    def of_member(self) -> Self:
        """Return what a query knows of its family's plan: what it reads, and how it tells."""
        return replace(self, parameters=None, horizon=None, spans=(), sharing=None)

    @property
    def parameter_types(self) -> list[pa.DataType]:
        """The types of a family's parameters."""
        return list(parameter_schema(self.parameters or ()).types)


def compiled(feed: FeedSpec, catalog: Catalog) -> Plan:
    """Return the operators of a feed's plan."""
    assert feed.plan is not None, "only a plan is compiled"
    if (known := catalog.operators.get(feed.number)) is not None:
        return known
    schemas = tuple((name, catalog.stream(name).schema) for name in feed.plan.sources)
    tables = tuple((name, catalog.table(name).schema) for name in feed.plan.tables)
    found = _compiled(feed.plan, schemas, tables)
    if not feed.number:  # it is only explained: the next one that is has no number either
        return found
    return catalog.operators.setdefault(feed.number, found)


@lru_cache(maxsize=256)
def _compiled(
    plan: PlanSpec,
    schemas: tuple[tuple[str, Schema], ...],
    tables: tuple[tuple[str, Schema], ...],
) -> Plan:
    functions = {name: type_named(kind) for name, kind in plan.functions}
    declared = Declared(dict(schemas), dict(tables), functions)
    if plan.parameters is not None and plan.sharing is None:
        declared = family_declared(declared, plan.parameter_types)
    declared = laid_declared(declared, plan.laid)
    columns = None if plan.columns is None else dict(plan.columns)
    return Plan(
        plan.told,
        declared,
        columns,
        again=plan.again,
        sharing=plan.sharing,
        panes=plan.panes,
    )


def forgets_after(plan: PlanSpec) -> int | None:
    """Return after how long an answer does not depend on what came before, in us; None: never."""
    found = [horizon(each.relation) for each in plan.told]
    known = [each for each in found if each is not None]
    return max(known) if len(known) == len(found) else None


@remembered
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
