"""Narrowing: rows that travel leave the columns behind that nobody reads where they go.

    aggregate by t.v: count(*)                  aggregate by t.v: count(*)
      hop 1                           ─►          hop 1
        join on s.k = t.k                           project t.v
                                                      join on s.k = t.k

There is less to carry, and more rows are equal, which travel as one. What is told, and what has to
be compared row by row (DISTINCT, set operators, ORDER BY with its ties), keeps all its columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from millrace.plan.declared import Declared
from millrace.plan.expressions import Column, Literal, walk
from millrace.plan.nodes import Output
from millrace.plan.relations import Filter, Group, Hop, Join, Project, Relation
from millrace.plan.scopes import below, column_names, own_expressions, with_below


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Narrows what travels in plans over what is declared."""

    declared: Declared

    def relation(self, node: Relation, read: Iterable[str] | None = None) -> Relation:
        """Return a relation with narrower hops in it; of its own columns some are `read`, or all.

        Case does not count in the names of columns.
        """
        names = column_names(node, self.declared)
        wanted = {each.casefold() for each in (names if read is None else read)}
        match node:
            case Hop(given, to, _):
                kept = [name for name in names if name.casefold() in wanted or name == to]
                inner = self.relation(given, kept)
                if kept == names:
                    return replace(node, input=inner)
                outputs = [Output(name, Column(name)) for name in kept]
                alike = Output(names[0], Literal(0))  # of rows that are only counted
                return replace(node, input=Project(inner, tuple(outputs) or (alike,)))
            case Filter(given):
                return replace(node, input=self.relation(given, wanted | _named(node)))
            case Project(given) | Group(given):
                return replace(node, input=self.relation(given, _named(node)))
            case Join():
                both = wanted | _named(node)
                return with_below(node, [self.relation(each, both) for each in below(node)])
            case _:
                return with_below(node, [self.relation(each) for each in below(node)])


def _named(node: Relation) -> set[str]:
    """Return the columns that an operator's own expressions name."""
    values = own_expressions(node)
    return {each.name for value in values for each in walk(value) if isinstance(each, Column)}
