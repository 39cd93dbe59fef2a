"""Settling: every constant gets the type of what it stands beside.

    price > 100                 price is a double, so 100 is one
    ts >= '2024-05-01'          a timestamp
    amount > 12.5               amount is decimal(10,2): decimal(38,2), which is exact
    size > 12.5                 size is an int: decimal(38,1), since 12.5 is no int
    'x' AS tag, 1.5 AS factor   text; and double, for a fraction with nothing beside it

So a constant means the same in a text that is bound alone and as a parameter of a family, whose
values all have one type.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from millrace.errors import MillraceError
from millrace.lang import constants
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.notes import Notes, Typed
from millrace.plan.calls import Functions
from millrace.plan.expressions import (
    Arithmetic,
    Call,
    Case,
    Compare,
    Expression,
    In,
    Literal,
    Scalar,
)
from millrace.plan.fold import fold, rebuilt
from millrace.plan.signatures import IN_UNITS, SIGNATURES
from millrace.plan.types import common_type, kind_of, scale_of
from millrace.plan.typing import Scope, node_type
from millrace.schema import Schema

DATE_FLOOR = -1
"""The floor of a text beside a date, which is a timestamp if it is not a date."""

_Operand = tuple[Expression, pa.DataType | None]  # a constant without a type yet has None
_NEUTRAL = (type(None), bool)
_CHECKED = {
    **dict.fromkeys(IN_UNITS, (0,)),
    "strftime": (1,),
    "regexp_replace": (1, 2, 3),
    "regexp_extract": (1, 2),
}


@dataclass(frozen=True, slots=True)
class Settler:
    """Gives types to the constants of a query, and refuses operands that do not fit."""

    schema: Schema
    functions: Functions
    notes: Notes
    source: str

    def settle(self, node: Expression) -> Expression:
        """Return the expression with every constant as a value of its type."""
        settled, found = fold(node, self._combine)
        return settled if found is not None else self._given([settled], None)[0]

    def _combine(self, node: Expression, operands: list[_Operand]) -> _Operand:
        if isinstance(node, Literal) and not isinstance(node.value, _NEUTRAL):
            return node, None
        nodes = self._typed(node, operands)
        made = self.notes.instead(node, rebuilt(node, nodes))
        types = [
            node_type(new, (), self._scope) if found is None else found
            for new, (_, found) in zip(nodes, operands, strict=True)
        ]
        try:
            return made, node_type(made, types, self._scope)
        except MillraceError as refused:
            refused.node = made if refused.node is None else refused.node
            raise

    @property
    def _scope(self) -> Scope:
        return Scope(self.schema, self.functions)

    def _typed(self, node: Expression, operands: list[_Operand]) -> list[Expression]:
        nodes, types = [each for each, _ in operands], [each for _, each in operands]
        if None not in types:
            return nodes
        self._pin(node, nodes)
        beside = self._beside(node, len(operands))
        known = [_member(types[at]) for at in beside if types[at] is not None]
        context = common_type(known) if known else None
        alone = isinstance(node, In) and types[1:].count(None) == len(types) - 1
        if alone and context is not None and not _texts_and_numbers(nodes[1:]):
            return [nodes[0], *self._given(nodes[1:], context)]
        made = []
        for at, (each, found) in enumerate(operands):
            other = context if at in beside else None
            computed = isinstance(node, Arithmetic)
            given = each if found is not None else self._given([each], other, computed=computed)[0]
            made.append(given)
        return made

    def _pin(self, node: Expression, nodes: Sequence[Expression]) -> None:
        """Keep constants that are looked at when the query is bound, and places in texts."""
        if not isinstance(node, Call) or node.function in self.functions:
            return
        mixed = self._beside(node, len(nodes))
        for at, each in enumerate(nodes):
            place = isinstance(each, Literal) and isinstance(each.value, int) and at not in mixed
            if place or at in _CHECKED.get(node.function, ()):
                self.notes.pin(each)

    def _beside(self, node: Expression, n_operands: int) -> Collection[int]:
        """Return which operands of a node must have one type."""
        if isinstance(node, Compare | In | Arithmetic):
            return range(n_operands)
        if isinstance(node, Case):
            return {*range(1, n_operands - 1, 2), n_operands - 1}
        signature = SIGNATURES.get(node.function) if isinstance(node, Call) else None
        if signature is None or (isinstance(node, Call) and node.function in self.functions):
            return ()
        words = signature.takes
        return {at for at in range(n_operands) if words[min(at, len(words) - 1)] == "any"}

    def _given(
        self, nodes: Sequence[Expression], other: pa.DataType | None, *, computed: bool = False
    ) -> list[Expression]:
        """Convert constants to the type that they have beside another one."""
        literals = [each for each in nodes if isinstance(each, Literal)]
        assert len(literals) == len(nodes), "only a constant is without a type"
        typed = type_beside([each.value for each in literals], other, computed=computed)
        return [self._converted(each, typed) for each in literals]

    def _converted(self, literal: Literal, typed: Typed) -> Literal:
        try:
            value = constants.converter(typed.name)(literal.value)
        except constants.NotOfTypeError as cause:
            span = self.notes.span(literal) or Span(0, 0)
            raise LanguageError(
                f"{quoted(self.source, span)} {cause}",
                source=self.source,
                span=span,
                code="CQL032",
                hint=constants.hint_for(typed.name),
            ) from cause
        made = literal if value is literal.value else Literal(value)
        return self.notes.settle(self.notes.instead(literal, made), typed)


def _member(arrow: pa.DataType) -> pa.DataType:
    """Return the type of what a set holds, or the type itself."""
    return arrow.value_type if pa.types.is_list(arrow) else arrow


def _texts_and_numbers(nodes: Sequence[Expression]) -> bool:
    """Say whether there are constants of both kinds, which no one type has."""
    texts = [isinstance(each.value, str) for each in nodes if isinstance(each, Literal)]
    return any(texts) and not all(texts) and any(map(_is_number, nodes))


def _is_number(node: Expression) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, int | Decimal | float)


def type_beside(
    values: Sequence[Scalar], other: pa.DataType | None, *, computed: bool = False
) -> Typed:
    """Return the one type that constants have beside a type; without one, their natural type.

    `computed` means that they take part in arithmetic and are not compared.
    """
    kind = None if other is None else kind_of(other)
    if all(isinstance(each, str) for each in values):
        return _text_beside(values, kind)
    if not all(isinstance(each, int | Decimal | float) for each in values):
        return Typed(_natural(values))
    exact = not any(isinstance(each, float) for each in values)
    whole = all(isinstance(each, int) for each in values)
    if kind == "floating" or not exact or (kind not in ("integer", "decimal") and not whole):
        return Typed("double")
    if kind != "decimal" and whole:
        return Typed("bigint")
    if computed and whole:
        return Typed("bigint")
    floor = 0 if computed or other is None else scale_of(other)
    return Typed(decimal_name(values, floor), floor)


def _natural(values: Sequence[Scalar]) -> str:
    """Return the type of constants that are not all texts or numbers; texts follow instants."""
    instants = [each for each in values if isinstance(each, date)]
    texts = [each for each in values if isinstance(each, str)]
    if not instants or not texts:
        return constants.NATURAL[type(values[0])]
    exact = any(isinstance(each, datetime) for each in instants)
    return "timestamp" if exact else date_name(texts)


def decimal_name(values: Sequence[Scalar], floor: int) -> str:
    """Return the type that holds exact numbers with all the digits behind their points."""
    scales = [constants.scale_of(each) for each in values if isinstance(each, Decimal)]
    return decimal_of(max([floor, *scales]))


def decimal_of(scale: int) -> str:
    """Return the name of the widest decimal with so many digits behind the point."""
    return f"decimal(38,{min(38, scale)})"


def _text_beside(values: Sequence[Scalar], kind: str | None) -> Typed:
    if kind == "timestamp":
        return Typed("timestamp")
    if kind == "date":
        return Typed(date_name([str(each) for each in values]), DATE_FLOOR)
    return Typed("text")


def date_name(texts: Sequence[str]) -> str:
    """Return the type of texts beside a date: date if they all look like one, else timestamp."""
    return "date" if all(len(each.strip()) == 10 for each in texts) else "timestamp"
