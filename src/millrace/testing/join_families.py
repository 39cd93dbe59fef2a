"""Hypothesis strategies: families of joins of windows, of two to four streams.

Leaves are joined as a chain, a star or a clique, by one key or by two, or by no key at all; sizes
of windows and conditions of one leaf or of several have parameters, and some call a function. What
is told may be few columns, so that equal rows come and go, also at one instant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from millrace.plan.conditions import both
from millrace.plan.expressions import (
    Arithmetic,
    Call,
    Column,
    Compare,
    Comparison,
    Either,
    Expression,
    Literal,
    Parameter,
)
from millrace.plan.nodes import Output
from millrace.plan.relations import Filter, Join, Project, Relation, Source, Window, Windowed
from millrace.testing.family_strategies import SIZE, Family

NEAR = "near"
"""The function that some conditions call."""
FUNCTION_TYPES = {NEAR: pa.bool_()}
_SIZES = (3, 0, 2, 5)
_COLUMNS = ("k", "v", "name")


def near(one: pa.Array, other: pa.Array, most: pa.Array) -> pa.Array:
    """Say which numbers are not more than so much apart."""
    apart = pc.subtract(*(pc.cast(each, pa.int64()) for each in (one, other)))
    return pc.less_equal(pc.abs(apart), pc.cast(most, pa.int64()))


def near_one(one: int | None, other: int | None, most: int | None) -> bool | None:
    """Say the same of two numbers, as the definition of what is true."""
    if one is None or other is None or most is None:
        return None
    return abs(one - other) <= most


class _Parameters:
    """Numbers parameters as they are drawn."""

    def __init__(self) -> None:
        self.types: list[str] = []

    def new(self, kind: str) -> Parameter:
        self.types.append(kind)
        return Parameter(len(self.types) - 1, kind)


@st.composite
def join_families(
    draw: st.DrawFn, *, most: int = 4, stamped: bool = False, calls: bool = True
) -> Family:
    """Draw a family of joins of at most so many leaves; `stamped` ones may tell times of all.

    With `calls` some conditions call a function.
    """
    parameters = _Parameters()
    aliases = [f"a{at}" for at in range(draw(st.integers(2, most)))]
    leaves = [_leaf(draw, each, parameters) for each in aliases]
    relation = leaves[0]
    for leaf in leaves[1:]:
        relation = Join("inner", relation, leaf)
    conditions = _equalities(draw, aliases)
    conditioned = st.sampled_from(_CONDITIONS + (_CALLS if calls else ()))
    for make in draw(st.lists(conditioned, min_size=1, max_size=3)):
        one, other = draw(st.permutations(aliases))[:2]
        conditions.append(make(one, other, parameters))
    joined = Filter(relation, _all_of(conditions))
    if not parameters.types:
        joined = Filter(joined, _at_least(aliases[0], aliases[1], parameters))
    outputs = _outputs(draw, aliases, parameters, stamped=stamped)
    return Family(Project(joined, outputs), tuple(parameters.types))


def _leaf(draw: st.DrawFn, alias: str, parameters: _Parameters) -> Relation:
    stream = draw(st.sampled_from(["s", "t"]))
    size: Any = draw(st.sampled_from(_SIZES))
    if draw(st.sampled_from([False, False, True])):
        size = parameters.new(SIZE)
    return Windowed(Source(stream), Window("range", size), alias)


def _equalities(draw: st.DrawFn, aliases: Sequence[str]) -> list[Expression]:
    shape = draw(st.sampled_from(["chain", "star", "clique", "none"]))
    pairs = {
        "chain": list(pairwise(aliases)),
        "star": [(aliases[0], each) for each in aliases[1:]],
        "clique": list(combinations(aliases, 2)),
        "none": [],
    }[shape]
    keys = draw(st.sampled_from([("k",), ("k",), ("k", "v"), ("name",)]))
    return [_compared("=", one, other, key) for one, other in pairs for key in keys]


def _outputs(
    draw: st.DrawFn, aliases: Sequence[str], parameters: _Parameters, *, stamped: bool
) -> tuple[Output, ...]:
    names = [f"{alias}.{column}" for alias in aliases for column in _COLUMNS]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    if stamped and draw(st.booleans()):
        chosen += [f"{alias}.ts" for alias in aliases]
    outputs = [Output(f"o{at}", Column(each)) for at, each in enumerate(chosen)]
    if draw(st.sampled_from([False, False, False, True])):
        value = Arithmetic("+", Column(f"{aliases[0]}.v"), parameters.new("int"))
        outputs.append(Output("sum", value))
    return tuple(outputs)


# ---- conditions ----------------------------------------------------------------------------------


def _at_least(one: str, _: str, parameters: _Parameters) -> Expression:
    return Compare(">=", Column(f"{one}.v"), parameters.new("int"))


def _below(one: str, _: str, parameters: _Parameters) -> Expression:
    return Compare("<", Column(f"{one}.k"), parameters.new("double"))


def _named(one: str, _: str, parameters: _Parameters) -> Expression:
    return Compare("=", parameters.new("text"), Column(f"{one}.name"))


def _after(one: str, _: str, parameters: _Parameters) -> Expression:
    return Compare(">", Column(f"{one}.name"), parameters.new("text"))


def _between(one: str, _: str, parameters: _Parameters) -> Expression:
    value = Arithmetic("*", Column(f"{one}.v"), Literal(2))
    low, high = parameters.new("int"), parameters.new("int")
    return _all_of([Compare(">=", value, low), Compare("<=", value, high)])


def _band(one: str, other: str, parameters: _Parameters) -> Expression:
    value = Arithmetic("-", Column(f"{one}.v"), Column(f"{other}.v"))
    low, high = parameters.new("int"), parameters.new("int")
    return _all_of([Compare(">=", value, low), Compare("<=", value, high)])


def _moved(one: str, other: str, parameters: _Parameters) -> Expression:
    value, base = Column(f"{one}.v"), Column(f"{other}.v")
    low, high = parameters.new("int"), parameters.new("bigint")
    return _all_of(
        [
            Compare(">=", value, Arithmetic("-", base, low)),
            Compare("<=", value, Arithmetic("+", base, high)),
        ]
    )


def _residual(one: str, other: str, parameters: _Parameters) -> Expression:
    scaled = Arithmetic("*", Column(f"{one}.v"), parameters.new("int"))
    return Compare(">", scaled, Column(f"{other}.k"))


def _either(one: str, other: str, parameters: _Parameters) -> Expression:
    return Either(_at_least(one, other, parameters), _named(other, one, parameters))


def _ordered(one: str, other: str, _: _Parameters) -> Expression:
    return _compared("<=", one, other, "v")


def _constant(one: str, _: str, __: _Parameters) -> Expression:
    return Compare("<>", Column(f"{one}.v"), Literal(2))


def _near(one: str, other: str, parameters: _Parameters) -> Expression:
    values = Column(f"{one}.v"), Column(f"{other}.v")
    return Call(NEAR, (*values, parameters.new("int")))


def _near_itself(one: str, _: str, parameters: _Parameters) -> Expression:
    values = Column(f"{one}.v"), Column(f"{one}.k")
    return Compare("=", Call(NEAR, (*values, parameters.new("int"))), Literal(value=True))


def _near_for_all(one: str, _: str, __: _Parameters) -> Expression:
    return Call(NEAR, (Column(f"{one}.v"), Column(f"{one}.k"), Literal(1)))


Condition = Callable[[str, str, _Parameters], Expression]
_CONDITIONS: tuple[Condition, ...] = (
    _at_least, _below, _named, _after, _between, _band, _moved, _residual, _either, _ordered,
    _constant,
)  # fmt: skip
_CALLS: tuple[Condition, ...] = (_near, _near_itself, _near_for_all)


def _compared(operator: Comparison, one: str, other: str, column: str) -> Expression:
    return Compare(operator, Column(f"{one}.{column}"), Column(f"{other}.{column}"))


def _all_of(conditions: Sequence[Expression]) -> Expression:
    found = both(conditions)
    assert found is not None, "there is a condition"
    return found
