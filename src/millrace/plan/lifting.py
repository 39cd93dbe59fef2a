"""Lifting: turn the constants of a condition into parameters, so that queries share a family.

`price > 100` and `price > 200` become `price > :p0` with the constants 100 and 200. Only what
queries usually differ in is lifted: constants beside a comparison, the options of an IN list and
the patterns of LIKE, below AND, OR and NOT. Any other constant stays a part of the family.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from millrace.plan.expressions import (
    Both,
    Compare,
    Either,
    Expression,
    In,
    Like,
    Literal,
    Not,
    Parameter,
    Scalar,
)
from millrace.plan.fold import fold, rebuilt
from millrace.plan.nodes import Selection
from millrace.plan.types import literal_type
from millrace.schema import type_name

Constant = Scalar | list[Scalar]


@dataclass(slots=True)
class Lifted:
    """A selection with parameters, their types (a set's ends in `[]`) and one query's values."""

    selection: Selection
    types: list[str] = field(default_factory=list)
    values: list[Constant] = field(default_factory=list)


def lift_constants(selection: Selection) -> Lifted:
    """Lift the constants of a bound selection's condition."""
    lifted = Lifted(selection)
    if selection.condition is not None:
        condition = fold(selection.condition, lambda node, done: _lifted(node, done, lifted))
        lifted.selection = replace(selection, condition=condition)
    return lifted


def _lifted(node: Expression, done: list[Expression], lifted: Lifted) -> Expression:
    match node:
        case Compare(operator, left, right):
            if isinstance(right, Literal) and not isinstance(left, Literal):
                return Compare(operator, left, _parameter(right, lifted))
            if isinstance(left, Literal) and not isinstance(right, Literal):
                return Compare(operator, _parameter(left, lifted), right)
            return node
        case In(operand, options):
            return In(operand, _set(options, lifted))
        case Like(_, Literal(), _, _):
            return replace(node, pattern=_parameter(node.pattern, lifted))
        case Both() | Either() | Not():
            return rebuilt(node, done)
        case _:
            return node


def _parameter(node: Expression, lifted: Lifted) -> Expression:
    if not isinstance(node, Literal) or node.value is None:
        return node
    kind = type_name(literal_type(node.value))
    lifted.types.append(kind)
    lifted.values.append(node.value)
    return Parameter(len(lifted.types) - 1, kind)


def _set(options: tuple[Expression, ...], lifted: Lifted) -> tuple[Expression, ...]:
    values = [each.value for each in options if isinstance(each, Literal)]
    kinds = {type_name(literal_type(each)) for each in values if each is not None}
    if len(values) < len(options) or None in values or len(kinds) != 1:
        return options
    kind = kinds.pop()
    lifted.types.append(f"{kind}[]")
    lifted.values.append(values)
    return (Parameter(len(lifted.types) - 1, kind, many=True),)
