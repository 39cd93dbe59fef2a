"""Stages: a plan whose operators want rows spread in different ways is cut where rows travel.

    SELECT t.v, count(*) FROM s [RANGE 10], t [RANGE 10] WHERE s.k = t.k GROUP BY t.v

    stage 0   s by k ─┐
                      ├─ join ─┐ the pairs travel to the shard of v
              t by k ─┘        │
    stage 1                    └─ hop ─ group

Of each relation several ways are kept to have it: how its rows are spread, in which stage, and
what that costs. An operator takes the ways of its inputs that suit it, and makes others suit by a
`Hop`. What goes to the first shard pleases every operator, so that there is always a way; what is
done there is done by one shard for all. The least of it is sought first, and then the fewest
stages, since every stage is one more shuffle of the epoch for everybody.

Invariant: the inputs of an operator are in one stage, so a stage runs without waiting for another.

Cost: at most `MOST_WAYS` ways of each relation with its rows in the first shard and as many others,
and streams are spread by columns that the plan names. A join of five streams takes 30 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from millrace.plan.declared import Declared
from millrace.plan.expressions import Column, walk
from millrace.plan.key_columns import with_key_columns
from millrace.plan.narrowing import Narrowing
from millrace.plan.placement import EVERYWHERE, FIRST, MOST_WAYS, Placing, Spread
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import (
    Distinct,
    Filter,
    Group,
    Hop,
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
from millrace.plan.scopes import inputs, own_expressions, upwards, with_below

MOST_HOPS = 3
"""How often rows travel between the shards of one epoch, besides the way to their first one."""


def stage_of(node: Relation | Stream) -> int:
    """Return the stage of an epoch in which a relation or a stream of a plan is made."""
    match node:
        case Hop(_, _, number):
            return number
        case Source() | Table():
            return 0
        case Windowed(stream):
            return stage_of(stream)
        case StreamOf(_, relation):
            return stage_of(relation)
        case _:
            return max(map(stage_of, inputs(node)))


@dataclass(frozen=True, slots=True)
class Way:
    """One way to have a relation: with the hops in it, in the stage `number`.

    `gathered` operators are run by the first shard for all, `n_hops` relations travel.
    """

    node: Relation
    spread: Spread
    number: int = 0
    gathered: int = 0
    n_hops: int = 0

    @property
    def cost(self) -> tuple[int, ...]:
        """What is compared between ways, the most important first."""
        return self.gathered, self.number, self.n_hops, self.spread.n_everywhere

    @property
    def place(self) -> str:
        """A column that says where the rows are."""
        return min(self.spread.found)

    @property
    def small(self) -> bool:
        """Whether every shard may get all of it: it has, or there are a few rows in one shard."""
        return self.spread.everywhere or (self.spread.first and _few_rows(self.node))

    def at(self, column: str) -> bool:
        """Say whether rows are where a column says."""
        if column in (FIRST, EVERYWHERE):
            return self.spread.first if column == FIRST else self.spread.everywhere
        return column in self.spread.found

    def may_go(self, column: str) -> bool:
        """Say whether rows that are in the first shard are few enough to leave it."""
        return not self.spread.first or column == FIRST or self.small

    def earliest(self, column: str) -> int:
        """Return the first stage in which rows can be where a column says."""
        return self.number + (not self.at(column))

    def sent(self, column: str, number: int) -> Way:
        """Let the rows travel to where a column says, to be there in a stage."""
        if number == self.number and self.at(column):
            return self
        spread = Spread.to(column, self.spread.leaves)
        hop = Hop(self.node, column, number)
        return replace(self, node=hop, spread=spread, number=number, n_hops=self.n_hops + 1)


@dataclass(frozen=True, slots=True)
class Staging:
    """Cuts plans over what is declared."""

    declared: Declared
    _named: set[tuple[str, str]] = field(default_factory=set)
    _known: dict[Relation, list[Way]] = field(default_factory=dict)

    @property
    def _placing(self) -> Placing:
        return Placing(self.declared)

    def cut(self, relation: Relation) -> Way | None:
        """Return the best way to have a relation of which changes are told.

        None if that is to have all of it in the first shard from the beginning.
        """
        relation = with_key_columns(relation, self.declared)
        names = relation_schema(relation, self.declared).names
        self._named.update(_named(relation))
        ways = [
            replace(way, gathered=way.gathered + way.spread.first)
            for way in self._settled(self._ways(relation), names)
        ]
        best = min(ways, key=lambda way: way.cost)
        if not best.number:
            return None
        return replace(best, node=Narrowing(self.declared).relation(best.node))

    def _ways(self, node: Relation) -> list[Way]:
        if node not in self._known:
            self._known[node] = _best(self._made(node))
        return self._known[node]

    def _made(self, node: Relation) -> Iterator[Way]:
        match node:
            case Windowed(Source(name)):
                wanted = self._placing.wanted(node)
                for each in (*self._useful(name, self.declared.streams[name].names), FIRST):
                    brought = Way(node, Spread.to(each, ((name, each),)))
                    yield from self._over(node, [brought], wanted)
            case Table(name, alias):
                for each in self._useful(name, self.declared.tables[name].names):
                    yield Way(node, Spread.to(f"{alias}.{each}", ((name, each),)))
                for each in (FIRST, EVERYWHERE):
                    yield Way(node, Spread.to(each, ((name, each),)))
            case Windowed(StreamOf(_, relation)):
                names = relation_schema(relation, self.declared).names
                yield from self._applied(node, [self._settled(self._ways(relation), names)])
            case _:
                yield from self._applied(node, [self._ways(each) for each in inputs(node)])

    def _useful(self, name: str, columns: Sequence[str]) -> Sequence[str]:
        """Return the columns by which a stream or table may be spread: those that are named."""
        return [each for each in columns if (name, each) in self._named] or columns[:1]

    def _settled(self, ways: Iterable[Way], names: Sequence[str]) -> list[Way]:
        """Let rows travel of which nobody knows where equal ones are: a stream is told of them."""
        found = []
        for way in ways:
            if way.spread.found or way.spread.first:
                found.append(way)
            elif not way.spread.everywhere and way.number < MOST_HOPS:
                found += [way.sent(each, way.number + 1) for each in (*names, FIRST)]
        return found

    def _applied(self, node: Relation, ways: Sequence[Sequence[Way]]) -> Iterator[Way]:
        """Yield the ways to have an operator's rows, of all ways to have its inputs."""
        wanted = self._placing.wanted(node)
        for given in product(*ways):
            if _consistent(given):
                for arranged in _arranged(node, given, wanted):
                    yield from self._over(node, arranged, wanted)

    def _over(
        self, node: Relation, given: Sequence[Way], wanted: list[tuple[str, ...]] | None
    ) -> Iterator[Way]:
        """Yield the way to have an operator's rows of inputs, if they suit it."""
        spread = self._placing.through(node, [each.spread for each in given], wanted)
        if spread is not None:
            yield Way(
                with_below(node, [each.node for each in given]),
                replace(spread, leaves=tuple(sorted({*spread.leaves}))),
                given[0].number,
                sum(each.gathered for each in given) + (spread.first and wanted is not None),
                sum(each.n_hops for each in given),
            )


