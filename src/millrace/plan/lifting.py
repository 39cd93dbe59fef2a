"""Lifting: turn the constants of conditions into parameters, so that queries share a family.

`price > 100` and `price > 200` become `price > :p0` with the constants 100 and 200. Only what
queries usually differ in is lifted: constants beside a comparison, the options of an IN list and
the patterns of LIKE, below AND, OR and NOT. Any other constant stays a part of the family.

Of a plan the conditions of its filters and joins are lifted, and where that is wanted sizes of its
windows, and what its conditions give to functions of users. What stands in subqueries, and in
streams that windows are over, stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from millrace.plan.expressions import (
    Both,
    Call,
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
from millrace.plan.levels import GREATEST_SIZE
from millrace.plan.mapping import mapped
from millrace.plan.nodes import Selection
from millrace.plan.relations import Filter, Join, Relation, StreamOf, Window, Windowed
from millrace.plan.types import literal_type
from millrace.schema import type_name

Constant = Scalar | list[Scalar]


@dataclass(slots=True)
class Constants:
    """The types of parameters (a set's ends in `[]`), and the values that one query has."""

    types: list[str] = field(default_factory=list)
    values: list[Constant] = field(default_factory=list)

    def parameter(self, value: Constant, kind: str, *, many: bool = False) -> Parameter:
        """Take a value of a type; return what stands for it."""
        self.types.append(f"{kind}[]" if many else kind)
        self.values.append(value)
        return Parameter(len(self.types) - 1, kind, many)


@dataclass(slots=True)
class Lifted:
    """A selection with parameters, their types and one query's values."""

    selection: Selection
    types: list[str] = field(default_factory=list)
    values: list[Constant] = field(default_factory=list)


def lift_constants(selection: Selection) -> Lifted:
    """Lift the constants of a bound selection's condition."""
    constants = Constants()
    if selection.condition is not None:
        selection = replace(selection, condition=_condition(selection.condition, constants))
    return Lifted(selection, constants.types, constants.values)


def lift_plan(
    plan: Relation | StreamOf, *, sizes: bool, functions: Collection[str] = ()
) -> tuple[Relation | StreamOf, Constants]:
    """Lift the constants of a plan's conditions, and with `sizes` those of its windows.

    Of some functions arguments are lifted too.
    """
    constants = Constants()

    def given(condition: Expression) -> Expression:
        return _condition(_called(condition, constants, functions), constants)

    def lift(node: Relation) -> Relation:
        node = mapped(node, lift, lambda each: each)
        match node:
            case Filter(_, condition):
                return replace(node, condition=given(condition))
            case Join(_, _, _, condition) if condition is not None:
                return replace(node, condition=given(condition))
            case Windowed(_, Window(size=int(size))) if sizes and size <= GREATEST_SIZE:
                length = constants.parameter(size, "bigint")
                return replace(node, window=replace(node.window, size=length))
            case _:
                return node

    if isinstance(plan, StreamOf):
        return replace(plan, relation=lift(plan.relation)), constants
    return lift(plan), constants


def _condition(condition: Expression, constants: Constants) -> Expression:
    return fold(condition, lambda node, done: _lifted(node, done, constants))


def _called(node: Expression, lifted: Constants, functions: Collection[str]) -> Expression:
    """Lift the constants that some functions are given."""

    def lift(each: Expression, operands: list[Expression]) -> Expression:
        if isinstance(each, Call) and each.function in functions:
            operands = [_parameter(operand, lifted) for operand in operands]
        return rebuilt(each, operands)

    return fold(node, lift)


def _lifted(node: Expression, done: list[Expression], lifted: Constants) -> Expression:
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


def _parameter(node: Expression, lifted: Constants) -> Expression:
    if not isinstance(node, Literal) or node.value is None:
        return node
    return lifted.parameter(node.value, type_name(literal_type(node.value)))


def _set(options: tuple[Expression, ...], lifted: Constants) -> tuple[Expression, ...]:
    values = [each.value for each in options if isinstance(each, Literal)]
    kinds = {type_name(literal_type(each)) for each in values if each is not None}
    if len(values) < len(options) or None in values or len(kinds) != 1:
        return options
    return (lifted.parameter(values, kinds.pop(), many=True),)
