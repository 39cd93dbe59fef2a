"""What an expression means for one row, in slow plain Python.

A value is a Python object, None for NULL and for unknown: bool, int, float, Decimal, str, bytes,
date, and datetime in UTC. Beside it goes its type, by the binder's rules, for what Python does
not tell apart (a bigint and a tinyint, the scale of a decimal).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

import pyarrow as pa

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
)
from millrace.plan.fold import fold
from millrace.plan.types import kind_of
from millrace.plan.typing import Scope, node_type
from millrace.schema import Schema
from millrace.testing.oracle.casts import Typed, cast_value
from millrace.testing.oracle.functions import FUNCTIONS
from millrace.testing.oracle.operations import among, compared, computed
from millrace.testing.oracle.patterns import found, like

Row: TypeAlias = Mapping[str, Any]
_ZERO: dict[str, object] = {"integer": 0, "decimal": 0, "floating": -0.0}  # -0.0 - x is -x


@dataclass(frozen=True, slots=True)
class World:
    """What an expression may ask for beside its row."""

    schema: Schema
    parameters: Mapping[int, Any] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


def value_of(node: Expression, row: Row, world: World) -> object:
    """Return the value of a bound expression for a row."""
    scope = Scope(world.schema, world.types)

    def combine(each: Expression, operands: list[Typed]) -> Typed:
        arrow = node_type(each, [operand.type for operand in operands], scope)
        return Typed(arrow, _value(each, operands, arrow, row, world))

    return fold(node, combine).value


def _value(
    node: Expression, operands: Sequence[Typed], arrow: pa.DataType, row: Row, world: World
) -> object:
    values = [each.value for each in operands]
    match node:
        case Column(name):
            return row[name]
        case Literal(value):
            return value
        case Parameter(number, _, _):
            return world.parameters[number]
        case Arithmetic(operator, _, _):
            return computed(operator, operands[0], operands[1], arrow)
        case Negative():
            return computed("-", Typed(pa.int64(), _ZERO[kind_of(arrow)]), operands[0], arrow)
        case Case():
            return _case(operands, arrow)
        case Cast():
            return cast_value(operands[0], arrow)
        case Call(function, _):
            ours = world.functions.get(function)
            return ours(*values) if ours else FUNCTIONS[function](arrow, *operands)
        case Compare() | Both() | Either() | Not() | IsNull() | In() | Like() | Matches():
            return _truth(node, values)
        case _:
            assert_never(node)


def _truth(
    node: Compare | Both | Either | Not | IsNull | In | Like | Matches, values: list[Any]
) -> bool | None:
    match node:
        case Compare(operator, _, _):
            return compared(operator, *values)
        case Both():
            return False if False in values else None if None in values else True
        case Either():
            return True if True in values else None if None in values else False
        case Not():
            return None if values[0] is None else not values[0]
        case IsNull():
            return values[0] is None
        case In(_, options):
            many = any(isinstance(each, Parameter) and each.many for each in options)
            return among(values[0], values[1] if many else values[1:])
        case Like(_, _, escape, ignore_case):
            return like(values[0], values[1], escape, ignore_case=ignore_case)
        case Matches(_, _, ignore_case):
            return found(*values, ignore_case=ignore_case)
        case _:
            assert_never(node)


def _case(operands: Sequence[Typed], arrow: pa.DataType) -> object:
    for condition, chosen in zip(operands[:-1:2], operands[1:-1:2], strict=True):
        if condition.value is True:
            return cast_value(chosen, arrow)
    return cast_value(operands[-1], arrow)