def _named(node: Relation) -> Iterator[tuple[str, str]]:
    """Yield the columns of streams and tables that a plan names, by whatever alias."""
    names, leaves = set[str](), dict[str, str]()
    for each in upwards(node):
        for value in own_expressions(each):
            names.update(part.name for part in walk(value) if isinstance(part, Column))
        match each:
            case Windowed(Source(name), window, alias):
                leaves[alias] = name
                names.update(f"{alias}.{column}" for column in window.by)
            case Table(name, alias):
                leaves[alias] = name
            case Top():
                names.update(each.per)
    for alias, _, column in (name.partition(".") for name in names):
        if alias in leaves:
            yield leaves[alias], column


def _consistent(given: Sequence[Way]) -> bool:
    """Say whether each stream and table is spread in one way only."""
    leaves = {leaf for each in given for leaf in each.spread.leaves}
    return len({name for name, _ in leaves}) == len(leaves)


def _arranged(
    node: Relation, given: Sequence[Way], wanted: list[tuple[str, ...]] | None
) -> Iterator[Sequence[Way]]:
    """Yield the inputs of an operator as they suit it; if they do not, all ways to make them.

    What is in the first shard stays there, but for a few rows that are joined with others: so if
    rows would travel too often, it is the end of the plan that is left to one shard.
    """
    if wanted is None or (len(given) == 1 and given[0].spread.first):
        yield given
        return
    if isinstance(node, Join):
        yield from _copied(node, given[0], given[1])
    if any(each.spread.everywhere for each in given):
        return
    known = [*wanted, (FIRST,) * len(given)]
    suited = [names for names in known if all(map(Way.at, given, names))]
    for names in suited or known:
        number = max(map(Way.earliest, given, names))
        if number <= MOST_HOPS and all(map(Way.may_go, given, names)):
            yield [each.sent(name, number) for each, name in zip(given, names, strict=True)]


def _copied(node: Join, left: Way, right: Way) -> Iterator[Sequence[Way]]:
    """Yield the sides of a join if every shard can get all of one: a table, or a few rows."""
    if node.kind in ("inner", "left") and left.spread.found and right.small:
        number = max(left.number, right.earliest(EVERYWHERE))
        if number <= MOST_HOPS:
            yield left.sent(left.place, number), right.sent(EVERYWHERE, number)
    if node.kind in ("inner", "right") and right.spread.found and left.small:
        number = max(left.earliest(EVERYWHERE), right.number)
        if number <= MOST_HOPS:
            yield left.sent(EVERYWHERE, number), right.sent(right.place, number)


def _few_rows(node: Relation) -> bool:
    """Say whether a relation that is in one shard has few rows, however many its streams have."""
    match node:
        case Group(_, keys, _):
            return not keys
        case Top(_, _, _, _, per):
            return not per
        case Filter() | Project() | Distinct() | Hop():
            return _few_rows(node.input)
        case Windowed(_, window, _):
            return window.kind == "rows" and window.size is not None and not window.by
        case _:
            return False


def _best(ways: Iterable[Way]) -> list[Way]:
    """Keep the cheapest ways, one for each way to spread.

    Those in the first shard are apart, since they go on where the others have hopped too often.
    """
    kept: dict[Spread, Way] = {}
    for way in ways:
        known = kept.get(way.spread)
        if known is None or way.cost < known.cost:
            kept[way.spread] = way
    ordered = sorted(kept.values(), key=lambda way: way.cost)
    others = [way for way in ordered if not way.spread.first]
    first = [way for way in ordered if way.spread.first]
    always = [way for way in first[MOST_WAYS:] if all(at == FIRST for _, at in way.spread.leaves)]
    return [*others[:MOST_WAYS], *first[:MOST_WAYS], *always]
