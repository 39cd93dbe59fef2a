"""Makes the operator of a family whose queries share panes: its stores, columns and feeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from millrace.operators.relational.aggregates import GroupFeeds
from millrace.operators.relational.lives import Remembered
from millrace.operators.relational.pane_rows import PaneRows
from millrace.operators.relational.paned import SharedPanes
from millrace.operators.relational.values import Values
from millrace.plan.aggregate_types import ADDED
from millrace.plan.declared import Declared
from millrace.plan.levels import QUERIES, QUERIES_AS
from millrace.plan.panes import Paned, PaneWay
from millrace.plan.placement import EVERYWHERE, FIRST
from millrace.plan.relation_types import relation_schema


@dataclass(frozen=True, slots=True)
class PanePlan:
    """Makes operators over what is declared; `columns` says how streams and queries are spread."""

    declared: Declared
    columns: Mapping[str, str]
    way: PaneWay

    def operator(self, found: Paned, name: str) -> SharedPanes:
        """Return the operator of a family, whose stores begin with a name."""
        by = self.columns.get(found.stream, FIRST)
        return SharedPanes(
            name,
            found,
            self._remembered(f"{name}.queries"),
            self._panes(found, name),
            relation_schema(found.told, self.declared).to_arrow(),
            None if by == FIRST else by,
            self.way,
        )

    def _remembered(self, name: str) -> Remembered:
        queries = self.declared.tables[QUERIES].to_arrow()
        named = pa.schema([each.with_name(f"{QUERIES_AS}.{each.name}") for each in queries])
        place = self.columns.get(QUERIES, EVERYWHERE)
        own = None if place in (EVERYWHERE, FIRST) else f"{QUERIES_AS}.{place}"
        return Remembered(name, named, own)

    def _panes(self, found: Paned, name: str) -> PaneRows:
        group = found.group
        groups = relation_schema(group, self.declared).to_arrow()
        keys = pa.schema([groups.field(each.name) for each in found.keys])
        feeds = GroupFeeds(self.declared, keys, relation_schema(group.input, self.declared), None)
        added = [each for each in group.aggregates if each.kind in ADDED]
        fed = [feeds.feed(f"{name}.{each.name}", each) for each in group.aggregates
               if each not in added]  # fmt: skip
        values = tuple(each for each in fed if isinstance(each, Values))
        return PaneRows(name, keys, found.tested, feeds.totals(f"{name}.all", added), values)
