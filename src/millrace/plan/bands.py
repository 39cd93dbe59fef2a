"""Bands: joins by how far apart numbers are, spread over shards by ranges of these numbers.

    SELECT ... FROM a [RANGE 1 MINUTE], b [RANGE 1 MINUTE] WHERE a.x - b.y BETWEEN -5 AND 5

No column is equal on both sides, so none says where rows that join would meet. But if the line of
numbers is cut into ranges, an `a` belongs to the range of its x, and a `b` can only meet those from
y - 5 to y + 5: it is sent to their ranges, its own and as a *halo* to the neighbouring ones.

    ranges of x    |     0     |     1     |     2     |
    a                   a   a      a
    b is copied                 [----b----]                into the ranges 1 and 2, and not into 0

So rows get one more column, the range that they were sent to, and the join is one by equal ranges:

    join on a.x - b.y BETWEEN -5 AND 5 AND a.~cell = b.~cell

From here on it is a join like others: placed by that column, remembered or read again by it, in
stages or as one join of a family. Of one stream, the *anchor*, each row is in one range only; so
every pair meets exactly once, in the range of its anchor, whatever the width of ranges and bands.
Three streams and more are a *line* if bands lead from each to the anchor: reaches add up.

A stream that is joined with itself has both: its rows are in all ranges that they reach, and those
in which they are at home are marked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from millrace.plan.conditions import both, conjuncts
from millrace.plan.declared import Declared
from millrace.plan.differences import Differences
from millrace.plan.expressions import Column, Compare, Expression, Negative
from millrace.plan.nodes import Output
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import Filter, Join, Project, Relation, Source, StreamOf, Windowed
from millrace.plan.scopes import below, column_names, relations_in, with_below
from millrace.schema import Column as Field
from millrace.schema import Schema

CELL, HOME = "~cell", "~home"
"""The range that a row was sent to, and whether its own number is in it."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a number is from another one of its line: the ends, of which each may have several.

    A number of the step before less this one is at least the greatest of `lows`.
    """

    lows: tuple[Expression, ...] = ()
    highs: tuple[Expression, ...] = ()

    @property
    def one_sided(self) -> bool:
        """Whether there is no end on one side."""
        return not self.lows or not self.highs


@dataclass(frozen=True, slots=True)
class Laid:
    """How the rows of a stream are laid out: by which column, and how far they reach.

    If it is the `anchor` each is in the range of its own number; each of `paths` leads from the
    anchor to the stream, and says into which ranges it is copied.
    """

    stream: str
    column: str
    anchor: bool
    paths: tuple[tuple[Step, ...], ...] = ()

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns that rows get."""
        cell = Field(CELL, pa.int64())
        return (cell, Field(HOME, pa.bool_())) if self.anchor and self.paths else (cell,)

    @property
    def one_sided(self) -> bool:
        """Whether some bands have no end on one side."""
        return any(each.one_sided for path in self.paths for each in path)


@dataclass(frozen=True, slots=True)
class Banded:
    """Streams that are joined by ranges, and how the rows of each declared stream are laid out."""

    streams: tuple[StreamOf, ...]
    laid: tuple[Laid, ...]
    leaves: tuple[Relation, ...]
    """The windows that are joined by ranges."""


def laid_declared(declared: Declared, laid: Sequence[Laid]) -> Declared:
    """Return what a plan may name whose streams are laid out over ranges."""
    more = {each.stream: each.columns for each in laid}
    streams = {
        name: Schema((*schema, *more.get(name, ()))) for name, schema in declared.streams.items()
    }
    return replace(declared, streams=streams)


def banded(
    streams: Sequence[StreamOf], declared: Declared, told: Collection[str] | None = None
) -> Banded | None:
    """Return streams of one relation with their joins by bands as joins by ranges, if they can be.

    If columns are `told`, the anchor's number is to be one of them.
    """
    relation = streams[0].relation
    lines = [line for each in _clusters(relation) if (line := _line(each, declared, told))]
    if len(lines) != 1 or not lines[0].whole(relation):
        return None
    [line] = lines
    return Banded(
        tuple(replace(each, relation=line.within(each.relation, declared)) for each in streams),
        tuple(line.laid()),
        line.cluster.leaves,
    )


# ---- joins ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Inner joins of windows over declared streams, and all that is asked of their rows."""

    node: Relation
    leaves: tuple[Relation, ...]
    conditions: tuple[Expression, ...] = ()


