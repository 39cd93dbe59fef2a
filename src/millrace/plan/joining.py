"""Which streams of a family are joins of windows: all its queries are one join.

    SELECT ISTREAM(r.k, r.a, s.c) FROM r [RANGE :w SECONDS], s [RANGE 1 MINUTE]
    WHERE r.k = s.k AND r.a BETWEEN :low AND :high AND s.c > :least AND f(r.a, s.c) < :most

Whatever queries differ in, sizes of windows and conditions of one stream or of several, the pairs
of elements are the same for all. So a family need not be a plan that is joined with its queries
(`plan.families`): which queries a combination of elements is for can be asked when it is found
(`operators.joining`).

A relation of this kind is taken apart into its *leaves*, windows over declared streams with what is
done to their rows alone, and conditions and outputs over the columns of all leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.plan.conditions import both, conjuncts
from millrace.plan.declared import Declared
from millrace.plan.expressions import Column, Expression, walk
from millrace.plan.fold import fold, rebuilt
from millrace.plan.levels import has_parameter
from millrace.plan.nodes import Output
from millrace.plan.placement import Placing
from millrace.plan.relations import Filter, Join, Project, Relation, Source, StreamOf, Windowed
from millrace.plan.scopes import column_names


@dataclass(frozen=True, slots=True)
class Leaf:
    """A window over a declared stream, and what is selected and computed of its rows."""

    window: Windowed
    below: tuple[Filter | Project, ...] = ()

    @property
    def stream(self) -> str:
        """The stream that the window is over."""
        assert isinstance(self.window.stream, Source), "a leaf is over a declared stream"
        return self.window.stream.name

    @property
    def relation(self) -> Relation:
        """The leaf as a relation."""
        found: Relation = self.window
        for each in self.below:
            found = replace(each, input=found)
        return found


@dataclass(frozen=True, slots=True)
class Joining:
    """Joins of windows: the leaves, and what is asked and told of a row of each of them."""

    leaves: tuple[Leaf, ...]
    conditions: tuple[Expression, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """How all queries of a family are one join: what finds queries ("auto", or a strategy's name).

    Rows are `distinct` if ones that come are never equal to ones that go: they have the times of
    all their elements. Answers are kept as `sets` if a row is the same for all whom it is told: it
    is stored once, with the set of its queries.
    """

    strategy: str = "auto"
    distinct: bool = False
    sets: bool = False

    @classmethod
    def of(cls, found: Joining, times: Mapping[str, str], strategy: str, *, sets: bool) -> Sharing:
        """Return how joins are shared over streams with columns that hold their times."""
        told = {each.value for each in found.outputs}
        stamps = {_stamp(leaf, times) for leaf in found.leaves}
        alike = not any(map(has_parameter, told))
        return cls(strategy, distinct=stamps <= told, sets=sets and alike)

    def columns(self, stream: StreamOf, declared: Declared) -> dict[str, str] | None:
        """Return by which column each stream is spread; None: the family runs in one shard.

        Equal rows that come and go have to meet, unless they cannot be.
        """
        node = stream.relation
        while self.distinct and isinstance(node, Project | Filter):
            node = node.input
        return Placing(declared).columns(replace(stream, relation=node))


def _stamp(leaf: Leaf, times: Mapping[str, str]) -> Expression | None:
    """Return the column of a leaf that holds its time, if it is passed on as it is."""
    name = f"{leaf.window.alias}.{times[leaf.stream]}"
    for node in leaf.below:
        if isinstance(node, Project):
            kept = [each.name for each in node.outputs if each.value == Column(name)]
            if not kept:
                return None
            name = kept[0]
    return Column(name)


def joining(stream: StreamOf, declared: Declared) -> Joining | None:
    """Return how a family's stream is made of joins of windows, if it is."""
    if stream.kind == "rstream":
        return None
    found = _flat(stream.relation)
    if found is None or len(found.leaves) == 1:
        return None
    names = [name for leaf in found.leaves for name in column_names(leaf.relation, declared)]
    if len({*names}) < len(names):
        return None  # two leaves call columns alike, which were renamed above them
    outputs = tuple(
        Output(each, found.columns.get(each, Column(each)))
        for each in column_names(stream.relation, declared)
    )
    return Joining(found.leaves, found.conditions, outputs)


@dataclass(frozen=True, slots=True)
class _Flat:
    """A relation taken apart; what its columns are, if not those of its leaves by their names."""

    leaves: tuple[Leaf, ...]
    conditions: tuple[Expression, ...]
    columns: Mapping[str, Expression]

    def condition(self, node: Expression) -> tuple[Expression, ...] | None:
        """Return a condition over the leaves' columns; None if it names what was computed."""
        if any(not isinstance(each, Column) for each in self._named(node)):
            return None
        return tuple(conjuncts(self.value(node)))

    def value(self, node: Expression) -> Expression:
        """Return a value over the leaves' columns."""

        def column(each: Expression, operands: list[Expression]) -> Expression:
            if isinstance(each, Column):
                return self.columns.get(each.name, each)
            return rebuilt(each, operands)

        return fold(node, column)

    def _named(self, node: Expression) -> list[Expression]:
        names = [each.name for each in walk(node) if isinstance(each, Column)]
        return [self.columns.get(each, Column(each)) for each in names]


def _flat(node: Relation) -> _Flat | None:
    match node:
        case Windowed():
            return _Flat((Leaf(node),), (), {}) if _plain(node) else None
        case Filter(given, condition):
            found = _flat(given)
            return None if found is None else _filtered(found, condition)
        case Project(given, outputs):
            found = _flat(given)
            return None if found is None else _projected(found, outputs)
        case Join("inner", left, right, condition):
            return _joined(_flat(left), _flat(right), condition)
        case _:
            return None


def _plain(node: Windowed) -> bool:
    """Say whether a window holds the elements of a declared stream for so long, and no more."""
    window = node.window
    moving = window.slide is not None or window.lag or window.by
    fixed = window.since is not None or window.until is not None
    known = isinstance(node.stream, Source) and window.kind == "range" and window.size is not None
    return known and not moving and not fixed


def _filtered(found: _Flat, condition: Expression) -> _Flat | None:
    asked = found.condition(condition)
    if asked is None:
        return None
    return replace(found, conditions=(*found.conditions, *asked))


def _projected(found: _Flat, outputs: tuple[Output, ...]) -> _Flat | None:
    values = [each.value for each in outputs]
    asked = (*found.conditions, *values)
    if len(found.leaves) == 1 and not found.columns and not any(map(has_parameter, asked)):
        return _below(found, outputs)
    renamed = all(isinstance(each, Column) for each in values)
    if not renamed and any(not isinstance(each, Column) for each in found.columns.values()):
        return None
    return replace(found, columns={each.name: found.value(each.value) for each in outputs})


def _below(found: _Flat, outputs: tuple[Output, ...]) -> _Flat:
    """Compute columns of a leaf by itself, behind its own conditions."""
    [leaf] = found.leaves
    below: list[Filter | Project] = [*leaf.below]
    condition = both(found.conditions)
    if condition is not None:
        below.append(Filter(leaf.window, condition))
    below.append(Project(leaf.window, outputs))
    return _Flat((replace(leaf, below=tuple(below)),), (), {})


def _joined(left: _Flat | None, right: _Flat | None, condition: Expression | None) -> _Flat | None:
    if left is None or right is None:
        return None
    columns = {**left.columns, **right.columns}
    conditions = (*left.conditions, *right.conditions)
    found = _Flat((*left.leaves, *right.leaves), conditions, columns)
    return found if condition is None else _filtered(found, condition)
