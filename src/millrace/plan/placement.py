"""Placement: by which columns the rows of a plan's streams are spread over shards.

Operators need rows that belong together in one place: the two sides of a join with equal keys,
all rows of a group. If every operator of a plan is content when the rows of each stream are spread
by some one column of it, the whole plan runs in all shards side by side, without a second shuffle.

    SELECT ... FROM s [RANGE 10], t [RANGE 10] WHERE s.k = t.k GROUP BY s.k
                                                     s is spread by k, and t by k

A `Spread` is one way to do it: the column of each leaf, and the columns of the relation in which
the value that decides about the shard is found. An operator is content if it finds that value in
columns that it `wants`; it keeps the ways that suit it. A plan without any (a global count, the
last 10 rows of a stream) is cut into stages (`plan.stages`), or runs in one shard.

A table may also be *everywhere*: every shard has all of it. Then what it is joined with stays where
it is, whatever the join asks for; `EVERYWHERE` stands in the place of the column. What is all in
the *first* shard pleases every operator; `FIRST` stands in the place of its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import assert_never

from millrace.plan.conditions import conjuncts, same
from millrace.plan.declared import Declared
from millrace.plan.expressions import Column, Compare, Either, Expression
from millrace.plan.nodes import Output
from millrace.plan.relation_types import relation_schema, stream_schema
from millrace.plan.relations import (
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Project,
    Relation,
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.plan.scopes import inputs
from millrace.plan.types import kind_of

EVERYWHERE = ""
FIRST = "#first"
MOST_WAYS = 64
"""How many ways are looked at for one relation."""


@dataclass(frozen=True, slots=True)
class Spread:
    """By which column each stream and table is spread, and where its value is found.

    A relation that is `everywhere` is made of a table that is, and of nothing else, or has
    travelled to all shards.
    """

    leaves: tuple[tuple[str, str], ...]
    found: frozenset[str]
    everywhere: bool = False
    first: bool = False

    @classmethod
    def to(cls, column: str, leaves: tuple[tuple[str, str], ...] = ()) -> Spread:
        """Return how rows are spread that were sent to where a column says."""
        if column == FIRST:
            return cls(leaves, frozenset(), first=True)
        if column == EVERYWHERE:
            return cls(leaves, frozenset(), everywhere=True)
        return cls(leaves, frozenset({column}))

    @property
    def n_everywhere(self) -> int:
        """How many tables every shard has all of."""
        return sum(column == EVERYWHERE for _, column in self.leaves)

    def columns(self) -> dict[str, str] | None:
        """Return the column of each stream; None if one is spread in two ways."""
        known: dict[str, str] = {}
        for name, column in self.leaves:
            if known.setdefault(name, column) != column:
                return None
        return known


@dataclass(frozen=True, slots=True)
class Placing:
    """Finds how plans over what is declared can be spread, or have been if `chosen` says how."""

    declared: Declared
    chosen: Mapping[str, str] | None = None

    def columns(self, stream: StreamOf) -> dict[str, str] | None:
        """Return by which column each stream of a plan is spread; None: it runs in one shard."""
        ways = sorted(self.ways(stream.relation), key=lambda way: way.n_everywhere)
        for way in ways:
            known = way.columns()
            if known is not None and way.found:
                return known
        return None

    def found(self, node: Relation) -> frozenset[str]:
        """Return the columns of a relation in which the value that decides is found."""
        return frozenset().union(*(way.found for way in self.ways(node)))

    def everywhere(self, node: Relation) -> bool:
        """Say whether every shard has all rows of a relation."""
        return any(way.everywhere for way in self.ways(node))

    def first(self, node: Relation) -> bool:
        """Say whether the first shard has all rows of a relation, and the others none."""
        return any(way.first for way in self.ways(node))

    def below(self, stream: Stream) -> list[Spread]:
        """Return the ways to spread what a stream is made of."""
        if isinstance(stream, StreamOf):
            return [way for way in self.ways(stream.relation) if way.found or way.first]
        names = stream_schema(stream, self.declared).names
        return list(self._leaf(stream.name, names, ""))

    def ways(self, node: Relation) -> list[Spread]:
        """Return the ways to spread what a relation is made of; those with nothing found end it."""
        return _few(self._ways(node))

    def _ways(self, node: Relation) -> Iterator[Spread]:
        match node:
            case Windowed(stream):
                yield from self._content(node, [self.below(stream)])
            case Table(name, alias):
                yield from self._leaf(name, self.declared.tables[name].names, f"{alias}.")
                if self._allowed(name, [EVERYWHERE]):
                    yield Spread.to(EVERYWHERE, ((name, EVERYWHERE),))
            case Hop(_, to):
                yield Spread.to(to)
            case _:
                yield from self._content(node, [self.ways(each) for each in inputs(node)])

    def _content(self, node: Relation, ways: Sequence[Sequence[Spread]]) -> Iterator[Spread]:
        """Yield how an operator's rows are spread, of all ways of its inputs that suit it."""
        wanted = self.wanted(node)
        for given in product(*ways):
            found = self.through(node, given, wanted)
            if found is not None:
                yield found

    def _leaf(self, name: str, columns: Sequence[str], prefix: str) -> Iterator[Spread]:
        for column in self._allowed(name, columns):
            yield Spread.to(f"{prefix}{column}", ((name, column),))
        if self.chosen is not None and self.chosen.get(name) == FIRST:
            yield Spread.to(FIRST, ((name, FIRST),))

    def _allowed(self, name: str, columns: Iterable[str]) -> list[str]:
        """Return by which columns something may be spread; nobody has written `#birth`."""
        return [
            each
            for each in columns
            if not each.startswith("#") and (self.chosen is None or self.chosen.get(name) == each)
        ]

    # ---- operators -------------------------------------------------------------------------------

    def wanted(self, node: Relation) -> list[tuple[str, ...]] | None:
        """Return by which columns of its inputs an operator can have its rows spread.

        One column of each input; None if it makes no difference to the operator.
        """
        match node:
            case Windowed(_, window):
                return [(each,) for each in window.by] if window.kind == "rows" else None
            case Filter() | Project() | Table() | Hop():
                return None
            case Group(_, keys, _):
                values = [each.value for each in keys]
                return [(each.name,) for each in values if isinstance(each, Column)]
            case Distinct(given):
                return [(each,) for each in relation_schema(given, self.declared).names]
            case Top():
                return [(each,) for each in node.per]
            case Join():
                return list(self._equal(node))
            case Combined():
                return self._alike(node)
            case Asked():
                raise AssertionError("subqueries are unnested before")
            case _:
                assert_never(node)

    def through(
        self, node: Relation, given: Sequence[Spread], wanted: list[tuple[str, ...]] | None
    ) -> Spread | None:
        """Return how an operator's rows are spread if its inputs are so; None if that is no way."""
        leaves = tuple(leaf for each in given for leaf in each.leaves)
        if isinstance(node, Join | Combined) and all(each.first for each in given):
            return Spread.to(FIRST, leaves)
        if wanted is None or all(each.first for each in given):
            return _carried(node, given[0])
        met = [names for names in wanted if _finds(names, given)]
        match node:
            case Join():
                return _joined(node, given[0], given[1], met=bool(met))
            case Combined():
                return Spread(leaves, frozenset(one for one, _ in met)) if met else None
            case _:
                return _carried(node, given[0]) if met else None

    def _equal(self, node: Join) -> Iterator[tuple[str, str]]:
        """Yield columns of both sides that are equal in every pair, and hash alike."""
        if node.condition is None:
            return
        left = relation_schema(node.left, self.declared)
        right = relation_schema(node.right, self.declared)
        for each in conjuncts(node.condition):
            for pair in _compared(each):
                one, other = pair[::-1] if pair[0] in right and pair[1] in left else pair
                if one in left and other in right:
                    types = left.type_of(one), right.type_of(other)
                    if types[0] == types[1] or {*map(kind_of, types)} == {"integer"}:
                        yield one, other

    def _alike(self, node: Combined) -> list[tuple[str, ...]]:
        """Return columns of both sides that are at one place, and hash alike."""
        sides = [relation_schema(each, self.declared) for each in (node.left, node.right)]
        return [
            (one.name, other.name)
            for one, other in zip(*sides, strict=True)
            if one.type == other.type
        ]


