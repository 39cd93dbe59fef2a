"""What is asked of combinations of elements, sorted by when and how it can be answered.

filters     of one leaf, the same for all queries: rows that fail it are nobody's
equalities  of two leaves: by these a row finds its partners
checks      of several leaves, the same for all queries: asked of each combination once
ranges      a value of one leaf, or of several, against constants of each query: for many
            queries at once (`lineage`)
residuals   whatever else names parameters: asked of each combination and query that is left
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millrace.operators.codes import has_codes, is_text
from millrace.operators.ranges import Bound
from millrace.operators.relational.join_keys import split
from millrace.plan.bind import type_of
from millrace.plan.conditions import both
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
    walk,
)
from millrace.plan.joining import Joining
from millrace.plan.levels import has_parameter
from millrace.plan.relation_types import relation_schema
from millrace.plan.types import kind_of, shown
from millrace.schema import Schema


@dataclass(frozen=True, slots=True)
class Equality:
    """Values of two leaves that must be equal; if `nulls`, NULL equals NULL."""

    leaves: tuple[int, int]
    values: tuple[Expression, Expression]
    nulls: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A condition, and the leaves whose columns it names."""

    leaves: frozenset[int]
    condition: Expression


@dataclass(frozen=True, slots=True)
class Range:
    """A value of some leaves, and the ends between which each query wants it.

    A `hint` only leaves out what a residual would: where the value is NULL it says nothing.
    `conditions` are what it was made of, for constants that have no code.
    """

    leaves: frozenset[int]
    value: Expression
    type: pa.DataType
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]
    conditions: tuple[Expression, ...]
    hint: bool = False
    difference: tuple[tuple[int, Expression], tuple[int, Expression]] | None = None
    """If it is the difference of whole numbers of two leaves: the leaf and the number of each."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a family's joins."""

    filters: tuple[Expression | None, ...]
    equalities: tuple[Equality, ...]
    checks: tuple[Asked, ...]
    ranges: tuple[Range, ...]
    residuals: tuple[Expression, ...]

    def ranges_of(self, leaf: int) -> list[int]:
        """Return which ranges are of one leaf alone."""
        return [at for at, each in enumerate(self.ranges) if each.leaves == {leaf}]


