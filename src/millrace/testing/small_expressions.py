"""Hypothesis strategies: small expressions over named columns, for what plans compute and test.

They mean the same in every database: no division, no overflow, nothing that is rounded. For
expressions with all their edges see `testing.expression_strategies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias
from typing import Literal as OneOf

from hypothesis import strategies as st

from millrace.plan.expressions import (
    COMPARISONS,
    Arithmetic,
    Both,
    Case,
    Column,
    Compare,
    Comparison,
    Either,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
)

SmallKind: TypeAlias = OneOf[
    "integer", "double", "decimal", "text", "boolean", "timestamp", "rounded", "list"
]
EXACT: tuple[SmallKind, ...] = ("integer", "text", "double", "boolean", "decimal", "timestamp")
"""The kinds that may be compared; the others are only passed on."""
NUMERIC: tuple[SmallKind, ...] = ("integer", "double", "decimal")
INSTANTS = tuple(datetime(1970, 1, day, 0, 0, 0, micros, UTC) for day, micros in
                 ((1, 0), (1, 3), (2, 0), (1, 1)))  # fmt: skip

_CONSTANTS: dict[SmallKind, tuple[Any, ...]] = {
    "integer": (0, 1, 2, -1),
    "double": (0.0, 0.5, 2.25, -1.5),
    "text": ("a", "", "ab", "é"),
    "boolean": (True, False),
    "decimal": (Decimal("0.00"), Decimal("0.5"), Decimal("2.25"), Decimal("-1.50")),
    "timestamp": INSTANTS,
}
_OTHERWISE = {"text": "b", "timestamp": INSTANTS[1]}


class Named(NamedTuple):
    """A column and its kind."""

    name: str
    kind: SmallKind


@dataclass(frozen=True)
class Small:
    """Draws choices and small expressions."""

    draw: st.DrawFn

    def one(self, options: Sequence[Any]) -> Any:  # noqa: ANN401
        """Draw one of some options, the first being the simplest."""
        return self.draw(st.sampled_from(options))

    def some(self, options: Sequence[Any], *, least: int) -> list[Any]:
        """Draw some different options, three at most."""
        n_most = min(3, len(options))
        return self.draw(
            st.lists(
                st.sampled_from(options), min_size=min(least, n_most), max_size=n_most, unique=True
            )
        )

    def rarely(self) -> bool:
        """Draw true once in four times."""
        return bool(self.one([False, False, False, True]))

    def two_booleans(self) -> tuple[bool, bool]:
        """Draw two booleans."""
        return self.one([False, True]), self.one([False, True])

    def value(self, kind: SmallKind, known: Sequence[Named]) -> Expression:
        """Draw an expression of a kind."""
        columns = [each.name for each in known if each.kind == kind]
        leaf: Expression = Literal(self.one(_CONSTANTS[kind]))
        if columns and not self.rarely():
            leaf = Column(self.one(columns))
        if not self.rarely():
            return leaf
        if kind in NUMERIC:
            return Arithmetic(self.one("+-"), leaf, Literal(self.one(_CONSTANTS[kind])))
        if kind == "boolean":
            return self.condition(known)
        otherwise = Literal(self.one([None, _OTHERWISE[kind]]))
        return Case(((self.condition(known), leaf),), otherwise)

    def condition(self, known: Sequence[Named], depth: int = 2) -> Expression:
        """Draw a condition."""
        made = self.one(
            ["compare", "present", "in", "null"] + ["or", "or", "not", "and"] * (depth > 0)
        )
        match made:
            case "not":
                return Not(self.condition(known, depth - 1))
            case "and":
                return Both(self.condition(known, depth - 1), self.condition(known, depth - 1))
            case "or":
                return Either(self.condition(known, depth - 1), self.condition(known, depth - 1))
            case _:
                return self._test(made, known)

    def _test(self, made: str, known: Sequence[Named]) -> Expression:
        column = self.one(known)
        left = Column(column.name)
        if made in ("null", "present"):
            return IsNull(left) if made == "null" else Not(IsNull(left))
        if made == "in":
            options = self.some([*_CONSTANTS[column.kind], None], least=2)
            return In(left, tuple(map(Literal, options)))
        others = [Column(each.name) for each in known if each.kind == column.kind]
        constants = [Literal(each) for each in _CONSTANTS[column.kind]]
        return Compare(self.one(COMPARISONS), left, self.one([*constants, *others]))

    def joining(
        self, pairs: Sequence[tuple[Named, Named]], known: Sequence[Named]
    ) -> Expression | None:
        """Draw a condition of a join: of columns of both sides, of anything, or none."""
        made = self.one(["equal", "equal", "more", "order", "any", "none"])
        if made == "none" or (made != "any" and not pairs):
            return None
        if made == "any":
            return self.condition(known)
        left, right = self.one(pairs)
        operator: Comparison = self.one(["<", ">=", "<>"]) if made == "order" else "="
        condition: Expression = Compare(operator, Column(left.name), Column(right.name))
        return Both(condition, self.condition(known, 0)) if made == "more" else condition

    def maybe_not(self, condition: Expression) -> Expression:
        """Draw a condition or its opposite."""
        return self.one([condition, Not(condition)])  # type: ignore[no-any-return]
