"""A plan that runs: the operators of a query, which take one slab of time after another.

The same relation in two places of a plan is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Protocol, TypeVar, assert_never, cast

import pyarrow as pa

from millrace.operators.joining.family import FamilyJoin
from millrace.operators.relational.aggregates import grouping_of
from millrace.operators.relational.join import InnerJoin
from millrace.operators.relational.join_keys import split
from millrace.operators.relational.meter import Told
from millrace.operators.relational.narrowing import Leaf, Together, joined_together
from millrace.operators.relational.outer import OuterJoin
from millrace.operators.relational.pane_plan import PanePlan
from millrace.operators.relational.paned import SharedPanes
from millrace.operators.relational.passing import Makes, Run, Tells
from millrace.operators.relational.places import Places
from millrace.operators.relational.rereading import Rereading
from millrace.operators.relational.rowwise import (
    as_columns,
    changed,
    each_row,
    plain_elements,
    windowed,
)
from millrace.operators.relational.slab import Elements
from millrace.operators.relational.streams import Changes, Net, Repeating
from millrace.operators.relational.sweep import Sweep, distinct, set_operator
from millrace.operators.relational.timed import Timed, rows_of
from millrace.operators.relational.top import TopRows
from millrace.operators.relational.travel import Leg
from millrace.operators.relational.windows import RowsWindow
from millrace.plan.declared import Declared
from millrace.plan.joining import Sharing, joining
from millrace.plan.levels import BIRTHS, QUERIES
from millrace.plan.panes import Paned, PaneWay, paned
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
from millrace.plan.scopes import inputs, relations_in
from millrace.plan.stages import stage_of
from millrace.schema import Schema


class Operator(Protocol):
    """Something that remembers rows in stores."""

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        ...


Kept = TypeVar("Kept", bound=Operator)


class Plan:
    """The operators of some streams over what is declared.

    Operators are numbered in the order of the plan, and call their stores by that number. If the
    rows come spread over shards, `columns` says by which column of each stream. With `again`, what
    can be made of stored elements is not remembered. With `sharing`, the streams are those of a
    family, with parameters, and each is one join for all queries. Aggregates of a family share
    `panes` where they can, in a way that is chosen by cost or given, or never.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        declared: Declared,
        columns: Mapping[str, str] | None = None,
        *,
        again: bool = True,
        sharing: Sharing | None = None,
        panes: PaneWay = "auto",
    ) -> None:
        self._declared, self._sharing = declared, sharing
        self._columns, self._again, self._panes = columns, again, panes
        self.rereading = Rereading(declared, columns)
        self._gone: set[str] = set()
        self._places = Places(None if columns is None else Placing(declared, columns))
        self._relations: dict[Relation, Makes] = {}
        self._names: dict[Relation, str] = {}
        self._streams: dict[Stream, Tells] = {}
        self._changes: dict[Relation, Changes] = {}
        self.family_join: FamilyJoin | None = None
        self._shared: dict[tuple[Paned, bool], SharedPanes] = {}
        self._operators: list[Operator] = []
        for each in streams:
            self._add_stream(each)

    @cached_property
    def stores(self) -> dict[str, pa.Schema]:
        """The stores that the operators use, with their columns."""
        return {name: schema for each in self._operators for name, schema in each.stores().items()}

    def own_stores(self) -> dict[str, pa.Schema]:
        """Return those stores of a family that hold rows of births or of queries."""
        found, owners = self.stores, self.owners()
        return {name: found[name] for name, owner in owners.items() if _is_own(name, owner)}

    def names(self) -> dict[Relation | Stream, str]:
        """Return the names of operators: what their stores begin with, and meters call them."""
        found: dict[Relation | Stream, str] = dict(self._names.items())
        return found | {node: f"s{at}" for at, node in enumerate(self._streams)}

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
        return {store: named[store.partition(".")[0]] for store in self.stores}

    def _keep(self, operator: Kept) -> Kept:
        """Note an operator that has stores."""
        self._operators.append(operator)
        return operator

    def relation(self, node: Relation, run: Run) -> Timed:
        """Return what is new in a relation."""
        return self._relations[node](run)

    def stream(self, node: Stream, run: Run) -> Elements:
        """Return the elements of a stream, in order."""
        return self._streams[node](run)

    def _add_stream(self, node: Stream) -> None:
        if isinstance(node, StreamOf) and self._paned(node) is None and self._sharing is None:
            self._add(node.relation)
        if node not in self._streams:
            name = f"s{len(self._streams)}"
            self._streams[node] = _once(name, self._told(node, name))

    def _add(self, node: Relation) -> None:
        if isinstance(node, Windowed):
            self._add_stream(node.stream)
        for each in inputs(node):
            self._add(each)
        if node not in self._relations:
            name = self._names[node] = f"r{len(self._relations)}"
            self._relations[node] = _once(name, self._made(node, name))
            if self._again:
                self.rereading.learn(node)

    # ---- streams ---------------------------------------------------------------------------------

    def _told(self, node: Stream, name: str) -> Tells:
        match node:
            case Source(source):
                return lambda run: plain_elements(run.slab.streams[source])
            case StreamOf() if self._sharing is not None:
                return self._family_join(node, self._sharing)
            case StreamOf(kind) if (found := self._paned(node)) is not None:
                return self._shared_panes(kind, found, name)
            case StreamOf(kind, relation, every):
                schema, place = self._schema(relation).to_arrow(), self._places.of(relation)
                if kind != "rstream":
                    return self._changing(kind, relation, Changes(name, schema, place))
                telling = self._keep(Repeating(name, schema, place, every))
                given = self._tailed(relation)
                return lambda run: telling.step(given(run), run.slab)
            case _:
                assert_never(node)

    def _paned(self, node: StreamOf) -> Paned | None:
        """Return how the queries of a family share panes, if they do."""
        return None if self._panes == "never" else paned(node, self._declared)

    def _shared_panes(self, kind: StreamKind, found: Paned, name: str) -> Tells:
        """Tell all queries of a family at once; what comes and what goes is of one operator."""
        key = (found, kind == "rstream")
        if key not in self._shared:
            making = PanePlan(self._declared, self._columns or {}, self._panes)
            self._shared[key] = self._keep(making.operator(found, name))
        operator = self._shared[key]

        def tell(run: Run) -> Elements:
            if kind == "rstream":
                run.meter.again(run.slab.streams[found.stream])
                return operator.repeated(run.slab, run.weighed)
            if operator.name not in run.changes:
                run.meter.again(run.slab.streams[found.stream])
                run.changes[operator.name] = operator.net(run.slab, run.weighed)
            net = run.changes[operator.name]
            return net.came() if kind == "istream" else net.went()

        return tell

    def _family_join(self, node: StreamOf, sharing: Sharing) -> Tells:
        """Tell all queries of a family what joins of windows give."""
        found = joining(node, self._declared)
        assert found is not None, "only joins of windows are shared"
        told = self._schema(node.relation).to_arrow()
        join = self._keep(
            FamilyJoin.of(found, self._declared, self._columns, told, sharing, node.kind)
        )
        self.family_join = self.family_join or join
        for leaf in found.leaves:
            self.rereading.read_endlessly(leaf.stream, by_key=self._columns is not None)

        def tell(run: Run) -> Elements:
            found = join.step(run.slab)
            run.reach = found.reach
            run.meter.again(range(found.n_past))
            run.weighed += [] if found.weighed is None else [found.weighed]
            return found.told

        return tell

    def _changing(self, kind: StreamKind, relation: Relation, changes: Changes) -> Tells:
        """Tell what comes or what goes; both are of the same sums."""
        if relation not in self._changes:
            self._changes[relation] = self._keep(changes)
        operator, new = self._changes[relation], self._relations[relation]
        if kind == "dstream":
            self._gone.add(operator.name)
        given = self._tailed(relation)

        def summed(run: Run) -> Net:
            timed = None
            if operator.name not in self._gone and operator.place is not None:
                timed = self.rereading.coming(relation, operator.place, run, new)
            return operator.step(given(run) if timed is None else timed, run.slab)

        def tell(run: Run) -> Elements:
            if operator.name not in run.changes:
                run.changes[operator.name] = summed(run)
            net = run.changes[operator.name]
            return net.came() if kind == "istream" else net.went()

        return tell

    # ---- relations -------------------------------------------------------------------------------

    def _made(self, node: Relation, name: str) -> Makes:  # noqa: C901  a case for each node
        match node:
            case Windowed():
                return self._windowed(node, name)
            case Table(table, alias):
                return lambda run: changed(run.slab.tables[table], alias)
            case Filter(given) | Project(given):
                new = self._given(given, name)
                return lambda run: each_row(new(run), run.slab, node)
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
        rows_window, told = RowsWindow(name, window, columns, place), self._streams[stream]
        if by_rows:
            self._keep(rows_window)

        def made(run: Run) -> Timed:
            elements = told(run)
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
        sides = [self.rereading.by_key(each) if at not in (None, FIRST) else None
                 for each in (node.left, node.right)]  # fmt: skip
        remembered = tuple(
            side for side, each in zip(("left", "right"), sides, strict=True) if each is None
        )
        inner = InnerJoin(
            name, left.to_arrow(), right.to_arrow(), keys, rest, at, everywhere, remembered
        )
        if node.kind == "inner":
            self.rereading.learn_join(node, inner, *sides)
        join: InnerJoin | OuterJoin = inner
        if node.kind != "inner":
            preserved = [node.left if node.kind in ("left", "full") else None,
                         node.right if node.kind in ("right", "full") else None]  # fmt: skip
            places = [None if each is None else self._places.of(each) for each in preserved]
            join = OuterJoin.of(node.kind, inner, *places)
        self._keep(join)

        one_new, other_new = (self._given(each, name) for each in (node.left, node.right))

        def joined(run: Run) -> Timed:
            one, other = (None if each is None else partial(run.by_keys, each) for each in sides)
            return join.step(one_new(run), other_new(run), run.slab, (one, other))

        return joined

    def _given(self, node: Relation, reader: str) -> Makes:
        """Return a relation to one that may be joined by one key with others."""
        new, name = self._relations[node], self._names[node]
        if not isinstance(node, Windowed):
            return new

        def given(run: Run) -> Timed:
            together = self._together.get(reader)
            return new(run) if together is None else together.new(name, run)

        return given

    @cached_property
    def _together(self) -> dict[str, Together]:
        """The joins that are narrowed together, by the names of those that read windows."""
        told = [each.relation for each in self._streams if isinstance(each, StreamOf)]
        groups = joined_together(self._names, told, self.rereading.windows)
        return {name: Together(top, self._leaves(windows)) for name, top, windows in groups}

    def _leaves(self, windows: Sequence[Windowed]) -> dict[str, Leaf]:
        assert self._columns is not None, "what is joined again is spread by columns"
        return {
            self._names[each]: Leaf.of(each, self._relations[each], self._declared, self._columns)
            for each in windows
        }

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

    def _tailed(self, node: Relation) -> Makes:
        """Return a relation to an operator that must know what goes: if it can be, by tails."""
        return self.rereading.tailed(node, self._relations[node])

    def _schema(self, node: Relation) -> Schema:
        return relation_schema(node, self._declared)


def _once(name: str, operator: Callable[[Run], Told]) -> Callable[[Run], Told]:
    """Return an operator that is run once for each slab, and measured, whoever asks for it.

    It is known by its name: to look a relation up is to hash all of it.
    """

    def made(run: Run) -> Told:
        if name not in run.made:
            run.made[name] = run.meter.measure(name, lambda: operator(run))
        return cast("Told", run.made[name])

    return made


def _counts(node: Windowed) -> bool:
    """Say whether a window counts rows."""
    window = node.window
    return window.kind == "rows" and not (window.size is None and window.slide is None)


def _is_own(store: str, owner: Relation | Stream) -> bool:
    """Say whether what a store of an operator holds depends on births or queries."""
    side = store.partition(".")[2]
    if isinstance(owner, Join) and side in ("left", "right"):
        owner = owner.left if side == "left" else owner.right
    return any(
        isinstance(each, Windowed) or (isinstance(each, Table) and each.name in (QUERIES, BIRTHS))
        for each in relations_in(owner)
    )
