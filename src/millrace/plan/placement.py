"""Placement: by which columns the rows of a plan's streams are spread over shards.

Operators need rows that belong together in one place: the two sides of a join with equal keys,
all rows of a group. If every operator of a plan is content when the rows of each stream are spread
by some one column of it, the whole plan runs in all shards side by side, without a second shuffle.

    SELECT ... FROM s [RANGE 10], t [RANGE 10] WHERE s.k = t.k GROUP BY s.k
                                                     s is spread by k, and t by k

A `Spread` is one way to do it: the column of each leaf, and the columns of the relation in which
the value that decides about the shard is found. An operator keeps the ways that suit it.
A plan without any (a global count, the last 10 rows of a stream) runs in one shard.

A table may also be *everywhere*: every shard has all of it. Then what it is joined with stays where
it is, whatever the join asks for; `EVERYWHERE` stands in the place of the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    Join,
    Project,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.plan.types import kind_of

EVERYWHERE = ""
MOST_WAYS = 64
"""How many ways are looked at for one relation."""


@dataclass(frozen=True, slots=True)
class Spread:
    """By which column each stream and table is spread, and where its value is found.

    A relation that is `everywhere` is made of a table that is, and of nothing else.
    """

    leaves: tuple[tuple[str, str], ...]
    found: frozenset[str]
    everywhere: bool = False

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
        ways = sorted(self._relation(stream.relation), key=lambda way: way.n_everywhere)
        for way in ways:
            known = way.columns()
            if known is not None and way.found:
                return known
        return None

    def found(self, node: Relation) -> frozenset[str]:
        """Return the columns of a relation in which the value that decides is found."""
        return frozenset().union(*(way.found for way in self._relation(node)))

    def everywhere(self, node: Relation) -> bool:
        """Say whether every shard has all rows of a relation."""
        return any(way.everywhere for way in self._relation(node))

    def found_in(self, stream: Stream) -> frozenset[str]:
        """Return the columns of a stream in which the value that decides is found."""
        return frozenset().union(*(way.found for way in self._stream(stream)))

    def ways(self, node: Relation) -> list[Spread]:
        """Return the ways to spread what a relation is made of; those with nothing found end it."""
        return self._relation(node)

    def _allowed(self, name: str, columns: Iterable[str]) -> list[str]:
        return [each for each in columns if self.chosen is None or self.chosen.get(name) == each]

    def _relation(self, node: Relation) -> list[Spread]:
        return _few(self._ways(node))

    def _ways(self, node: Relation) -> Iterator[Spread]:  # noqa: C901, PLR0912  a case a node
        match node:
            case Windowed():
                yield from self._windowed(node)
            case Table(name, alias):
                for column in self._allowed(name, self.declared.tables[name].names):
                    yield Spread(((name, column),), frozenset({f"{alias}.{column}"}))
                if self._allowed(name, [EVERYWHERE]):
                    yield Spread(((name, EVERYWHERE),), frozenset(), everywhere=True)
            case Filter(given, _):
                yield from self._relation(given)
            case Project(given, outputs):
                yield from (_carried(way, outputs) for way in self._relation(given))
            case Join():
                yield from self._joined(node)
            case Group(given, keys, _):
                for way in self._relation(given):
                    carried = _carried(way, keys)
                    if carried.found:
                        yield carried
            case Distinct(given):
                yield from (way for way in self._relation(given) if way.found)
            case Combined():
                yield from self._combined(node)
            case Top():
                per = frozenset(node.per)
                yield from (way for way in self._relation(node.input) if way.found & per)
            case Asked():
                raise AssertionError("subqueries are unnested before")
            case _:
                assert_never(node)

    def _windowed(self, node: Windowed) -> Iterator[Spread]:
        for way in self._stream(node.stream):
            by = frozenset(node.window.by)
            found = way.found & by if node.window.kind == "rows" else way.found
            if found or (node.window.kind == "range" and not way.found):
                yield replace(way, found=frozenset(f"{node.alias}.{each}" for each in found))

    def _stream(self, stream: Stream) -> Iterator[Spread]:
        match stream:
            case Source(name):
                for column in self._allowed(name, stream_schema(stream, self.declared).names):
                    yield Spread(((name, column),), frozenset({column}))
            case StreamOf(_, relation, _):
                yield from (way for way in self._relation(relation) if way.found)
            case _:
                assert_never(stream)

    def _joined(self, node: Join) -> Iterator[Spread]:
        pairs = list(self._equal(node))
        sides = [
            (left, right)
            for left in self._relation(node.left)
            for right in self._relation(node.right)
        ]
        for left, right in sides:
            leaves = (*left.leaves, *right.leaves)
            if any(pair[0] in left.found and pair[1] in right.found for pair in pairs):
                found = {
                    "inner": left.found | right.found,
                    "left": left.found,
                    "right": right.found,
                    "full": frozenset[str](),
                }[node.kind]
                yield Spread(leaves, found)
            elif right.everywhere and left.found and node.kind in ("inner", "left"):
                yield Spread(leaves, left.found)
            elif left.everywhere and right.found and node.kind in ("inner", "right"):
                yield Spread(leaves, right.found)

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

    def _combined(self, node: Combined) -> Iterator[Spread]:
        sides = [relation_schema(each, self.declared) for each in (node.left, node.right)]
        places = [
            (one.name, other.name)
            for one, other in zip(*sides, strict=True)
            if one.type == other.type
        ]
        for left in self._relation(node.left):
            for right in self._relation(node.right):
                found = frozenset(
                    one for one, other in places if one in left.found and other in right.found
                )
                if found:
                    yield Spread((*left.leaves, *right.leaves), found)


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


def _carried(way: Spread, outputs: Sequence[Output]) -> Spread:
    """Find the deciding value among computed columns."""
    found = frozenset(
        each.name
        for each in outputs
        if isinstance(each.value, Column) and each.value.name in way.found
    )
    return replace(way, found=found)


def _few(ways: Iterator[Spread]) -> list[Spread]:
    kept: dict[Spread, None] = {}
    for way in ways:
        kept.setdefault(way)
        if len(kept) >= MOST_WAYS:
            break
    return list(kept)
