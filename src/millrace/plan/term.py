"""Terms: expressions written with Python's operators, which build nodes and compute nothing.

>>> from millrace.plan.spelling import to_text
>>> condition = (col("price") * 2 > 100) & (col("symbol") == "ACME")
>>> to_text(condition.node)
"price * 2 > 100 AND symbol = 'ACME'"
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import cast, get_args

from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Cast,
    Column,
    Compare,
    Comparison,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Operation,
)

_NODES = get_args(Expression)


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An expression under construction: Python's operators on it build a larger one."""

    node: Expression

    def __eq__(self, other: object) -> Term:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return self._compare("<>", other)

    def __lt__(self, other: object) -> Term:
        return self._compare("<", other)

    def __le__(self, other: object) -> Term:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Term:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Term:
        return self._compare(">=", other)

    def __and__(self, other: object) -> Term:
        return Term(Both(self.node, expression(other)))

    def __rand__(self, other: object) -> Term:
        return Term(Both(expression(other), self.node))

    def __or__(self, other: object) -> Term:
        return Term(Either(self.node, expression(other)))

    def __ror__(self, other: object) -> Term:
        return Term(Either(expression(other), self.node))

    def __invert__(self) -> Term:
        return Term(Not(self.node))

    def __add__(self, other: object) -> Term:
        return _compute("+", self, other)

    def __radd__(self, other: object) -> Term:
        return _compute("+", other, self)

    def __sub__(self, other: object) -> Term:
        return _compute("-", self, other)

    def __rsub__(self, other: object) -> Term:
        return _compute("-", other, self)

    def __mul__(self, other: object) -> Term:
        return _compute("*", self, other)

    def __rmul__(self, other: object) -> Term:
        return _compute("*", other, self)

    def __truediv__(self, other: object) -> Term:
        return _compute("/", self, other)

    def __rtruediv__(self, other: object) -> Term:
        return _compute("/", other, self)

    def __mod__(self, other: object) -> Term:
        return _compute("%", self, other)

    def __rmod__(self, other: object) -> Term:
        return _compute("%", other, self)

    def __neg__(self) -> Term:
        return Term(Negative(self.node))

    def __bool__(self) -> bool:
        message = "an expression has no truth value: combine with & | ~ instead of and, or, not"
        raise TypeError(message)

    __hash__ = None  # type: ignore[assignment]

    def is_null(self) -> Term:
        """Test for NULL."""
        return Term(IsNull(self.node))

    def isin(self, options: Iterable[object]) -> Term:
        """Test whether it equals one of these."""
        return Term(In(self.node, tuple(expression(each) for each in options)))

    def between(self, low: object, high: object) -> Term:
        """Test whether it is neither less than `low` nor greater than `high`."""
        return (self >= low) & (self <= high)

    def like(
        self, pattern: object, *, escape: str | None = None, ignore_case: bool = False
    ) -> Term:
        """Compare with a pattern in which % stands for any text and _ for one character."""
        return Term(Like(self.node, expression(pattern), escape, ignore_case))

    def matches(self, pattern: object, *, ignore_case: bool = False) -> Term:
        """Test whether a regular expression (RE2's) is found in it."""
        return Term(Matches(self.node, expression(pattern), ignore_case))

    def concat(self, other: object) -> Term:
        """Append a text: SQL's `||`."""
        return _compute("||", self, other)

    def cast(self, type_name: str) -> Term:
        """Take the value as another type, NULL where it cannot be."""
        return Term(Cast(self.node, type_name))

    def _compare(self, operator: Comparison, other: object) -> Term:
        return Term(Compare(operator, self.node, expression(other)))


def _compute(operator: Operation, left: object, right: object) -> Term:
    return Term(Arithmetic(operator, expression(left), expression(right)))


def col(name: str) -> Term:
    """Name a column."""
    return Term(Column(name))


def call(function: str, *arguments: object) -> Term:
    """Call a function, one of ours or a registered one."""
    return Term(Call(function, tuple(expression(each) for each in arguments)))


def expression(value: object) -> Expression:
    """Take a term, a node or a plain constant as an expression."""
    if isinstance(value, Term):
        return value.node
    if isinstance(value, _NODES):
        return cast(Expression, value)
    if value is None or isinstance(value, bool | int | float | str | bytes | Decimal | date):
        return Literal(value)
    message = f"an expression is built from columns and plain constants; got {value!r}"
    raise TypeError(message)