def _clusters(node: Relation) -> Iterator[_Cluster]:
    """Yield the greatest clusters of a plan."""
    found = _cluster(node)
    if found is not None and len(found.leaves) > 1:
        yield found
        return
    for each in below(node):
        yield from _clusters(each)


def _cluster(node: Relation) -> _Cluster | None:
    if _window(node) is not None:
        return _Cluster(node, (node,))
    match node:
        case Filter(given, condition):
            found = _cluster(given)
            if found is None:
                return None
            return _Cluster(node, found.leaves, (*found.conditions, *conjuncts(condition)))
        case Join("inner", left, right, condition):
            one, other = _cluster(left), _cluster(right)
            if one is None or other is None:
                return None
            asked = () if condition is None else conjuncts(condition)
            conditions = (*one.conditions, *other.conditions, *asked)
            return _Cluster(node, (*one.leaves, *other.leaves), conditions)
        case _:
            return None


def _window(node: Relation) -> Windowed | None:
    """Return the window of time that a leaf selects and computes rows of."""
    while isinstance(node, Filter | Project):
        node = node.input
    if not isinstance(node, Windowed) or not isinstance(node.stream, Source):
        return None
    return node if node.window.kind == "range" else None


def _source(leaf: Relation) -> Windowed:
    found = _window(leaf)
    assert found is not None, "a leaf is over a declared stream"
    return found


def _stream(leaf: Relation) -> str:
    stream = _source(leaf).stream
    assert isinstance(stream, Source), "a leaf is over a declared stream"
    return stream.name


def _of_stream(leaf: Relation, name: str) -> str | None:
    """Return the column of its stream that a column of a leaf is, if it is one."""
    node = leaf
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            [value] = [each.value for each in node.outputs if each.name == name]
            if not isinstance(value, Column):
                return None
            name = value.name
        node = node.input
    return name.removeprefix(f"{_source(leaf).alias}.")


# ---- lines ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """The column of each leaf of a cluster, and the path to it; that of the anchor is empty."""

    cluster: _Cluster
    columns: tuple[str, ...]
    paths: tuple[tuple[Step, ...], ...]

    @property
    def cost(self) -> tuple[int, ...]:
        """What is compared between lines: steps with one end, all steps, which is the anchor."""
        steps = [each for path in self.paths for each in path]
        return sum(each.one_sided for each in steps), len(steps), self.paths.index(())

    def whole(self, plan: Relation) -> bool:
        """Say whether nothing else in a plan reads the streams, which have copies of rows now."""
        mine = [_stream(each) for each in self.cluster.leaves]
        windows = [each for each in relations_in(plan) if isinstance(each, Windowed)]
        others = [each.stream.name for each in windows if isinstance(each.stream, Source)]
        return all(others.count(each) == mine.count(each) for each in mine)

    def laid(self) -> Iterator[Laid]:
        """Yield how streams are laid out."""
        found: dict[str, Laid] = {}
        for leaf, column, path in zip(self.cluster.leaves, self.columns, self.paths, strict=True):
            name = _stream(leaf)
            known = found.get(name, Laid(name, column, anchor=False))
            paths = known.paths if not path or path in known.paths else (*known.paths, path)
            found[name] = replace(known, anchor=known.anchor or not path, paths=paths)
        yield from found.values()

    def within(self, node: Relation, declared: Declared) -> Relation:
        """Return a plan with the cluster as joins by ranges."""
        if node == self.cluster.node:
            names = column_names(node, declared)
            joined, _ = self._joined(node)
            return Project(joined, tuple(Output(each, Column(each)) for each in names))
        return with_below(node, [self.within(each, declared) for each in below(node)])

    def _joined(self, node: Relation) -> tuple[Relation, str]:
        """Return a relation of the cluster by ranges, and a column that says the range."""
        if node in self.cluster.leaves:
            return self._leaf(node)
        if isinstance(node, Filter):
            given, cell = self._joined(node.input)
            return replace(node, input=given), cell
        assert isinstance(node, Join), "a cluster is made of joins"
        (left, cell), (right, other) = self._joined(node.left), self._joined(node.right)
        asked = [] if node.condition is None else [node.condition]
        condition = both([*asked, Compare("=", Column(cell), Column(other))])
        return replace(node, left=left, right=right, condition=condition), cell

    def _leaf(self, leaf: Relation) -> tuple[Relation, str]:
        """Return a leaf that passes on the range; the anchor is there where it is at home."""
        at, source = self.cluster.leaves.index(leaf), _source(leaf)
        cell, home = (f"{source.alias}.{each}" for each in (CELL, HOME))
        marked = not self.paths[at] and any(
            path and _stream(each) == _stream(leaf)
            for each, path in zip(self.cluster.leaves, self.paths, strict=True)
        )
        found: Relation = Filter(source, Column(home)) if marked else source
        # A view that is read twice has one alias, and gives its columns two names.
        return _passed_on(leaf, source, (found, cell), f"{cell}{at}")


