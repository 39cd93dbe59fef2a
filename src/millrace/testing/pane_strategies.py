"""Hypothesis strategies: families whose queries share panes, as plans over the usual streams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from millrace.plan.conditions import both
from millrace.plan.expressions import Column, Compare, Comparison, Expression, Literal, Parameter
from millrace.plan.nodes import Output
from millrace.plan.relations import (
    Aggregate,
    AggregateKind,
    Filter,
    Group,
    Project,
    Relation,
    Source,
    StreamOf,
    Window,
    Windowed,
)
from millrace.testing.family_strategies import SIZE, Family

_ORDERED: tuple[Comparison, ...] = ("<", "<=", ">", ">=")
_TESTED = {
    "k": "int", "v": "int", "x": "double", "name": "text", "d": "decimal(6,2)", "w": "timestamp"
}  # fmt: skip
_KINDS: tuple[tuple[AggregateKind, str | None], ...] = (
    ("count", None), ("count", "x"), ("sum", "v"), ("sum", "x"), ("avg", "x"), ("var_pop", "x"),
    ("stddev_samp", "v"), ("min", "x"), ("max", "name"), ("first", "v"), ("last", "name"),
    ("percentile_cont", "x"), ("percentile_disc", "v"), ("sum", "d"), ("max", "w"),
)  # fmt: skip


@dataclass
class _Parameters:
    """The parameters of a family, as they are drawn."""

    types: list[str] = field(default_factory=list)

    def one(self, kind: str) -> Parameter:
        self.types.append(kind)
        return Parameter(len(self.types) - 1, kind)


def _column(name: str) -> Column:
    return Column(f"s.{name}")


@st.composite
def _aggregates(draw: st.DrawFn) -> tuple[Aggregate, ...]:
    chosen = draw(st.lists(st.sampled_from(_KINDS), min_size=1, max_size=3, unique=True))
    found = []
    for at, (kind, name) in enumerate(chosen):
        operand = None if name is None else _column(name)
        where = Column("s.ok") if draw(st.integers(0, 5)) == 0 else None
        share = draw(st.sampled_from([0.0, 0.5, 0.9])) if kind.startswith("percentile") else None
        by = _column("k") if kind in ("first", "last") else None
        found.append(Aggregate(f"a{at}", kind, operand, where=where, by=by, fraction=share))
    return tuple(found)


@st.composite
def _conditions(draw: st.DrawFn, given: _Parameters) -> Expression | None:
    """Draw what elements are compared with, by which queries differ or not."""
    found: list[Expression] = []
    for _ in range(draw(st.integers(0, 3))):
        name, kind = draw(st.sampled_from(sorted(_TESTED.items())))
        operator = draw(st.sampled_from((*_ORDERED, "=", "=")))
        sides: tuple[Expression, Expression] = _column(name), given.one(kind)
        found.append(Compare(operator, *(sides if draw(st.booleans()) else sides[::-1])))
    if draw(st.integers(0, 3)) == 0:
        found.append(Compare(">=", _column("v"), Literal(0)))
    return both(found)


@st.composite
def paned_families(draw: st.DrawFn) -> tuple[Family, StreamOf]:
    """Draw a family, and a stream of its relation that is told at ticks or where windows slide."""
    given = _Parameters()
    slide = draw(st.sampled_from([None, 1, 2, 3]))
    size = draw(st.sampled_from([0, 1, 3, 4, 6])) if slide is None else draw(st.integers(1, 6))
    window = Window("range", size, slide)
    names = draw(st.lists(st.sampled_from(["k", "name", "ok"]), max_size=2, unique=True))
    condition = draw(_conditions(given))
    if draw(st.booleans()) or not (given.types or names):
        window = replace(window, size=given.one(SIZE))
    if slide is not None and draw(st.booleans()):
        window = replace(window, slide=given.one(SIZE))
    relation: Relation = Windowed(Source("s"), window, "s")
    relation = relation if condition is None else Filter(relation, condition)
    keys = tuple(Output(f"g{at}", _column(name)) for at, name in enumerate(names))
    aggregates = (Aggregate("n", "count"), *draw(_aggregates()))
    relation = Group(relation, keys, aggregates)
    if draw(st.integers(0, 2)) == 0 or not given.types:
        operator = draw(st.sampled_from(_ORDERED))
        relation = Filter(relation, Compare(operator, Column("n"), given.one("int")))
    shown = [*(each.name for each in keys), *(each.name for each in aggregates)]
    kept = draw(st.lists(st.sampled_from(shown), min_size=1, unique=True))
    relation = Project(relation, tuple(Output(each, Column(each)) for each in kept))
    every = draw(st.sampled_from([1, 2, 3, 5]))
    stream = StreamOf("rstream", relation, every)
    if slide is not None and draw(st.booleans()):
        stream = StreamOf(draw(st.sampled_from(["istream", "dstream"])), relation)
    return Family(relation, tuple(given.types)), stream