class Sorting:
    """Sorts the conditions of joins over what is declared."""

    def __init__(self, joining: Joining, declared: Declared) -> None:
        self._functions = declared.functions
        self._schemas = [relation_schema(each.relation, declared) for each in joining.leaves]
        self._all = Schema(tuple(each for schema in self._schemas for each in schema))
        self._conditions = joining.conditions

    def sorted(self) -> Conditions:
        """Return the conditions by how they are answered."""
        filters: list[list[Expression]] = [[] for _ in self._schemas]
        equalities, checks, ranges = list[Equality](), list[Asked](), list[Range]()
        residuals = list[Expression]()
        for each in self._conditions:
            leaves = self._leaves(each)
            if has_parameter(each):
                found = self._range(each) if leaves else None
                ranges += [] if found is None else [found]
                residuals += [each] if found is None or found.hint else []
            elif len(leaves) == 1:
                filters[min(leaves)].append(each)
            elif (equality := self._equality(each, leaves)) is not None:
                equalities.append(equality)
            else:
                checks.append(Asked(leaves or frozenset({0, 1}), each))
        return Conditions(
            tuple(map(both, filters)),
            tuple(equalities),
            tuple(checks),
            tuple(_merged(ranges)),
            tuple(residuals),
        )

    def _leaves(self, node: Expression) -> frozenset[int]:
        names = {each.name for each in walk(node) if isinstance(each, Column)}
        return frozenset(
            at for at, schema in enumerate(self._schemas) if any(each in schema for each in names)
        )

    def _equality(self, node: Expression, leaves: frozenset[int]) -> Equality | None:
        if len(leaves) != 2:
            return None
        one, other = sorted(leaves)
        keys, _ = split(node, self._schemas[one], self._schemas[other], self._functions)
        if not keys:
            return None
        return Equality((one, other), (keys[0].left, keys[0].right), keys[0].nulls)

    # ---- ranges ----------------------------------------------------------------------------------

    def _range(self, node: Expression) -> Range | None:
        if not isinstance(node, Compare) or node.operator == "<>":
            return None
        for value, bound, operator in (
            (node.left, node.right, node.operator),
            (node.right, node.left, MIRRORED[node.operator]),
        ):
            if _of_rows(value) and _of_query(bound):
                return self._ranged(value, operator, bound, (node,))
        return self._moved(node)

    def _ranged(
        self,
        value: Expression,
        operator: Comparison,
        bound: Expression,
        conditions: tuple[Expression, ...],
    ) -> Range | None:
        kind = type_of(value, self._all, self._functions)
        texts = is_text(kind), is_text(type_of(bound, self._all, self._functions))
        if not has_codes(kind) or (texts[0] != texts[1] and texts[0]):
            return None
        ends = (Bound(bound, operator in ("<", ">")),)
        lows = ends if operator in (">", ">=", "=") else ()
        highs = ends if operator in ("<", "<=", "=") else ()
        parts = self._difference(value) if pa.types.is_integer(kind) else None
        return Range(self._leaves(value), value, kind, lows, highs, conditions, difference=parts)

    def _difference(
        self, value: Expression
    ) -> tuple[tuple[int, Expression], tuple[int, Expression]] | None:
        if not isinstance(value, Arithmetic) or value.operator != "-":
            return None
        left, right = self._leaves(value.left), self._leaves(value.right)
        if len(left) != 1 or len(right) != 1 or left == right:
            return None
        return (min(left), value.left), (min(right), value.right)

    def _moved(self, node: Compare) -> Range | None:
        """See `s.b >= r.b + :low` as `s.b - r.b >= :low` where all of them are whole numbers."""
        for value, moved, operator in (
            (node.left, node.right, node.operator),
            (node.right, node.left, MIRRORED[node.operator]),
        ):
            if not _of_rows(value) or not isinstance(moved, Arithmetic):
                continue
            for base, bound in ((moved.left, moved.right), (moved.right, moved.left)):
                subtracted = moved.operator == "-" and bound is moved.right
                if moved.operator != "+" and not subtracted:
                    continue
                if _of_rows(base) and _of_query(bound) and self._whole(value, base, bound):
                    return self._differing(value, base, bound, operator, subtracted=subtracted)
        return None

    def _whole(self, *nodes: Expression) -> bool:
        types = [type_of(each, self._all, self._functions) for each in nodes]
        return {kind_of(each) for each in types} == {"integer"}

    def _differing(
        self,
        value: Expression,
        base: Expression,
        bound: Expression,
        operator: Comparison,
        *,
        subtracted: bool,
    ) -> Range | None:
        whole = shown(pa.int64())
        difference = Arithmetic("-", Cast(value, whole), Cast(base, whole))
        if subtracted:  # s.b >= r.b - :low  is  r.b - s.b <= :low
            difference = Arithmetic("-", Cast(base, whole), Cast(value, whole))
            operator = MIRRORED[operator]
        found = self._ranged(difference, operator, bound, ())
        return None if found is None else replace(found, hint=True)


def _merged(ranges: Sequence[Range]) -> Iterator[Range]:
    """Put the ends of one value together."""
    found: dict[tuple[Expression, pa.DataType, bool], Range] = {}
    for each in ranges:
        place = each.value, each.type, each.hint
        if place in found:
            known = found[place]
            found[place] = replace(
                known,
                lows=(*known.lows, *each.lows),
                highs=(*known.highs, *each.highs),
                conditions=(*known.conditions, *each.conditions),
            )
        else:
            found[place] = each
    yield from found.values()


def _of_rows(node: Expression) -> bool:
    """Say whether a value is of columns, and of no parameter."""
    return any(isinstance(each, Column) for each in walk(node)) and not has_parameter(node)


def _of_query(node: Expression) -> bool:
    """Say whether a value is of parameters alone, and calls nothing."""
    return not any(isinstance(each, Column | Call | Case | Cast) for each in walk(node))
