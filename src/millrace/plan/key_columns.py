"""Keys that are computed become columns, so that rows can be spread by them.

    aggregate by s.v % 10: ...      ─►      aggregate by #key.0: ...
      seq-window s                            project s.k, s.v, ..., s.v % 10 as #key.0
                                                seq-window s

A group that has a column among its keys stays as it is: its rows are spread by that.
"""

from __future__ import annotations

from dataclasses import replace

from millrace.plan.declared import Declared
from millrace.plan.expressions import Column
from millrace.plan.nodes import Output
from millrace.plan.relations import Group, Project, Relation
from millrace.plan.scopes import below, column_names, with_below

KEY = "#key."
"""How the names of such columns begin; nobody else calls a column so."""


def with_key_columns(node: Relation, declared: Declared) -> Relation:
    """Compute the keys of groups that have no other below them."""
    node = with_below(node, [with_key_columns(each, declared) for each in below(node)])
    if not isinstance(node, Group) or not node.keys:
        return node
    if any(isinstance(each.value, Column) for each in node.keys):
        return node
    passed = [Output(name, Column(name)) for name in column_names(node.input, declared)]
    computed = [Output(f"{KEY}{at}", each.value) for at, each in enumerate(node.keys)]
    keys = [
        replace(each, value=Column(key.name)) for each, key in zip(node.keys, computed, strict=True)
    ]
    return replace(node, input=Project(node.input, (*passed, *computed)), keys=tuple(keys))
