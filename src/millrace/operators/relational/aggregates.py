"""Aggregates of a group: which feed keeps count of each.

What can be added up (counts, sums, what is made of them) is kept in one feed for all; every other
aggregate keeps the values of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from millrace.operators.relational.feeds import Feed, Once
from millrace.operators.relational.group import Grouping
from millrace.operators.relational.sweep import Sweep, distinct
from millrace.operators.relational.totals import Totals
from millrace.operators.relational.values import Values
from millrace.plan.aggregate_types import ADDED
from millrace.plan.bind import type_of
from millrace.plan.declared import Declared
from millrace.plan.expressions import Column
from millrace.plan.growth import monotonic
from millrace.plan.relation_types import aggregate_type, relation_schema
from millrace.plan.relations import Aggregate, Group
from millrace.schema import Schema

_OF_ONE = ("min", "max", "first", "last")
"""Aggregates to which it makes no difference how often a value is there."""
_VALUE = "#value"


def grouping_of(node: Group, name: str, declared: Declared, place: str | None) -> Grouping:
    """Return the operator of a group, with the feeds of its aggregates."""
    schema = relation_schema(node, declared).to_arrow()
    keys = pa.schema(list(schema)[: len(node.keys)])
    made = GroupFeeds(declared, keys, relation_schema(node.input, declared), place)
    added = [each for each in node.aggregates if each.kind in ADDED and not each.distinct]
    growing = monotonic(node.input)
    feeds: list[Feed] = [made.totals(f"{name}.all", added)]
    for at, each in enumerate(node.aggregates):
        if each not in added:
            feed = made.feed(f"{name}.{at}", each)
            feeds.append(replace(feed, growing=growing) if isinstance(feed, Values) else feed)
    return Grouping(name, node.keys, keys, tuple(feeds), schema, place)


@dataclass(frozen=True, slots=True)
class GroupFeeds:
    """Makes the feeds of groups of some keys over rows of the columns `given`."""

    declared: Declared
    keys: pa.Schema
    given: Schema
    place: str | None

    def feed(self, name: str, aggregate: Aggregate) -> Feed:
        """Return what keeps the values of one aggregate."""
        operand = self._type(aggregate)
        assert operand is not None, "only a count has no operand"
        if not aggregate.distinct or aggregate.kind in _OF_ONE:
            by = aggregate.by
            by_type = None if by is None else type_of(by, self.given, self.declared.functions)
            return Values(name, self.keys, aggregate, operand, by_type, self.place)
        once = Aggregate(
            aggregate.name,
            aggregate.kind,
            Column(_VALUE),
            by=None if aggregate.by is None else Column(_VALUE),
            fraction=aggregate.fraction,
            descending=aggregate.descending,
            nulls_first=aggregate.nulls_first,
            separator=aggregate.separator,
        )
        swept = pa.schema([*self.keys, pa.field(_VALUE, operand)])
        sweep = Sweep(f"{name}.once", swept, 1, distinct, self.place)
        if aggregate.kind in ADDED:
            totals = replace(self, given=Schema.from_arrow(swept)).totals(name, [once])
            return Once(aggregate, _VALUE, sweep, replace(totals, whole=False))
        by_type = None if aggregate.by is None else operand
        values = Values(name, self.keys, once, operand, by_type, self.place)
        return Once(aggregate, _VALUE, sweep, values)

    def totals(self, name: str, added: list[Aggregate]) -> Totals:
        """Return what keeps the sums of some aggregates."""
        types = tuple(aggregate_type(each, self.given, self.declared) for each in added)
        operands = tuple(self._type(each) for each in added)
        return Totals(name, self.keys, tuple(added), types, operands, place=self.place)

    def _type(self, aggregate: Aggregate) -> pa.DataType | None:
        if aggregate.operand is None:
            return None
        return type_of(aggregate.operand, self.given, self.declared.functions)
