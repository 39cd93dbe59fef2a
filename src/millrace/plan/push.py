"""Pushing: conditions go down to where they can be answered first.

    SELECT ... FROM s, t WHERE s.k = t.k AND s.a > 1

is a filter over all pairs as it is written. Here `s.k = t.k` becomes the condition of the join, by
which it looks for pairs, and `s.a > 1` a filter below it. A condition passes inner joins, other
filters, and columns that subqueries add and that it does not name; it stays above everything else.

Law: the plan means what it meant before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from millrace.plan.conditions import both, conjuncts
from millrace.plan.declared import Declared
from millrace.plan.expressions import Column, Expression, walk
from millrace.plan.relations import (
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Project,
    Relation,
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.plan.scopes import column_names


@dataclass(frozen=True, slots=True)
class Pushing:
    """Pushes conditions down in plans over what is declared."""

    declared: Declared

    def stream(self, node: Stream) -> Stream:
        """Return a stream whose relation has its conditions where they belong."""
        if isinstance(node, StreamOf):
            return replace(node, relation=self.relation(node.relation))
        return node

    def relation(self, node: Relation) -> Relation:
        """Return a relation with its conditions where they belong."""
        match node:
            case Windowed(stream, _, _):
                return replace(node, stream=self.stream(stream))
            case Table():
                return node
            case Filter(given, condition):
                found = self.relation(given)
                for each in conjuncts(condition):
                    found = self._under(found, each)
                return found
            case Project() | Group() | Distinct() | Top() | Hop():
                return replace(node, input=self.relation(node.input))
            case Join() | Combined():
                return replace(node, left=self.relation(node.left), right=self.relation(node.right))
            case Asked():
                return replace(
                    node, input=self.relation(node.input), subquery=self.relation(node.subquery)
                )
            case _:
                assert_never(node)

    def _under(self, node: Relation, condition: Expression) -> Relation:
        """Filter a relation by a condition, as far below as it can be."""
        named = {each.name for each in walk(condition) if isinstance(each, Column)}
        match node:
            case Filter(given, other):
                below = self._under(given, condition)
                if isinstance(below, Filter) and below.input == given:
                    return Filter(given, _joined(other, below.condition))
                return Filter(below, other)
            case Asked() if node.name not in named:
                return replace(node, input=self._under(node.input, condition))
            case Join(kind="inner"):
                left = named & {*column_names(node.left, self.declared)}
                right = named & {*column_names(node.right, self.declared)}
                if left and not right:
                    return replace(node, left=self._under(node.left, condition))
                if right and not left:
                    return replace(node, right=self._under(node.right, condition))
                return replace(node, condition=_joined(node.condition, condition))
            case _:
                return Filter(node, condition)


def _joined(one: Expression | None, other: Expression) -> Expression:
    found = both([other] if one is None else [one, other])
    assert found is not None, "there is a condition"
    return found
