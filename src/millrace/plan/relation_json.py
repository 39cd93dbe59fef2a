"""Plans of relations as JSON, for the registry and for other processes.

A node is an object that names its class and spells its fields; an expression is spelt as
everywhere (`plan.spelling`). So a plan that is read back is equal to the one that was written.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from millrace.plan.bands import Laid, Step
from millrace.plan.expressions import Expression
from millrace.plan.nodes import Output
from millrace.plan.relations import Aggregate, Order, Relation, Stream, Window
from millrace.plan.spelling import from_json, to_json

_PARTS = (Window, Aggregate, Order, Output, Laid, Step)
_NODES: dict[str, type[Any]] = {
    each.__name__: each for each in (*get_args(Relation), *get_args(Stream), *_PARTS)
}
_EXPRESSIONS = get_args(Expression)


def plan_to_json(part: object) -> Any:  # noqa: ANN401
    """Spell a stream, a relation or a part of one."""
    if isinstance(part, _EXPRESSIONS):
        return {"expression": to_json(part)}
    if isinstance(part, tuple):
        return [plan_to_json(each) for each in part]
    name = type(part).__name__
    if _NODES.get(name) is type(part):
        spelt = {each.name: plan_to_json(getattr(part, each.name)) for each in fields(_NODES[name])}
        return {"node": name, **spelt}
    return part


def plan_from_json(spelt: Any) -> Any:  # noqa: ANN401
    """Read what `plan_to_json` wrote."""
    if isinstance(spelt, list):
        return tuple(plan_from_json(each) for each in spelt)
    if not isinstance(spelt, dict):
        return spelt
    if "expression" in spelt:
        return from_json(spelt["expression"])
    parts = {name: plan_from_json(each) for name, each in spelt.items() if name != "node"}
    return _NODES[spelt["node"]](**parts)
