"""Expressions over the columns of one stream: what a filter tests and a projection computes.

A node is a frozen dataclass; `Expression` is their union. Each node means one thing, whatever
text it came from: BETWEEN is two comparisons, NOT IN is NOT of IN. `plan.term` builds nodes with
Python's operators, `lang` from SQL, `plan.spelling` writes them as JSON and as SQL.

A `Parameter` stands for a constant in which the queries of one family differ. Its value is a
column of the family's table of parameters; a set (of an IN list) is a value of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal as OneOf
from typing import TypeAlias, assert_never

Scalar: TypeAlias = bool | int | float | str | bytes | Decimal | date | datetime | None
"""A constant; a datetime has a time zone. None is SQL's NULL."""

Comparison: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
COMPARISONS: tuple[Comparison, ...] = ("=", "<>", "<", "<=", ">", ">=")
OPPOSITES: dict[Comparison, Comparison] = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
"""What holds where a comparison is false."""
MIRRORED: dict[Comparison, Comparison] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
"""What holds with the two sides in the other order."""
Operation: TypeAlias = OneOf["+", "-", "*", "/", "%", "||"]
OPERATIONS: tuple[Operation, ...] = ("+", "-", "*", "/", "%", "||")


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Parameter:
    """The value that a query of the family has in column `number` of the parameters.

    `type` is the name of its type (`schema.type_named`); with `many` the value is a set of such,
    and the parameter may stand only as the single option of an `In`.
    """

    number: int
    type: str
    many: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison, unknown when either side is NULL; NaN equals itself and is the greatest."""

    operator: Comparison
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two operands and an operator; NULL where it has no value (x / 0, an overflow)."""

    operator: Operation
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative:
    """The number with the other sign."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Both:
    """AND in three-valued logic."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Either:
    """OR in three-valued logic."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not:
    """NOT in three-valued logic."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNull:
    """True where the operand is NULL; never unknown."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class In:
    """True where the operand equals an option; unknown if it does not and one of them is NULL."""

    operand: Expression
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """SQL's LIKE: % stands for any text, _ for one character, `escape` takes their meaning."""

    operand: Expression
    pattern: Expression
    escape: str | None = None
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """True where a regular expression (RE2's) is found somewhere in the text."""

    operand: Expression
    pattern: Expression
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    """The value as another type, NULL where it cannot be."""

    operand: Expression
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function of ours, or a registered vectorised one: arrays in, one array out."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = (
    Column
    | Literal
    | Parameter
    | Compare
    | Arithmetic
    | Negative
    | Both
    | Either
    | Not
    | IsNull
    | In
    | Like
    | Matches
    | Case
    | Cast
    | Call
)


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of a node, in the order in which they are written."""
    match node:
        case Column() | Literal() | Parameter():
            return ()
        case (
            Compare(_, left, right)
            | Arithmetic(_, left, right)
            | Both(left, right)
            | Either(left, right)
        ):
            return left, right
        case Negative(operand) | Not(operand) | IsNull(operand) | Cast(operand, _):
            return (operand,)
        case In(operand, options):
            return operand, *options
        case Like(operand, pattern, _, _) | Matches(operand, pattern, _):
            return operand, pattern
        case Case(branches, otherwise):
            return *(side for branch in branches for side in branch), otherwise
        case Call(_, arguments):
            return arguments
        case _:
            assert_never(node)


def walk(node: Expression) -> Iterator[Expression]:
    """Yield a node and all nodes below it, a node before its operands."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(children(each)))
