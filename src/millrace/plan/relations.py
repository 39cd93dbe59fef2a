"""Relations that change in time: the logical plans of CQL.

    stream ──window──► relation ──select, join, group, ...──► relation ──Istream──► stream

A stream is a bag of rows with instants. A relation is a bag of rows at every instant. A window
makes a relation of a stream, every other operator relations of relations, instant by instant, and
`StreamOf` makes a stream of a relation again, over which a window may stand.

Columns have unique names within a plan node: those of a source are `alias.column`. What a node
means is said by `testing.oracle.relations`, which is the definition, and by nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from millrace.plan.expressions import Expression
from millrace.plan.nodes import Output

WindowKind: TypeAlias = Literal["range", "rows"]
StreamKind: TypeAlias = Literal["istream", "dstream", "rstream"]
JoinKind: TypeAlias = Literal["inner", "left", "right", "full"]
SetKind: TypeAlias = Literal["union", "except", "intersect"]
AggregateKind: TypeAlias = Literal["count", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Window:
    """Which elements of a stream are in a relation at an instant.

    "range": those of the last `size` microseconds, both ends included; with a `slide` of L those
    of (b - size, b], where b is the last multiple of L. "rows": the last `size` by instant and
    order, of each value of `by` if given; with a `slide` of m as they stood when the number of
    elements was last a multiple of m. A size of None has no bound; [NOW] is a range of 0.
    """

    kind: WindowKind
    size: int | None = None
    slide: int | None = None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A declared stream."""

    name: str


@dataclass(frozen=True, slots=True)
class StreamOf:
    """What a relation gains ("istream") or loses ("dstream") at each instant, or all of it.

    "rstream" tells the whole relation at every instant, or at every multiple of `every`.
    """

    kind: StreamKind
    relation: Relation
    every: int | None = None


@dataclass(frozen=True, slots=True)
class Windowed:
    """The relation that a window makes of a stream; its columns are `alias.column`."""

    stream: Stream
    window: Window
    alias: str


@dataclass(frozen=True, slots=True)
class Table:
    """A declared table, which is a relation that changes by its own inserts and deletes."""

    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    input: Relation
    condition: Expression


@dataclass(frozen=True, slots=True)
class Project:
    """Computed columns of each row."""

    input: Relation
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows for which a condition is true; outer joins add rows without a partner."""

    kind: JoinKind
    left: Relation
    right: Relation
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of a group: of an operand (None counts rows), of those rows that it takes."""

    name: str
    kind: AggregateKind
    operand: Expression | None = None
    distinct: bool = False
    where: Expression | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """One row for each group of equal keys, NULLs being equal; without keys, always just one."""

    input: Relation
    keys: tuple[Output, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row once."""

    input: Relation


@dataclass(frozen=True, slots=True)
class Combined:
    """Rows of two relations by SQL's set operators; columns are those of the left, by place."""

    kind: SetKind
    left: Relation
    right: Relation
    keep_all: bool = False


Stream: TypeAlias = Source | StreamOf
Relation: TypeAlias = Windowed | Table | Filter | Project | Join | Group | Distinct | Combined
