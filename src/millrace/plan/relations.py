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

from millrace.plan.expressions import Comparison, Expression
from millrace.plan.nodes import Output

WindowKind: TypeAlias = Literal["range", "rows"]
StreamKind: TypeAlias = Literal["istream", "dstream", "rstream"]
JoinKind: TypeAlias = Literal["inner", "left", "right", "full"]
SetKind: TypeAlias = Literal["union", "except", "intersect"]
AskedKind: TypeAlias = Literal["exists", "in", "scalar"]
AggregateKind: TypeAlias = Literal[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
    "first",
    "last",
    "percentile_cont",
    "percentile_disc",
    "mode",
    "array_agg",
    "string_agg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "covar_pop",
    "covar_samp",
    "corr",
    "only",
]


@dataclass(frozen=True, slots=True)
class Window:
    """Which elements of a stream are in a relation at an instant.

    "range": those of the last `size` microseconds, both ends included; with a `slide` of L those
    of (b - size, b], where b is the last multiple of L. "rows": the last `size` by instant and
    order, of each value of `by` if given; with a `slide` of m as they stood when the number of
    elements was last a multiple of m. A size of None has no bound; [NOW] is a range of 0.

    In a family the size and the slide may be computed: of a query's parameters, or of columns of
    each element.

    A range may also be fixed at its ends, as PSoup's BEGIN and END are: of all elements it sees
    those from the instant `since` on, up to the instant `until`, and only when they are `lag` old.
    """

    kind: WindowKind
    size: int | Expression | None = None
    slide: int | Expression | None = None
    by: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    lag: int = 0

    @property
    def computed(self) -> list[Expression]:
        """What the size and the slide are computed by, if they are."""
        lengths = (self.size, self.slide)
        return [each for each in lengths if each is not None and not isinstance(each, int)]


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
    """One aggregate of a group: of an operand (None counts rows), of those rows that it takes.

    "first" and "last" are the operand of the row where `by` is least or greatest; of several the
    least or the greatest operand. A percentile is at `fraction`, the median at 0.5; `descending`,
    it is at that of the values from the greatest down. "mode" is the value that is there most
    often, of several the least. "array_agg" lists the values, NULLs too, in canonical order, or by
    the order of `by`, of ties in canonical order; "string_agg" joins texts, in the same order, with
    the `separator` between them. The operand and `by` are the two numbers of a covariance and of a
    correlation. "only" is the operand of the only row, NULL or not; that there are several is an
    error of the query. Others pass over NULLs.
    """

    name: str
    kind: AggregateKind
    operand: Expression | None = None
    distinct: bool = False
    where: Expression | None = None
    by: Expression | None = None
    fraction: float | None = None
    descending: bool = False
    nulls_first: bool = False
    separator: str | None = None


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


@dataclass(frozen=True, slots=True)
class Asked:
    """The rows of a relation, each with the answer of a subquery about it as a column `name`.

    "exists": whether the subquery has rows. "in": whether `operands` equal a row of it, in SQL's
    three values; with another `operator` than =, whether the only operand compares so with one of
    its values. "scalar": its only value, NULL without rows; that it has several rows is an error
    of the query. A subquery is correlated if it names columns of `input`.
    """

    input: Relation
    name: str
    kind: AskedKind
    subquery: Relation
    operands: tuple[Expression, ...] = ()
    operator: Comparison = "="


@dataclass(frozen=True, slots=True)
class Order:
    """What rows are ordered by."""

    value: Expression
    descending: bool = False
    nulls_first: bool = False


ALL_ROWS = 2**63 - 1
"""The limit of what is only to be ordered."""


@dataclass(frozen=True, slots=True)
class Top:
    """The first `limit` rows behind the first `offset` by an order; ties are in canonical order.

    With `per` those of each value of some columns.
    """

    input: Relation
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    per: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hop:
    """The rows of a relation after they have travelled, which changes nothing about them.

    They go to the shard that `to` names, a column or what `plan.placement` puts in its place, and
    are there in the stage `number` of an epoch; in stage 0 rows are where streams brought them.
    """

    input: Relation
    to: str
    number: int


Stream: TypeAlias = Source | StreamOf
Relation: TypeAlias = (
    Windowed | Table | Filter | Project | Join | Group | Distinct | Combined | Asked | Top | Hop
)
