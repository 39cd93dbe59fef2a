"""Growth: which relations only ever gain rows, and which hold rows at single instants only.

Both are read off the plan, for every history of its streams at once, and err on the safe side.

A relation that only grows is as good as the stream of what it gains: CQL makes it an Istream by
itself. Filters, joins, unions and DISTINCT of such relations grow too. So does a semijoin: the
answer of EXISTS or IN over a subquery that grows can only rise, from false or unknown to true,
and a condition that uses it without NOT lets more rows through. The column with that answer is
*rising*: without it, the relation grows.

A relation with a factor [NOW] is empty but for the instants of its elements, so that telling the
whole of it at every instant (Rstream) is finite.
"""

from __future__ import annotations

from typing import assert_never

from millrace.plan.expressions import Both, Column, Either, Expression, children, walk
from millrace.plan.nodes import Output
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
    Table,
    Top,
    Windowed,
)

_Rising = frozenset[str]
_NONE: _Rising = frozenset()


def monotonic(relation: Relation) -> bool:
    """Say whether a relation never loses a row, whatever its streams bring.

    >>> from millrace.plan.relations import Source, Window
    >>> monotonic(Windowed(Source("s"), Window("range"), "s"))
    True
    >>> monotonic(Windowed(Source("s"), Window("rows", 10), "s"))
    False
    """
    return _rising(relation) == _NONE


def _rising(node: Relation) -> _Rising | None:  # noqa: C901  a case for each node
    """Return the columns without which a relation grows, or None if it does not."""
    match node:
        case Windowed(_, window, _):
            return _NONE if window.size is None else None
        case Filter(given, condition):
            rising = _rising(given)
            return None if rising is None or not _upward(condition, rising) else rising
        case Project(given, outputs):
            return _projected(_rising(given), outputs)
        case Join():
            return _joined(node)
        case Group(given, _, aggregates):
            return _NONE if not aggregates and node.keys and monotonic(given) else None
        case Distinct(given):
            return _NONE if monotonic(given) else None
        case Combined(kind, left, right, _):
            grows = kind != "except" and monotonic(left) and monotonic(right)
            return _NONE if grows else None
        case Asked(given, name, kind, subquery, _):
            rising = _rising(given)
            grows = rising is not None and kind != "scalar" and monotonic(subquery)
            return rising | {name} if rising is not None and grows else None
        case Hop(given):
            return _rising(given)
        case Table() | Top():
            return None
        case _:
            assert_never(node)


def _joined(node: Join) -> _Rising | None:
    left, right = _rising(node.left), _rising(node.right)
    if node.kind != "inner" or left is None or right is None:
        return None
    rising = left | right
    return rising if node.condition is None or _upward(node.condition, rising) else None


def _projected(rising: _Rising | None, outputs: tuple[Output, ...]) -> _Rising | None:
    if rising is None:
        return None
    passed = {each.name for each in outputs if _passes(each.value, rising)}
    others = [each for each in outputs if each.name not in passed]
    return None if any(_mentions(each.value, rising) for each in others) else frozenset(passed)


def _passes(node: Expression, rising: _Rising) -> bool:
    return isinstance(node, Column) and node.name in rising


def _mentions(node: Expression, columns: _Rising) -> bool:
    return any(isinstance(each, Column) and each.name in columns for each in walk(node))


def _upward(node: Expression, rising: _Rising) -> bool:
    """Say whether a condition can only rise when these columns do."""
    if isinstance(node, Both | Either):
        return all(_upward(each, rising) for each in children(node))
    return _passes(node, rising) or not _mentions(node, rising)


def instantaneous(relation: Relation) -> bool:
    """Say whether a relation holds rows only at the instants of elements of its streams.

    >>> from millrace.plan.relations import Source, Window
    >>> instantaneous(Windowed(Source("s"), Window("range", 0), "s"))
    True
    """
    match relation:
        case Windowed(_, window, _):
            return window.kind == "range" and window.size == 0 and window.slide is None
        case Filter(given, _) | Project(given, _) | Distinct(given) | Hop(given):
            return instantaneous(given)
        case Asked(given, _, _, _, _) | Top(given, _, _, _):
            return instantaneous(given)
        case Join(kind, left, right, _):
            sides = (instantaneous(left), instantaneous(right))
            return {"inner": any(sides), "left": sides[0], "right": sides[1]}.get(kind, all(sides))
        case Group(given, keys, _):
            return bool(keys) and instantaneous(given)
        case Combined(kind, left, right, _):
            sides = (instantaneous(left), instantaneous(right))
            return {"union": all(sides), "except": sides[0]}.get(kind, any(sides))
        case Table():
            return False
        case _:
            assert_never(relation)
