"""Hypothesis strategies: families of plans, and queries that come and go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from hypothesis import strategies as st

from millrace.plan.expressions import Expression, Literal, Parameter, walk
from millrace.plan.fold import fold, rebuilt
from millrace.plan.mapping import mapped
from millrace.plan.relations import Asked, Relation, StreamOf, Window, Windowed
from millrace.plan.scopes import inputs, own_expressions
from millrace.testing.oracle.families import Member
from millrace.testing.small_expressions import INSTANTS

SIZE = "bigint"
"""The type of a window's size, and of its slide."""
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.sampled_from([0, 1, 2, -1]),
    "double": st.sampled_from([0.0, 0.5, 2.25, -1.5]),
    "text": st.sampled_from(["a", "", "ab", "é"]),
    "decimal(6,2)": st.sampled_from([*map(Decimal, ("0", "0.5", "2.25", "-1.5"))]),
    "timestamp": st.sampled_from(INSTANTS),
    SIZE: st.sampled_from([3, 2, 5]),
}
_KINDS = (
    (bool, "boolean"), (int, "int"), (float, "double"), (str, "text"), (Decimal, "decimal(6,2)"),
    (datetime, "timestamp"),
)  # fmt: skip

Place: TypeAlias = tuple[str, int]
"""What may become a parameter: the kind, and which constant it is, in the order of the plan."""


@dataclass(frozen=True)
class Family:
    """A plan with parameters of some types."""

    plan: Relation
    types: tuple[str, ...]


def constants(node: Relation) -> Iterator[str]:
    """Yield the type of each constant of a plan that may be a parameter, in order."""
    for value in own_expressions(node):
        yield from (kind for each in walk(value) if (kind := _kind(each)) is not None)
    if isinstance(node, Windowed):
        yield from (SIZE for _ in _lengths(node.window))
        if isinstance(node.stream, StreamOf):
            yield from constants(node.stream.relation)
    for each in inputs(node):
        yield from constants(each)
    if isinstance(node, Asked):
        yield from constants(node.subquery)


def _lengths(window: Window) -> Iterator[str]:
    """Yield which lengths of a window may be parameters."""
    if isinstance(window.size, int) and window.size > 0 and window.lag == 0:
        yield "size"
    if isinstance(window.slide, int):
        yield "slide"


def _with_length(window: Window, which: str, length: int | Parameter) -> Window:
    return replace(window, size=length) if which == "size" else replace(window, slide=length)


def _kind(node: Expression) -> str | None:
    if not isinstance(node, Literal) or node.value is None:
        return None
    return next(name for python, name in _KINDS if isinstance(node.value, python))


@dataclass
class _Lifting:
    """Makes parameters of some constants of a plan, which are counted as `constants` does."""

    chosen: Sequence[int]
    count: int = 0

    def relation(self, node: Relation) -> Relation:
        values = [self._value(each) for each in own_expressions(node)]
        if isinstance(node, Windowed):
            return self._windowed(node)
        after = iter(values)
        found = mapped(node, self.relation, lambda _: next(after))
        if isinstance(found, Asked):
            return replace(found, subquery=self.relation(found.subquery))
        return found

    def _windowed(self, node: Windowed) -> Windowed:
        window, stream = node.window, node.stream
        for each in _lengths(window):
            number = self._number()
            if number is not None:
                window = _with_length(window, each, Parameter(number, SIZE))
        if isinstance(stream, StreamOf):
            stream = replace(stream, relation=self.relation(stream.relation))
        return Windowed(stream, window, node.alias)

    def _value(self, node: Expression) -> Expression:
        places = {id(each): self._number() for each in walk(node) if _kind(each) is not None}

        def lift(each: Expression, operands: list[Expression]) -> Expression:
            number, kind = places.get(id(each)), _kind(each)
            if number is not None and kind is not None:
                return Parameter(number, kind)
            return rebuilt(each, operands)

        return fold(node, lift)

    def _number(self) -> int | None:
        self.count += 1
        return self.chosen.index(self.count - 1) if self.count - 1 in self.chosen else None


def with_constants(node: Relation, values: Sequence[Any]) -> Relation:
    """Write constants where a plan has parameters."""

    def constant(each: Expression, operands: list[Expression]) -> Expression:
        if isinstance(each, Parameter):
            return Literal(values[each.number])
        return rebuilt(each, operands)

    def again(below: Relation) -> Relation:
        return with_constants(below, values)

    if isinstance(node, Windowed):
        window, stream = node.window, node.stream
        for each in ("size", "slide"):
            length = getattr(window, each)
            if isinstance(length, Parameter):
                window = _with_length(window, each, values[length.number])
        if isinstance(stream, StreamOf):
            stream = replace(stream, relation=again(stream.relation))
        return Windowed(stream, window, node.alias)
    found = mapped(node, again, lambda value: fold(value, constant))
    return replace(found, subquery=again(found.subquery)) if isinstance(found, Asked) else found


@st.composite
def families(draw: st.DrawFn, plans: st.SearchStrategy[Relation]) -> Family:
    """Draw a plan with one or two parameters where it had constants, if it had any."""
    plan = draw(plans.filter(lambda each: any(constants(each))))
    kinds = list(constants(plan))
    places = st.integers(0, len(kinds) - 1)
    chosen = draw(st.lists(places, min_size=1, max_size=2, unique=True))
    types = tuple(kinds[each] for each in chosen)
    return Family(_Lifting(chosen).relation(plan), types)


def members(
    types: Sequence[str], births: Sequence[int], end: int, *, most: int = 4
) -> st.SearchStrategy[list[Member]]:
    """Draw a few queries that are born at some of these instants, and end at some or never."""
    values = st.tuples(*(_VALUES[each] for each in types))
    life = st.tuples(st.sampled_from(births), st.sampled_from([*births, end, end, end]))
    lives = life.filter(lambda each: each[0] < each[1])
    drawn = st.lists(st.tuples(values, lives), min_size=1, max_size=most)
    return drawn.map(
        lambda some: [
            Member(at + 1, given, birth, stop) for at, (given, (birth, stop)) in enumerate(some)
        ]
    )
