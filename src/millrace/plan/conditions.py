"""Conditions: AND of several, and an equality that takes NULL for a value."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.plan.expressions import Both, Compare, Either, Expression, IsNull, Not


def conjuncts(node: Expression) -> list[Expression]:
    """Return the conditions that AND connects."""
    if isinstance(node, Both):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]


def both(nodes: Iterable[Expression]) -> Expression | None:
    """Connect conditions by AND; None if there is none."""
    found: Expression | None = None
    for each in nodes:
        found = each if found is None else Both(found, each)
    return found


def same(left: Expression, right: Expression) -> Expression:
    """Return the condition that two values are equal, or both NULL."""
    known = Both(Both(Not(IsNull(left)), Not(IsNull(right))), Compare("=", left, right))
    return Either(Both(IsNull(left), IsNull(right)), known)
