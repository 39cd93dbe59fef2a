"""What conditions say about how far apart two numbers are.

    a.x - b.y BETWEEN -5 AND :high       abs(a.x - b.y) <= 3       a.x < b.y + 10       a.x = b.y

Each bounds the difference of two columns by constants, from below or from above or both. It may say
more than that; who looks for pairs by a bound asks the condition of what is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from millrace.plan.declared import Declared
from millrace.plan.expressions import (
    MIRRORED,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Comparison,
    Expression,
    Literal,
    Negative,
    walk,
)
from millrace.plan.types import DOUBLE, kind_of, shown
from millrace.schema import Schema


@dataclass(frozen=True, slots=True)
class Difference:
    """One column less another is at least, or at most, a constant: that of a query, as a double."""

    minuend: str
    subtrahend: str
    at_least: bool
    bound: Expression


@dataclass(frozen=True, slots=True)
class _Sum:
    """How often each column is added, and constants with their signs."""

    columns: tuple[tuple[str, int], ...]
    constants: tuple[tuple[int, Expression], ...] = ()

    def plus(self, other: _Sum, sign: int) -> _Sum:
        columns = dict(self.columns)
        for name, times in other.columns:
            columns[name] = columns.get(name, 0) + sign * times
        constants = (*self.constants, *((sign * each, node) for each, node in other.constants))
        return _Sum(tuple((name, times) for name, times in columns.items() if times), constants)

    @property
    def constant(self) -> Expression:
        """The constants as one; as doubles they cannot be too great."""
        found: Expression = Literal(0.0)
        for sign, node in self.constants:
            found = Arithmetic("+" if sign > 0 else "-", found, Cast(node, shown(DOUBLE)))
        return found


@dataclass(frozen=True, slots=True)
class Differences:
    """Finds bounds of differences in conditions over some columns."""

    schema: Schema
    declared: Declared

    def of(self, condition: Expression) -> Iterator[Difference]:
        """Yield what a condition says about the difference of two columns."""
        if not isinstance(condition, Compare) or condition.operator == "<>":
            return
        for left, right, operator in (
            (condition.left, condition.right, condition.operator),
            (condition.right, condition.left, MIRRORED[condition.operator]),
        ):
            if isinstance(left, Call) and left.function == "abs" and operator in ("<", "<=", "="):
                yield from self._within(left.arguments, right)
                return
        left_sum, right_sum = self._sum(condition.left), self._sum(condition.right)
        if left_sum is not None and right_sum is not None:
            yield from _bounds(left_sum.plus(right_sum, -1), condition.operator)

    def _within(self, arguments: Sequence[Expression], most: Expression) -> Iterator[Difference]:
        """Yield the bounds of `abs(difference) <= most`."""
        inner, outer = self._sum(arguments[0]), self._sum(most)
        if inner is not None and outer is not None and not outer.columns:
            yield from _bounds(inner.plus(outer, -1), "<=")
            yield from _bounds(inner.plus(outer, 1), ">=")

    def _sum(self, node: Expression) -> _Sum | None:
        """Return a value as a sum of columns and constants, if it is one."""
        if not any(isinstance(each, Column) for each in walk(node)):
            computed = any(isinstance(each, Call | Case) for each in walk(node))
            return None if computed else _Sum((), ((1, node),))
        match node:
            case Column(name):
                return _Sum(((name, 1),)) if self._is_number(node) else None
            case Negative(operand):
                found = self._sum(operand)
                return None if found is None else _Sum(()).plus(found, -1)
            case Arithmetic("+" | "-" as operator, left, right):
                one, other = self._sum(left), self._sum(right)
                if one is None or other is None:
                    return None
                return one.plus(other, 1 if operator == "+" else -1)
            case Cast(operand, _) if self._widens(operand, node):
                return self._sum(operand)
            case _:
                return None

    def _type(self, node: Expression) -> pa.DataType:
        return self.declared.type_of(node, self.schema)

    def _is_number(self, node: Expression) -> bool:
        """Say whether a value is a whole number or a double: of others differences are rounded."""
        kind = self._type(node)
        return kind_of(kind) == "integer" or kind == DOUBLE

    def _widens(self, operand: Expression, node: Cast) -> bool:
        """Say whether a cast leaves a number as it is, but for the rounding of a double."""
        if not self._is_number(operand) or not self._is_number(node):
            return False
        return kind_of(self._type(operand)) == "integer" or kind_of(self._type(node)) == "floating"


def _bounds(total: _Sum, operator: Comparison) -> Iterator[Difference]:
    """Yield the bounds that follow where a sum is compared with 0."""
    signs = {times: name for name, times in total.columns}
    if len(total.columns) != 2 or {*signs} != {1, -1}:
        return
    bound = _Sum(()).plus(_Sum((), total.constants), -1).constant
    if operator in (">", ">=", "="):
        yield Difference(signs[1], signs[-1], at_least=True, bound=bound)
    if operator in ("<", "<=", "="):
        yield Difference(signs[1], signs[-1], at_least=False, bound=bound)
