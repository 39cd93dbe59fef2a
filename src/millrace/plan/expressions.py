"""Expressions over the columns of one stream: what a filter tests and a projection computes.

A node is a frozen dataclass; `Expression` is their union. Write them with `col` and Python's
operators, which build nodes and compute nothing:

>>> condition = (col("price") > 100) & (col("symbol") == "ACME")
>>> to_text(condition.node)
"(price > 100 AND symbol = 'ACME')"

They travel to other processes, and rest in the registry, as nested JSON lists (`to_json`,
`from_json`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias, assert_never, cast

Scalar: TypeAlias = bool | int | float | str | None
Comparison: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
COMPARISONS: tuple[Comparison, ...] = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is SQL's NULL."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison, unknown when either side is NULL."""

    operator: Comparison
    left: Expression
    right: Expression


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
class Call:
    """A registered vectorised function: arrays in, one array out."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Column | Literal | Compare | Both | Either | Not | IsNull | Call


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

    def __or__(self, other: object) -> Term:
        return Term(Either(self.node, expression(other)))

    def __invert__(self) -> Term:
        return Term(Not(self.node))

    def __bool__(self) -> bool:
        message = "an expression has no truth value: combine with & | ~ instead of and, or, not"
        raise TypeError(message)

    __hash__ = None  # type: ignore[assignment]

    def is_null(self) -> Term:
        """Test for NULL."""
        return Term(IsNull(self.node))

    def _compare(self, operator: Comparison, other: object) -> Term:
        return Term(Compare(operator, self.node, expression(other)))


def col(name: str) -> Term:
    """Name a column."""
    return Term(Column(name))


def call(function: str, *arguments: object) -> Term:
    """Call a registered function."""
    return Term(Call(function, tuple(expression(each) for each in arguments)))


def expression(value: object) -> Expression:
    """Take a term, a node or a plain constant as an expression."""
    if isinstance(value, Term):
        return value.node
    if isinstance(value, Column | Literal | Compare | Both | Either | Not | IsNull | Call):
        return value
    if value is None or isinstance(value, bool | int | float | str):
        return Literal(value)
    message = f"an expression is built from columns and plain constants; got {value!r}"
    raise TypeError(message)


def to_text(node: Expression) -> str:
    """Print an expression as SQL."""
    match node:
        case Column(name):
            return name
        case Literal(value):
            return _literal_text(value)
        case Compare(operator, left, right):
            return f"{_operand_text(left)} {operator} {_operand_text(right)}"
        case Both(left, right):
            return f"({to_text(left)} AND {to_text(right)})"
        case Either(left, right):
            return f"({to_text(left)} OR {to_text(right)})"
        case Not(operand):
            return f"NOT ({to_text(operand)})"
        case IsNull(operand):
            return f"{_operand_text(operand)} IS NULL"
        case Call(function, arguments):
            return f"{function}({', '.join(to_text(each) for each in arguments)})"
        case _:
            assert_never(node)


def _operand_text(node: Expression) -> str:
    """Print what stands beside an operator; a = b IS NULL would be read in two ways."""
    text = to_text(node)
    return f"({text})" if isinstance(node, Compare | IsNull | Not) else text


def _literal_text(value: Scalar) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def to_json(node: Expression) -> list[object]:
    """Spell an expression as nested lists that `from_json` reads back."""
    match node:
        case Column(name):
            return ["column", name]
        case Literal(value):
            return ["literal", value]
        case Compare(operator, left, right):
            return ["compare", operator, to_json(left), to_json(right)]
        case Both(left, right):
            return ["and", to_json(left), to_json(right)]
        case Either(left, right):
            return ["or", to_json(left), to_json(right)]
        case Not(operand):
            return ["not", to_json(operand)]
        case IsNull(operand):
            return ["is_null", to_json(operand)]
        case Call(function, arguments):
            return ["call", function, *(to_json(each) for each in arguments)]
        case _:
            assert_never(node)


def from_json(spelt: list[object]) -> Expression:
    """Read what `to_json` wrote."""
    kind, *rest = spelt
    match kind:
        case "column":
            return Column(cast(str, rest[0]))
        case "literal":
            return Literal(cast(Scalar, rest[0]))
        case "compare":
            return Compare(cast(Comparison, rest[0]), _nested(rest[1]), _nested(rest[2]))
        case "and":
            return Both(_nested(rest[0]), _nested(rest[1]))
        case "or":
            return Either(_nested(rest[0]), _nested(rest[1]))
        case "not":
            return Not(_nested(rest[0]))
        case "is_null":
            return IsNull(_nested(rest[0]))
        case "call":
            return Call(cast(str, rest[0]), tuple(_nested(each) for each in rest[1:]))
        case _:
            message = f"not an expression: {spelt!r}"
            raise AssertionError(message)


def _nested(spelt: object) -> Expression:
    return from_json(cast(list[object], spelt))
