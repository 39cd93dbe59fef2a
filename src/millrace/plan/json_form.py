"""Expressions as JSON, for the registry and for other processes.

The form is nested lists, `[kind, fields..., operands...]`. JSON's readers and writers count levels
too, so an expression of great depth is a flat list in reverse Polish order instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias, assert_never, cast

from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Parameter,
    Scalar,
)
from millrace.plan.fold import depth, fold

Json: TypeAlias = list[object]

_NESTED = 100  # levels; above, the flat form is written


def to_json(node: Expression) -> Json:
    """Spell an expression as lists that `from_json` reads back."""
    if depth(node) <= _NESTED:
        return fold(node, lambda each, operands: [*_head(each), *operands])
    flat: Json = ["flat"]
    fold(node, lambda each, operands: flat.append([len(operands), *_head(each)]))
    return flat


def from_json(spelt: Json) -> Expression:
    """Read what `to_json` wrote."""
    if spelt[0] == "flat":
        return _from_flat(cast(list[Json], spelt[1:]))
    kind = cast(str, spelt[0])
    n_fields, build = _BUILDERS[kind]
    operands = [from_json(cast(Json, each)) for each in spelt[1 + n_fields :]]
    return build(spelt[1 : 1 + n_fields], operands)


def _from_flat(steps: list[Json]) -> Expression:
    nodes: list[Expression] = []
    for n_operands, kind, *fields in steps:
        first = len(nodes) - cast(int, n_operands)
        operands = nodes[first:]
        del nodes[first:]
        nodes.append(_BUILDERS[cast(str, kind)][1](fields, operands))
    return nodes[0]


def _head(node: Expression) -> Json:
    """Spell what a node says itself, without its operands."""
    match node:
        case Column(name):
            return ["column", name]
        case Literal(value):
            return ["literal", _value_json(value)]
        case Parameter(number, type_name, many):
            return ["parameter", number, type_name, many]
        case Compare(operator, _, _) | Arithmetic(operator, _, _):
            return ["compare" if isinstance(node, Compare) else "arithmetic", operator]
        case Like(_, _, escape, ignore_case):
            return ["like", escape, ignore_case]
        case Matches(_, _, ignore_case):
            return ["matches", ignore_case]
        case Cast(_, type_name):
            return ["cast", type_name]
        case Call(function, _):
            return ["call", function]
        case Negative() | Both() | Either() | Not() | IsNull() | In() | Case():
            return [_WORDS[type(node)]]
        case _:
            assert_never(node)


_WORDS: dict[type, str] = {
    Negative: "negative",
    Both: "and",
    Either: "or",
    Not: "not",
    IsNull: "is_null",
    In: "in",
    Case: "case",
}
_Builder: TypeAlias = Callable[[list[Any], list[Expression]], Expression]
_BUILDERS: dict[str, tuple[int, _Builder]] = {
    "column": (1, lambda fields, _: Column(*fields)),
    "literal": (1, lambda fields, _: Literal(_value_from_json(*fields))),
    "parameter": (3, lambda fields, _: Parameter(*fields)),
    "compare": (1, lambda fields, operands: Compare(fields[0], *operands)),
    "arithmetic": (1, lambda fields, operands: Arithmetic(fields[0], *operands)),
    "negative": (0, lambda _, operands: Negative(*operands)),
    "and": (0, lambda _, operands: Both(*operands)),
    "or": (0, lambda _, operands: Either(*operands)),
    "not": (0, lambda _, operands: Not(*operands)),
    "is_null": (0, lambda _, operands: IsNull(*operands)),
    "in": (0, lambda _, operands: In(operands[0], tuple(operands[1:]))),
    "like": (2, lambda fields, operands: Like(operands[0], operands[1], *fields)),
    "matches": (1, lambda fields, operands: Matches(operands[0], operands[1], fields[0])),
    "case": (0, lambda _, operands: _case(operands)),
    "cast": (1, lambda fields, operands: Cast(operands[0], fields[0])),
    "call": (1, lambda fields, operands: Call(fields[0], tuple(operands))),
}


def _case(operands: list[Expression]) -> Case:
    return Case(tuple(zip(operands[:-1:2], operands[1:-1:2], strict=True)), operands[-1])


def _value_json(value: Scalar) -> object:
    """Spell a constant; what JSON does not know is an object that names its kind."""
    if isinstance(value, bytes):
        return {"binary": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"double": str(value)}
    return value


_READERS: dict[str, Callable[[str], Scalar]] = {
    "binary": bytes.fromhex,
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "double": float,
}


def _value_from_json(spelt: object) -> Scalar:
    if isinstance(spelt, dict):
        ((kind, text),) = spelt.items()
        return _READERS[kind](text)
    return cast(Scalar, spelt)
