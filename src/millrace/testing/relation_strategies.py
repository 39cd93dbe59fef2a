"""Hypothesis strategies: plans of relations over declared streams and tables, and data for them.

A plan is drawn from the top, node by node, each with the columns that it has and their kinds, so
that it is always well typed and nothing is thrown away. The first choice is the simplest, to which
Hypothesis shrinks. What multiplies rows (joins, subqueries) is drawn a few times in a plan at most.

Two kinds of columns are only passed on: doubles that were rounded ("rounded"), because engines
round differently and comparing would make more of it, and lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias
from typing import Literal as OneOf

from hypothesis import strategies as st

from millrace.plan.aggregate_types import BY_ORDER, LISTS, PAIRED
from millrace.plan.expressions import COMPARISONS, Column, Comparison
from millrace.plan.nodes import Output
from millrace.plan.relations import (
    Aggregate,
    AggregateKind,
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Join,
    Order,
    Project,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Top,
    Window,
    Windowed,
)
from millrace.schema import Schema
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds
from millrace.testing.small_expressions import EXACT, NUMERIC, Named, Small, SmallKind

__all__ = ["DECLARED", "LAST", "Root", "Worlds", "plans", "worlds"]

_WINDOWS = (
    Window("range"), Window("range", 0), Window("range", 3), Window("rows", 2),
    Window("rows", 3, 2), Window("range", 4, 2), Window("range", 2, 3), Window("range", since=3),
    Window("range", since=2, until=6), Window("range", until=5), Window("range", 5, lag=2),
    Window("range", lag=3), Window("range", slide=3, since=2), Window("rows", slide=3),
    Window("range", 5, 2, lag=1),
)  # fmt: skip
_KINDS: dict[str, SmallKind] = {
    "int32": "integer", "double": "double", "string": "text", "bool": "boolean",
    "decimal128(6, 2)": "decimal", "timestamp[us, tz=UTC]": "timestamp",
}  # fmt: skip
_NARROW = (Window("range", 3), Window("rows", 3), Window("range", 0), Window("range", 2, 2))
_OF_NUMBERS: tuple[AggregateKind, ...] = (
    "sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "percentile_cont",
    "covar_pop", "covar_samp", "corr",
)  # fmt: skip
_OF_ANY: tuple[AggregateKind, ...] = (
    "count", "min", "max", "first", "last", "percentile_disc", "mode", "array_agg"
)  # fmt: skip
_OF_INTEGERS: tuple[AggregateKind, ...] = ("bit_and", "bit_or", "bit_xor")


Root: TypeAlias = OneOf[
    "derived", "filter", "project", "join", "group", "distinct", "combined", "asked", "top"
]
"""What may stand on top of a plan."""


class Drawn(NamedTuple):
    """A relation and its columns."""

    relation: Relation
    columns: tuple[Named, ...]

    @property
    def exact(self) -> list[Named]:
        """The columns that may be compared; there always is one."""
        return [each for each in self.columns if each.kind in EXACT]


@dataclass
class _Plans:
    """Draws the nodes of one plan; `outer` are the columns of the rows around a subquery."""

    small: Small
    outer: tuple[Named, ...] = ()
    n_names: list[int] = field(default_factory=lambda: [0])
    n_multiplied: list[int] = field(default_factory=lambda: [0])

    def name(self, prefix: str) -> str:
        self.n_names[0] += 1
        return f"{prefix}{self.n_names[0]}"

    def known(self, columns: Sequence[Named]) -> list[Named]:
        """Return what an expression may name, nearer columns twice as often."""
        return [*columns, *columns, *self.outer]

    def relation(self, depth: int) -> Drawn:
        if depth == 0:
            return self.leaf()
        options: list[Callable[[int], Drawn]] = [
            lambda _: self.leaf(), self.filter, self.project, self.group, self.distinct, self.top,
            self.derived,
        ]  # fmt: skip
        if self.n_multiplied[0] < 3:
            options += [self.join, self.join, self.combined, self.asked, self.asked]
        return self.small.one(options)(depth - 1)  # type: ignore[no-any-return]

    def leaf(self) -> Drawn:
        alias = self.name("a")
        name = self.small.one([*DECLARED.streams, *DECLARED.tables])
        if name in DECLARED.tables:
            return Drawn(Table(name, alias), _columns(DECLARED.tables[name], alias))
        columns = _columns(DECLARED.streams[name], alias)
        parted = (Window("rows", 1, by=("k",)), Window("rows", 2, 2, by=("name", "k")),
                  Window("rows", None, 2, by=("k",)))  # fmt: skip
        window = self.small.one([*_WINDOWS, *parted, Window("range", 6), Window("rows", 5)])
        return Drawn(Windowed(Source(name), window, alias), columns)

    def derived(self, depth: int) -> Drawn:
        """Draw a window over a stream that a relation tells; it sees nothing around it."""
        told = replace(self, outer=()).relation(min(depth, 2))
        kind = self.small.one(["istream", "dstream", "rstream"])
        every = self.small.one([3, 2, None]) if kind == "rstream" else None
        stream: Stream = StreamOf(kind, told.relation, every)
        by = self.small.one(told.exact).name
        window = self.small.one([*_NARROW, Window("rows", 1, by=(by,)), Window("range", 6, lag=1)])
        alias = self.name("d")
        columns = [Named(f"{alias}.{each.name}", each.kind) for each in told.columns]
        return Drawn(Windowed(stream, window, alias), tuple(columns))

    def filter(self, depth: int) -> Drawn:
        given = self.relation(depth)
        condition = self.small.condition(self.known(given.exact))
        return Drawn(Filter(given.relation, condition), given.columns)

    def project(self, depth: int) -> Drawn:
        given = self.relation(depth)
        passed = self.small.some(given.columns, least=1)
        kinds = self.small.some(EXACT, least=0)[:2]
        if not any(each.kind in EXACT for each in passed) and not kinds:
            kinds = ["integer"]
        known = self.known(given.exact)
        outputs = [Output(self.name("p"), Column(each.name)) for each in passed]
        outputs += [Output(self.name("p"), self.small.value(kind, known)) for kind in kinds]
        columns = zip(outputs, [*(each.kind for each in passed), *kinds], strict=True)
        return Drawn(
            Project(given.relation, tuple(outputs)),
            tuple(Named(output.name, kind) for output, kind in columns),
        )

    def only(self, given: Drawn, kinds: Sequence[SmallKind]) -> Drawn:
        """Project to columns of these kinds: some that are there, or computed ones."""
        known = self.known(given.exact)
        outputs = [Output(self.name("o"), self.small.value(kind, known)) for kind in kinds]
        columns = tuple(
            Named(output.name, kind) for output, kind in zip(outputs, kinds, strict=True)
        )
        return Drawn(Project(given.relation, tuple(outputs)), columns)

    def comparable(self, given: Drawn) -> Drawn:
        """Leave off the columns that cannot be compared."""
        if len(given.exact) == len(given.columns):
            return given
        outputs = [Output(self.name("e"), Column(each.name)) for each in given.exact]
        columns = zip(outputs, given.exact, strict=True)
        return Drawn(
            Project(given.relation, tuple(outputs)),
            tuple(Named(output.name, each.kind) for output, each in columns),
        )

    def join(self, depth: int) -> Drawn:
        self.n_multiplied[0] += 1
        left, right = self.relation(depth), self.relation(depth)
        kind = self.small.one(["inner", "left", "right", "full"])
        pairs = [
            (one, other)
            for one in left.exact
            for other in right.exact
            if one.kind == other.kind or {one.kind, other.kind} <= set(NUMERIC)
        ]
        columns = (*left.columns, *right.columns)
        condition = self.small.joining(pairs, self.known([*left.exact, *right.exact]))
        return Drawn(Join(kind, left.relation, right.relation, condition), columns)

    def group(self, depth: int) -> Drawn:
        given = self.relation(depth)
        keys = self.small.some(given.exact, least=0)[:2]
        outputs = tuple(Output(self.name("g"), Column(each.name)) for each in keys)
        n_rows = Aggregate(self.name("n"), "count", None, where=self.where(given))
        found = [
            (n_rows, "integer"),
            *(self.aggregate(given) for _ in self.small.one(["x", "xx", "xxx", ""])),
        ]
        columns = [
            *(Named(output.name, key.kind) for output, key in zip(outputs, keys, strict=True)),
            *(Named(aggregate.name, kind) for aggregate, kind in found),
        ]
        aggregates = tuple(aggregate for aggregate, _ in found)
        return Drawn(Group(given.relation, outputs, aggregates), tuple(columns))

    def where(self, given: Drawn) -> Any:  # noqa: ANN401
        return self.small.condition(self.known(given.exact)) if self.small.rarely() else None

    def aggregate(self, given: Drawn) -> tuple[Aggregate, SmallKind]:
        operand = self.small.one(self.known(given.exact))
        kind = self.small.one(_aggregates_of(operand.kind))
        distinct = self.small.one([False, True]) and kind not in (*PAIRED, "mode")
        by = self._by(kind, given, operand, distinct=distinct)
        ordered = kind in LISTS and by is not None
        drawn = Aggregate(
            self.name("n"),
            kind,
            Column(operand.name),
            distinct=distinct,
            where=self.where(given),
            by=by,
            fraction=self.small.one([0.5, 0.1, 0.75, 0.0, 1.0])
            if kind.startswith("percentile")
            else None,
            descending=(kind == "percentile_disc" or ordered) and self.small.one([False, True]),
            nulls_first=ordered and self.small.one([False, True]),
            separator="-" if kind == "string_agg" else None,
        )
        return drawn, _aggregate_kind(kind, operand.kind)

    def _by(
        self, kind: AggregateKind, given: Drawn, operand: Named, *, distinct: bool
    ) -> Column | None:
        """Draw what an aggregate is by, or the other number of a pair."""
        known = given.exact
        if kind in PAIRED:
            known = [each for each in known if each.kind in NUMERIC] or [operand]
        elif kind not in (*BY_ORDER, *LISTS) or (kind in LISTS and self.small.one([True, False])):
            return None
        elif distinct and kind in LISTS:
            known = [operand]
        return Column(self.small.one(known).name)

    def distinct(self, depth: int) -> Drawn:
        given = self.comparable(self.relation(depth))
        return Drawn(Distinct(given.relation), given.columns)

    def combined(self, depth: int) -> Drawn:
        self.n_multiplied[0] += 1
        kinds = self.small.some(EXACT, least=1)[:2]
        left = self.only(self.relation(depth), kinds)
        right = self.only(self.relation(depth), kinds)
        kind = self.small.one(["union", "except", "intersect"])
        keep_all = self.small.one([True, False])
        return Drawn(Combined(kind, left.relation, right.relation, keep_all), left.columns)

    def top(self, depth: int) -> Drawn:
        given = self.comparable(self.relation(depth))
        order = tuple(
            Order(self.small.value(each.kind, [each]), *self.small.two_booleans())
            for each in self.small.some(given.exact, least=0)[:2]
        )
        limit, offset = self.small.one([1, 2, 3, 5, 0]), self.small.one([0, 0, 0, 1])
        return Drawn(Top(given.relation, order, limit, offset), given.columns)

    def asked(self, depth: int) -> Drawn:
        self.n_multiplied[0] += 1
        given = self.relation(depth)
        name = self.name("b")
        within = replace(self, outer=(*given.exact, *self.outer))
        kind = self.small.one(["exists", "in", "scalar"])
        asked, found = {"exists": within.exists, "in": within.contains, "scalar": within.scalar}[
            kind
        ](given, name, min(depth, 2))
        drawn = Drawn(asked, (*given.columns, Named(name, found)))
        if found == "boolean" and self.small.one([True, False]):
            condition = self.small.maybe_not(Column(name))
            return Drawn(Filter(asked, condition), drawn.columns)
        return drawn

    def exists(self, given: Drawn, name: str, depth: int) -> tuple[Relation, SmallKind]:
        subquery = self.filter(depth)
        return Asked(given.relation, name, "exists", subquery.relation), "boolean"

    def contains(self, given: Drawn, name: str, depth: int) -> tuple[Relation, SmallKind]:
        compared = self.small.some(given.exact, least=1)[:2]
        answers = self.only(self.relation(depth), [each.kind for each in compared])
        operands = tuple(Column(each.name) for each in compared)
        operators: list[Comparison] = ["=", *(COMPARISONS if len(operands) == 1 else ())]
        operator = self.small.one(operators)
        found = Asked(given.relation, name, "in", answers.relation, operands, operator)
        return found, "boolean"

    def scalar(self, given: Drawn, name: str, depth: int) -> tuple[Relation, SmallKind]:
        """Draw a subquery of one row at most: one aggregate of all, or the first."""
        answers = self.small.one([self.filter, self.relation])(depth)
        if self.small.one([True, False]):
            aggregate, kind = self.aggregate(answers)
            one: Relation = Group(answers.relation, (), (aggregate,))
            return Asked(given.relation, name, "scalar", one), kind
        kind = self.small.one(answers.exact).kind
        only = self.only(answers, [kind])
        order = Order(Column(only.columns[0].name), *self.small.two_booleans())
        first = Top(only.relation, (order,), 1)
        return Asked(given.relation, name, "scalar", first), kind


def _columns(schema: Schema, alias: str) -> tuple[Named, ...]:
    return tuple(Named(f"{alias}.{each.name}", _KINDS[str(each.type)]) for each in schema)


def _aggregates_of(kind: SmallKind) -> tuple[AggregateKind, ...]:
    if kind in NUMERIC:
        return (*_OF_ANY, *_OF_NUMBERS, *(_OF_INTEGERS if kind == "integer" else ()))
    return (*_OF_ANY, "string_agg") if kind == "text" else _OF_ANY


def _aggregate_kind(kind: AggregateKind, operand: SmallKind) -> SmallKind:
    if kind == "count":
        return "integer"
    if kind == "array_agg":
        return "list"
    kept = (*_OF_ANY, *_OF_INTEGERS, "sum", "string_agg")
    return operand if kind in kept else "rounded"


_ROOTS: dict[Root, Callable[[_Plans, int], Drawn]] = {
    "derived": _Plans.derived,
    "filter": _Plans.filter,
    "project": _Plans.project,
    "join": _Plans.join,
    "group": _Plans.group,
    "distinct": _Plans.distinct,
    "combined": _Plans.combined,
    "asked": _Plans.asked,
    "top": _Plans.top,
}


@st.composite
def _drawn(draw: st.DrawFn, depth: int, root: Root | None) -> Relation:
    drawing = _Plans(Small(draw))
    drawn = drawing.relation(depth) if root is None else _ROOTS[root](drawing, depth - 1)
    return drawn.relation


def plans(depth: int = 4, *, root: Root | None = None) -> st.SearchStrategy[Relation]:
    """Draw a well-typed plan over the declared streams and tables, of no more levels than that.

    Every node may be in it, also windows over streams that are told by a plan ("derived"), and
    subqueries in subqueries; `root` says which one stands on top, or, if it is "asked", perhaps
    below a filter. No subquery that stands for a value ever has several rows.
    """
    return _drawn(depth, root)
