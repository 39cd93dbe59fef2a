"""Which part of a join's condition says that values of both sides are equal, and what is left."""

from __future__ import annotations

import pyarrow as pa

from millrace.operators.relational.join import Key
from millrace.plan.bind import type_of
from millrace.plan.calls import Functions
from millrace.plan.conditions import both, conjuncts, same
from millrace.plan.expressions import Cast, Column, Compare, Either, Expression, walk
from millrace.plan.types import kind_of, shown
from millrace.schema import Schema


def split(
    condition: Expression | None, left: Schema, right: Schema, functions: Functions
) -> tuple[tuple[Key, ...], Expression | None]:
    """Return the keys of a join, and the rest of its condition."""
    if condition is None:
        return (), None
    keys, rest = [], []
    for each in conjuncts(condition):
        key = _key(each, left, right, functions)
        if key is None:
            rest.append(each)
        else:
            keys.append(key)
    return tuple(keys), both(rest)


def _key(node: Expression, left: Schema, right: Schema, functions: Functions) -> Key | None:
    nulls = False
    if isinstance(node, Either):
        inner = conjuncts(node.right)[-1]
        if not isinstance(inner, Compare) or node != same(inner.left, inner.right):
            return None
        node, nulls = inner, True
    if not isinstance(node, Compare) or node.operator != "=":
        return None
    one, other = node.left, node.right
    if _within(other, left) and _within(one, right):
        one, other = other, one
    if not (_within(one, left) and _within(other, right)):
        return None
    types = type_of(one, left, functions), type_of(other, right, functions)
    if types[0] == types[1]:
        return Key(one, other, nulls)
    if {kind_of(each) for each in types} == {"integer"}:
        return Key(_as(one, pa.int64()), _as(other, pa.int64()), nulls)
    return None


def _as(node: Expression, arrow: pa.DataType) -> Expression:
    return Cast(node, shown(arrow))


def _within(node: Expression, schema: Schema) -> bool:
    """Say whether an expression has columns, and all of them are in a schema."""
    names = {each.name for each in walk(node) if isinstance(each, Column)}
    return bool(names) and all(name in schema for name in names)
