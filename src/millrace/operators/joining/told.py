"""What is told: rows that are computed once, and the pairs that say whose they are.

    found          (driver r1, partner s1) and (r2, s1)
    at, queries    0 0 1 and q3 q7 q7: (r1, s1) for q3 and for q7, (r2, s1) for q7
    rows           of (r1, s1) and of (r2, s1), computed once each

Pairs are numbers alone: however wide a row is, it costs that once. Only where what is told names a
parameter does each query have a row of its own. Lineage gives pairs in order, combination by
combination, so that sets of queries are cut out of them and nothing is sorted.

Cost: 10 ns a pair in order, 60 ns one that is not; 0.5 us a combination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.kernels.grouping import add_by_number, firsts_of, number_hashes
from millrace.operators.evaluate import evaluate
from millrace.operators.joining.alike import numbered_places
from millrace.operators.joining.exploring import NO_BITS, Combinations, columns_of
from millrace.operators.joining.queries import Queries
from millrace.operators.joining.residuals import left_over
from millrace.operators.joining.stems import Functions, Stems
from millrace.operators.query_sets import SETS, grouped, packed
from millrace.operators.relational.equal import numbered, plain
from millrace.operators.relational.timed import concat_rows, empty_rows, rows_of, take_rows
from millrace.operators.vectors import as_array
from millrace.plan.levels import has_parameter
from millrace.plan.nodes import Output

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Telling:
    """What is told of combinations, and the functions that are called for it."""

    outputs: tuple[Output, ...]
    told: pa.Schema
    functions: Functions

    @property
    def depends(self) -> bool:
        """Whether what is told depends on the query."""
        return any(has_parameter(each.value) for each in self.outputs)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Combinations, and who wants them: `at[i]` is wanted by the query of number `queries[i]`.

    Places ascend, and each combination is wanted by somebody: others are not computed.
    """

    found: Combinations
    at: Ints
    queries: Ints

    def __len__(self) -> int:
        return len(self.queries)

    @classmethod
    def of(cls, found: Combinations, at: Ints, queries: Ints) -> Pairs:
        """Leave out combinations that nobody wants; places ascend."""
        begins = firsts_of(at)
        used = at[begins]
        if len(used) == len(found):
            return cls(found, at, queries)
        return cls(found.take(used), np.cumsum(begins) - 1, queries)

    @classmethod
    def of_each(cls, found: Combinations, queries: Ints) -> Pairs:
        """Pair each of some combinations with a query; they may be there several times."""
        return cls(found, np.arange(len(found)), queries)

    def numbered_from(self, first: int) -> Pairs:
        """Return them with the numbers of queries that begin with another than 0."""
        return replace(self, queries=self.queries + first) if first else self

    def apart(self) -> Pairs:
        """Return a combination for each pair."""
        return Pairs.of_each(self.found.take(self.at), self.queries)

    @classmethod
    def concat(cls, parts: Sequence[Pairs]) -> Pairs:
        """Put pairs of the same leaves behind each other."""
        parts = [each for each in parts if len(each)]
        if not parts:
            return cls(Combinations({}, _NONE, NO_BITS), _NONE, _NONE)
        if len(parts) == 1:
            return parts[0]
        rows = {
            leaf: np.concatenate([each.found.rows[leaf] for each in parts])
            for leaf in sorted(parts[0].found.rows)
        }
        times = np.concatenate([each.found.times for each in parts])
        lengths = [len(each.found) for each in parts]
        begins = np.cumsum(lengths) - lengths
        at = np.concatenate([each.at + first for each, first in zip(parts, begins, strict=True)])
        queries = np.concatenate([each.queries for each in parts])
        return cls(Combinations(rows, times, NO_BITS), at, queries)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows at instants, and whose they are: row `at[i]` is for the query of number `queries[i]`."""

    times: Ints
    rows: pa.RecordBatch
    at: Ints
    queries: Ints

    def __len__(self) -> int:
        return len(self.queries)

    @classmethod
    def concat(cls, parts: Sequence[Rows], schema: pa.Schema) -> Rows:
        """Put rows behind each other."""
        parts = [each for each in parts if len(each)]
        if not parts:
            return cls(_NONE, empty_rows(schema), _NONE, _NONE)
        lengths = [len(each.times) for each in parts]
        begins = np.cumsum(lengths) - lengths
        return cls(
            np.concatenate([each.times for each in parts]),
            concat_rows([each.rows for each in parts], schema),
            np.concatenate([each.at + first for each, first in zip(parts, begins, strict=True)]),
            np.concatenate([each.queries for each in parts]),
        )

    def numbered(self) -> tuple[Ints, Ints]:
        """Number rows that are equal at one instant; return where each number occurs first."""
        columns = [pa.array(self.times), *self.rows.columns]
        names = ["_time", *self.rows.schema.names]
        return numbered(rows_of(columns, names, len(self.times)))

    def less(self, others: Rows, n_queries: int) -> Rows:
        """Return these without those that equal others, of the same query and instant."""
        both_ways = Rows.concat([self, others], self.rows.schema)
        numbers, firsts = both_ways.numbered()
        values = numbers[both_ways.at]
        places = [(values, len(firsts)), (both_ways.queries, n_queries)]
        pairs, first_pairs = numbered_places(places, len(values))
        signs = np.where(np.arange(len(values)) < len(self), 1, -1)
        net = np.maximum(add_by_number(pairs, signs[:, None], len(first_pairs))[:, 0], 0)
        left = np.repeat(first_pairs, net)
        return Rows(both_ways.times, both_ways.rows, firsts[values[left]], both_ways.queries[left])

    def as_sets(self, ids: Ints, *, distinct: bool) -> tuple[pa.RecordBatch, Ints]:
        """Return each row once, behind the set of its queries, and the times of rows.

        Unless rows are `distinct` because of what they are made of, equal ones become one.
        """
        at, firsts = self.at, np.arange(len(self.times))
        if not distinct:
            numbers, firsts = self.numbered()
            at = numbers[at]
        rows, queries, bounds = grouped(at, ids[self.queries], len(firsts))
        told, times = self.rows, self.times
        if not np.array_equal(rows := firsts[rows], np.arange(len(times))):
            told, times = take_rows(told, rows), times[rows]
        columns = [packed(queries, bounds), *told.columns]
        return rows_of(columns, [SETS, *told.schema.names], len(times)), times


def still_wanted(stems: Stems, pairs: Pairs, queries: Queries, functions: Functions) -> Pairs:
    """Ask what is left to be asked of each combination and its query."""
    if not queries.unsettled:
        return pairs
    found = pairs.found.take(pairs.at)
    kept = left_over(stems, found, queries, pairs.queries, functions)
    return Pairs.of(pairs.found, pairs.at[kept], pairs.queries[kept])


def told_rows(
    stems: Stems, pairs: Pairs, queries: Queries, telling: Telling, *, timed: bool = False
) -> Rows:
    """Compute what is told of each combination: once, or once for each query if that differs.

    Combinations are `timed` if the same one may be told at several instants.
    """
    if not len(pairs):
        return Rows.concat([], telling.told)
    if telling.depends:
        pairs = pairs.apart()
    places = [(each, len(stems.leaves[leaf])) for leaf, each in pairs.found.rows.items()]
    if telling.depends:
        places.append((pairs.queries, len(queries)))
    if timed:
        instants, begun = number_hashes(pairs.found.times.astype(np.uint64))
        places.append((instants, len(begun)))
    numbers, firsts = numbered_places(places, len(pairs.found))
    different = len(firsts) == len(pairs.found)  # then they are numbered as they stand
    found = pairs.found if different else pairs.found.take(firsts)
    values = [each.value for each in telling.outputs]
    rows = columns_of(stems, found, values)
    parameters = take_rows(queries.parameters, pairs.queries[firsts]) if telling.depends else None
    columns = [
        plain(as_array(evaluate(each, rows, telling.functions, parameters), len(found)))
        for each in values
    ]
    told = rows_of(columns, telling.told.names, len(found))
    return Rows(found.times, told, pairs.at if different else numbers[pairs.at], pairs.queries)
