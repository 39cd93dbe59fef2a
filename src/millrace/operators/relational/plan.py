"""A plan that runs: the operators of a query, which take one slab of time after another.

The same relation in two places of a plan is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol, TypeVar, assert_never

import pyarrow as pa

from millrace.kernels.arrays import Hashes
from millrace.operators.keys import hash_columns
from millrace.operators.relational.again import (
    Again,
    Recipe,
    lasting,
    reach_of,
    stream_of,
    with_tails,
)
from millrace.operators.relational.aggregates import GroupFeeds, grouping_of
from millrace.operators.relational.join import InnerJoin
from millrace.operators.relational.join_keys import split
from millrace.operators.relational.meter import Meter, Told
from millrace.operators.relational.outer import OuterJoin
from millrace.operators.relational.places import Places
from millrace.operators.relational.rowwise import (
    as_columns,
    changed,
    each_row,
    plain_elements,
    windowed,
)
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.streams import Changes, Net, Repeating
from millrace.operators.relational.sweep import Sweep, distinct, set_operator
from millrace.operators.relational.ticking import Ticking
from millrace.operators.relational.timed import Timed, rows_of
from millrace.operators.relational.top import TopRows
from millrace.operators.relational.travel import Leg
from millrace.operators.relational.windows import RowsWindow
from millrace.plan.declared import Declared
from millrace.plan.levels import QUERIES, QUERIES_AS
from millrace.plan.placement import FIRST, Placing
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
    Source,
    Stream,
    StreamKind,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.plan.scopes import inputs
from millrace.plan.sizing import Sizing, sizing
from millrace.plan.stages import stage_of
from millrace.schema import Schema


class Operator(Protocol):
    """Something that remembers rows in stores."""

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        ...


Kept = TypeVar("Kept", bound=Operator)
Makes = Callable[["Run"], Timed]
Tells = Callable[["Run"], Elements]


@dataclass(slots=True)
class Run:
    """One slab on its way through a plan, and what was computed in it so far."""

    slab: Slab
    relations: dict[Relation, Timed] = field(default_factory=dict)
    streams: dict[Stream, Elements] = field(default_factory=dict)
    changes: dict[Relation, Net] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    again: Again = field(init=False)
    reach: int | None = None
    """How far back elements are read for the queries of a family, if they say so."""

    def __post_init__(self) -> None:
        self.again = Again(self.slab)

    def by_keys(self, recipe: Recipe, keys: Hashes) -> Timed:
        """Make a relation again, at least for some keys."""
        return self.meter.again(self.again.by_keys(recipe, keys))


class Plan:
    """The operators of some streams over what is declared.

    Operators are numbered in the order of the plan, and call their stores by that number. If the
    rows come spread over shards, `columns` says by which column of each stream. With `again`, what
    can be made of stored elements is not remembered.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        declared: Declared,
        columns: Mapping[str, str] | None = None,
        *,
        again: bool = True,
    ) -> None:
        self._declared = declared
        self._columns, self._again = columns, again
        self._recipes: dict[Relation, Recipe] = {}
        self._read: dict[Windowed, bool] = {}
        self._gone: set[Relation] = set()
        self._endless: set[str] = set()
        self._places = Places(None if columns is None else Placing(declared, columns))
        self._relations: dict[Relation, Makes] = {}
        self._streams: dict[Stream, Tells] = {}
        self._changes: dict[Relation, Changes] = {}
        self._operators: list[Operator] = []
        for each in streams:
            self._add_stream(each)

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that the operators use, with their columns."""
        return {name: schema for each in self._operators for name, schema in each.stores().items()}

    @cached_property
    def reaches(self) -> dict[str, int | None]:
        """How far back elements of streams are read again; None is for ever."""
        found: dict[str, int | None] = {}
        for window in self._read:
            reach, known = reach_of(window), found.get(stream_of(window), 0)
            widest = None if reach is None or known is None else max(reach, known)
            found[stream_of(window)] = widest
        return {**found, **dict.fromkeys(self._endless)}

    @cached_property
    def keyed(self) -> frozenset[str]:
        """The streams whose elements are read again by their keys, and not by time alone."""
        return frozenset(stream_of(window) for window, by_key in self._read.items() if by_key)

    @property
    def made_again(self) -> frozenset[Relation]:
        """The relations of which nobody notes when rows will go."""
        return frozenset(self._recipes)

    def names(self) -> dict[Relation | Stream, str]:
        """Return the names of operators: what their stores begin with, and meters call them."""
        relations: dict[Relation | Stream, str] = {
            node: f"r{at}" for at, node in enumerate(self._relations)
        }
        return {**relations, **{node: f"s{at}" for at, node in enumerate(self._streams)}}

    @cached_property
    def legs(self) -> list[Leg]:
        """Where rows travel, in the order of the plan."""
        return [self._leg(each) for each in self._relations if isinstance(each, Hop)]

    def _leg(self, node: Hop) -> Leg:
        assert self._places.placing is not None, "a plan in which rows travel is spread"
        name, everywhere = self.names()[node], self._places.placing.everywhere(node.input)
        return Leg(name, node, self._schema(node).to_arrow(), stage_of(node.input), everywhere)

    def owners(self) -> dict[str, Relation | Stream]:
        """Return whose each store is."""
        named = {name: node for node, name in self.names().items()}
        return {store: named[store.partition(".")[0]] for store in self.stores()}

    def _keep(self, operator: Kept) -> Kept:
        """Note an operator that has stores."""
        self._operators.append(operator)
        return operator

    def relation(self, node: Relation, run: Run) -> Timed:
        """Return what is new in a relation."""
        if node not in run.relations:
            run.relations[node] = self._relations[node](run)
        return run.relations[node]

    def stream(self, node: Stream, run: Run) -> Elements:
        """Return the elements of a stream, in order."""
        if node not in run.streams:
            run.streams[node] = self._streams[node](run)
        return run.streams[node]

    def _add_stream(self, node: Stream) -> None:
        if isinstance(node, StreamOf) and self._sizing(node) is None:
            self._add(node.relation)
        if node not in self._streams:
            name = f"s{len(self._streams)}"
            self._streams[node] = _metered(name, self._told(node, name))

    def _add(self, node: Relation) -> None:
        if isinstance(node, Windowed):
            self._add_stream(node.stream)
        for each in inputs(node):
            self._add(each)
        if node not in self._relations:
            name = f"r{len(self._relations)}"
            self._relations[node] = _metered(name, self._made(node, name))
            recipe = self._recipe(node) if self._again else None
            if recipe is not None:
                self._recipes[node] = recipe

    # ---- streams ---------------------------------------------------------------------------------

    def _told(self, node: Stream, name: str) -> Tells:
        match node:
            case Source(source):
                return lambda run: plain_elements(run.slab.streams[source])
            case StreamOf() if (found := self._sizing(node)) is not None:
                return self._ticking(found, node, name)
            case StreamOf(kind, relation, every):
                schema, place = self._schema(relation).to_arrow(), self._places.of(relation)
                if kind != "rstream":
                    return self._changing(kind, relation, Changes(name, schema, place))
                telling = self._keep(Repeating(name, schema, place, every))
                given = self._tailed(relation)
                return lambda run: telling.step(given(run), run.slab)
            case _:
                assert_never(node)

    def _sizing(self, node: StreamOf) -> Sizing | None:
        """Return how all queries of a family are told at once, if they can be."""
        return sizing(node, self._columns) if self._again else None

    def _ticking(self, found: Sizing, node: StreamOf, name: str) -> Tells:
        groups, given = self._schema(found.group).to_arrow(), self._schema(found.group.input)
        keys = pa.schema([groups.field(each.name) for each in found.keys])
        queries = self._declared.tables[QUERIES].to_arrow()
        named = pa.schema([each.with_name(f"{QUERIES_AS}.{each.name}") for each in queries])
        feeds = GroupFeeds(self._declared, keys, given, None)
        totals = feeds.totals(f"{name}.all", list(found.group.aggregates))
        told = self._schema(node.relation).to_arrow()
        ticking = self._keep(Ticking(name, found, named, groups, told, totals))
        self._endless.add(found.stream)

        def tell(run: Run) -> Elements:
            elements, run.reach = ticking.step(run.slab)
            run.meter.again(run.slab.streams[found.stream].times)
            return elements

        return tell

    def _changing(self, kind: StreamKind, relation: Relation, changes: Changes) -> Tells:
        """Tell what comes or what goes; both are of the same sums."""
        if relation not in self._changes:
            self._changes[relation] = self._keep(changes)
        if kind == "dstream":
            self._gone.add(relation)
        given, place = self._tailed(relation), changes.place

        def tell(run: Run) -> Elements:
            if relation not in run.changes:
                only_coming = relation not in self._gone
                timed = self._coming(relation, place, run) if only_coming else None
                timed = given(run) if timed is None else timed
                run.changes[relation] = self._changes[relation].step(timed, run.slab)
            net = run.changes[relation]
            return net.came() if kind == "istream" else net.went()

        return tell

    # ---- what is read again ----------------------------------------------------------------------

    def _recipe(self, node: Relation) -> Recipe | None:
        """Return how a relation is made again of stored elements, if it can be."""
        match node:
            case Windowed() if lasting(node):
                names = self._schema(node).names
                return Recipe(
                    (node,), lambda read, _: windowed(node, names, plain_elements(read(node)))
                )
            case Filter(given) | Project(given) if given in self._recipes:
                return self._recipes[given].then(partial(each_row, node=node))
            case _:
                return self._recipes.get(node)

    def _reads(self, recipe: Recipe | None, *, by_key: bool) -> None:
        """Note which windows are read again, and how."""
        for window in () if recipe is None else recipe.windows:
            if by_key or window.window.size is not None:
                self._read[window] = by_key or self._read.get(window, False)

    def _tailed(self, node: Relation) -> Makes:
        """Return a relation to an operator that must know what goes: if it can be, by tails."""
        recipe = self._recipes.get(node)
        if recipe is None:
            return lambda run: self.relation(node, run)
        self._reads(recipe, by_key=len(recipe.windows) > 1)

        def tailed(run: Run) -> Timed:
            going = run.meter.again(run.again.going(recipe, self._columns))
            return with_tails(self.relation(node, run), going, run.slab)

        return tailed

    def _coming(self, node: Relation, place: str | None, run: Run) -> Timed | None:
        """Return a join that is made again to an operator that only tells what comes.

        What goes matters to it if the same row comes at the same instant; so only what goes of the
        keys is read that something comes of.
        """
        recipe = self._recipes.get(node)
        if recipe is None or len(recipe.windows) == 1 or place is None:
            return None
        new = self.relation(node, run)
        keys = hash_columns(new.rows, [place])
        going = run.meter.again(run.again.going_of(recipe, keys))
        return with_tails(new, going, run.slab)

    # ---- relations -------------------------------------------------------------------------------

    def _made(self, node: Relation, name: str) -> Makes:  # noqa: C901  a case for each node
        match node:
            case Windowed():
                return self._windowed(node, name)
            case Table(table, alias):
                return lambda run: changed(run.slab.tables[table], alias)
            case Filter(given) | Project(given):
                return lambda run: each_row(self.relation(given, run), run.slab, node)
            case Join():
                return self._joined(node, name)
            case Group():
                return self._grouped(node, name)
            case Distinct(given):
                schema, place = self._schema(given).to_arrow(), self._places.of(given)
                once, tailed = (
                    self._keep(Sweep(name, schema, 1, distinct, place)),
                    self._tailed(given),
                )
                return lambda run: once.step([tailed(run)], run.slab)
            case Combined():
                return self._combined(node, name)
            case Top(given, order, limit, offset, per):
                schema, place = self._schema(given).to_arrow(), self._places.of(given, per)
                top = self._keep(TopRows(name, schema, place, order, limit, offset, per))
                tailed = self._tailed(given)
                return lambda run: top.step(tailed(run), run.slab)
            case Hop(given):
                return self._tailed(given)
            case Asked():
                raise AssertionError("subqueries are unnested before")
            case _:
                assert_never(node)

    def _windowed(self, node: Windowed, name: str) -> Makes:
        window, stream = node.window, node.stream
        names = self._schema(node).names
        by_rows = _counts(node)
        place = self._places.window(node) if by_rows else None
        columns = stream_schema(stream, self._declared).to_arrow()
        rows_window = RowsWindow(name, window, columns, place)
        if by_rows:
            self._keep(rows_window)

        def made(run: Run) -> Timed:
            elements = self.stream(stream, run)
            if not by_rows:
                return windowed(node, names, elements)
            timed = rows_window.step(elements.rows, elements.times, run.slab.state)
            return timed.with_rows(rows_of(timed.rows.columns, names, len(timed)))

        return made

    def _joined(self, node: Join, name: str) -> Makes:
        left, right = self._schema(node.left), self._schema(node.right)
        keys, rest = split(node.condition, left, right, self._declared.functions)
        everywhere = self._places.everywhere(node)
        at = self._places.key(node, keys) if everywhere is None else None
        sides = [self._recipes.get(each) if at not in (None, FIRST) else None
                 for each in (node.left, node.right)]  # fmt: skip
        for each in sides:
            self._reads(each, by_key=True)
        remembered = tuple(
            side for side, each in zip(("left", "right"), sides, strict=True) if each is None
        )
        inner = InnerJoin(
            name, left.to_arrow(), right.to_arrow(), keys, rest, at, everywhere, remembered
        )
        if None not in sides and node.kind == "inner":
            self._recipes[node] = _joined_again(inner, *sides)
        join: InnerJoin | OuterJoin = inner
        if node.kind != "inner":
            preserved = [node.left if node.kind in ("left", "full") else None,
                         node.right if node.kind in ("right", "full") else None]  # fmt: skip
            places = [None if each is None else self._places.of(each) for each in preserved]
            join = OuterJoin.of(node.kind, inner, *places)
        self._keep(join)

        def joined(run: Run) -> Timed:
            one, other = (None if each is None else partial(run.by_keys, each) for each in sides)
            given = self.relation(node.left, run), self.relation(node.right, run)
            return join.step(*given, run.slab, (one, other))

        return joined

    def _combined(self, node: Combined, name: str) -> Makes:
        schema = self._schema(node).to_arrow()
        sides = self._tailed(node.left), self._tailed(node.right)

        def inputs(run: Run) -> list[Timed]:
            return [as_columns(each(run), schema) for each in sides]

        if node.kind == "union" and node.keep_all:
            return lambda run: Timed.concat(inputs(run), schema)
        weigh = set_operator(node.kind, keep_all=node.keep_all)
        sweep = self._keep(Sweep(name, schema, 2, weigh, self._places.of(node)))
        return lambda run: sweep.step(inputs(run), run.slab)

    def _grouped(self, node: Group, name: str) -> Makes:
        place = self._places.of(node, [each.name for each in node.keys])
        grouping = self._keep(grouping_of(node, name, self._declared, place))
        tailed = self._tailed(node.input)
        return lambda run: grouping.step(tailed(run), run.slab)

    def _schema(self, node: Relation) -> Schema:
        return relation_schema(node, self._declared)


def _metered(name: str, operator: Callable[[Run], Told]) -> Callable[[Run], Told]:
    return lambda run: run.meter.measure(name, lambda: operator(run))


def _counts(node: Windowed) -> bool:
    """Say whether a window counts rows."""
    window = node.window
    return window.kind == "rows" and not (window.size is None and window.slide is None)


def _joined_again(join: InnerJoin, left: Recipe | None, right: Recipe | None) -> Recipe:
    """Return how a join is made again of both sides."""
    assert left is not None, "both sides can be made again"
    assert right is not None, "both sides can be made again"
    return Recipe(
        (*left.windows, *right.windows),
        lambda read, slab: join.pairs(left.made(read, slab), right.made(read, slab), slab),
    )