def _finds(names: Sequence[str], given: Sequence[Spread]) -> bool:
    return all(name in each.found for name, each in zip(names, given, strict=True))


def _carried(node: Relation, way: Spread) -> Spread:
    """Find the deciding value of an input among the columns of what is made of it."""
    match node:
        case Windowed(_, window, alias):
            kept = way.found & {*window.by} if window.kind == "rows" else way.found
            return replace(way, found=frozenset(f"{alias}.{each}" for each in kept))
        case Project(_, outputs) | Group(_, outputs, _):
            return replace(way, found=_passed_on(way.found, outputs))
        case _:
            return way


def _passed_on(found: frozenset[str], outputs: Sequence[Output]) -> frozenset[str]:
    return frozenset(
        each.name for each in outputs if isinstance(each.value, Column) and each.value.name in found
    )


def _joined(node: Join, left: Spread, right: Spread, *, met: bool) -> Spread | None:
    leaves = (*left.leaves, *right.leaves)
    if met:
        found = {
            "inner": left.found | right.found,
            "left": left.found,
            "right": right.found,
            "full": frozenset[str](),
        }[node.kind]
        return Spread(leaves, found)
    if right.everywhere and (left.found or left.first) and node.kind in ("inner", "left"):
        return replace(left, leaves=leaves)
    if left.everywhere and (right.found or right.first) and node.kind in ("inner", "right"):
        return replace(right, leaves=leaves)
    return None


def _compared(node: Expression) -> Iterator[tuple[str, str]]:
    """Yield the names of two columns if a condition says that they are equal, or both NULL."""
    if isinstance(node, Either):
        inner = conjuncts(node.right)[-1]
        if isinstance(inner, Compare) and node == same(inner.left, inner.right):
            node = inner
    if not isinstance(node, Compare) or node.operator != "=":
        return
    if isinstance(node.left, Column) and isinstance(node.right, Column):
        yield node.left.name, node.right.name


def _few(ways: Iterator[Spread]) -> list[Spread]:
    kept: dict[Spread, None] = {}
    for way in ways:
        kept.setdefault(way)
        if len(kept) >= MOST_WAYS:
            break
    return list(kept)