def _passed_on(
    node: Relation, source: Windowed, found: tuple[Relation, str], name: str
) -> tuple[Relation, str]:
    """Return what is above a window, over another relation, and what it calls a column of that."""
    if node == source:
        return found
    assert isinstance(node, Filter | Project), "a leaf selects and computes"
    given, column = _passed_on(node.input, source, found, name)
    if isinstance(node, Project):
        return Project(given, (*node.outputs, Output(name, Column(column)))), name
    return replace(node, input=given), column


@dataclass(frozen=True, slots=True)
class _Graph:
    """Columns of leaves that are bound by their differences."""

    leaves: Mapping[str, int]
    """Of which leaf each column is."""
    steps: dict[tuple[str, str], Step] = field(default_factory=dict)
    """For two columns, how far the first less the second is."""

    def add(self, one: str, other: str, bound: Expression, *, at_least: bool) -> None:
        """Note that a column less another one is at least, or at most, so much."""
        known = self.steps.get((one, other), Step())
        ends = (*(known.lows if at_least else known.highs), bound)
        more = replace(known, lows=ends) if at_least else replace(known, highs=ends)
        self.steps[one, other] = more

    def paths(self, anchor: str) -> dict[int, tuple[str, tuple[Step, ...]]]:
        """Return the column of each leaf to which steps lead from an anchor, and the steps."""
        found: dict[int, tuple[str, tuple[Step, ...]]] = {self.leaves[anchor]: (anchor, ())}
        waiting = [anchor]
        while waiting:
            near = waiting.pop(0)
            path = found[self.leaves[near]][1]
            onward = [(far, step) for (one, far), step in self.steps.items() if one == near]
            for far, step in sorted(onward, key=lambda each: each[1].one_sided):
                if self.leaves[far] not in found:
                    found[self.leaves[far]] = far, (*path, step)
                    waiting.append(far)
        return found


def _line(cluster: _Cluster, declared: Declared, told: Collection[str] | None) -> _Line | None:
    """Return the best line of a cluster: with the fewest steps that have one end, or at all."""
    graph = _graph(cluster, declared)
    anchors = dict.fromkeys(one for one, _ in graph.steps if told is None or one in told)
    found = []
    for anchor in anchors:
        paths = graph.paths(anchor)
        if len(paths) < len(cluster.leaves):
            continue
        ordered = [paths[at] for at in range(len(cluster.leaves))]
        columns = [
            _of_stream(leaf, name) for leaf, (name, _) in zip(cluster.leaves, ordered, strict=True)
        ]
        by_stream = {
            (_stream(each), column) for each, column in zip(cluster.leaves, columns, strict=True)
        }
        if None not in columns and len({name for name, _ in by_stream}) == len(by_stream):
            names = tuple(each for each in columns if each is not None)
            found.append(_Line(cluster, names, tuple(path for _, path in ordered)))
    return min(found, key=lambda each: each.cost, default=None)


def _graph(cluster: _Cluster, declared: Declared) -> _Graph:
    schemas = [relation_schema(each, declared) for each in cluster.leaves]
    leaves = {each.name: at for at, schema in enumerate(schemas) for each in schema}
    everything = declared.schema(each for schema in schemas for each in schema)
    graph, differences = _Graph(leaves), Differences(everything, declared)
    for condition in cluster.conditions:
        for each in differences.of(condition):
            one, other, bound = each.minuend, each.subtrahend, each.bound
            if leaves[one] != leaves[other]:
                graph.add(one, other, bound, at_least=each.at_least)
                graph.add(other, one, Negative(bound), at_least=not each.at_least)
    return graph
