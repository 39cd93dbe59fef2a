"""What is told: rows that are computed once, and the pairs that say whose they are.

    pairs          (driver r1, partner s1) for q3, (r1, s1) for q7, (r2, s1) for q7
    rows           of (r1, s1) and of (r2, s1), computed once each
    at, queries    0 0 1 and q3 q7 q7

Pairs are numbers alone: however wide a row is, it costs that once. Only where what is told names a
parameter does each query have a row of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.kernels.grouping import add_by_number, number_hashes
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
    """Combinations, each with a query that wants it, by its number."""

    found: Combinations
    queries: Ints

    def __len__(self) -> int:
        return len(self.queries)

    @classmethod
    def concat(cls, parts: Sequence[Pairs]) -> Pairs:
        """Put pairs of the same leaves behind each other."""
        parts = [each for each in parts if len(each)]
        if not parts:
            return cls(Combinations({}, _NONE, NO_BITS), _NONE)
        rows = {
            leaf: np.concatenate([each.found.rows[leaf] for each in parts])
            for leaf in sorted(parts[0].found.rows)
        }
        times = np.concatenate([each.found.times for each in parts])
        queries = np.concatenate([each.queries for each in parts])
        return cls(Combinations(rows, times, NO_BITS), queries)


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
        rows = firsts[rows]
        columns = [packed(queries, bounds), *take_rows(self.rows, rows).columns]
        return rows_of(columns, [SETS, *self.rows.schema.names], len(rows)), self.times[rows]


def still_wanted(stems: Stems, pairs: Pairs, queries: Queries, functions: Functions) -> Pairs:
    """Ask what is left to be asked of each combination and its query."""
    if not queries.unsettled:
        return pairs
    kept = left_over(stems, pairs.found, queries, pairs.queries, functions)
    places = {leaf: each[kept] for leaf, each in pairs.found.rows.items()}
    return Pairs(Combinations(places, pairs.found.times[kept], NO_BITS), pairs.queries[kept])


def told_rows(
    stems: Stems, pairs: Pairs, queries: Queries, telling: Telling, *, timed: bool = False
) -> Rows:
    """Compute what is told of each combination: once, or once for each query if that differs.

    Combinations are `timed` if the same one may be told at several instants.
    """
    if not len(pairs):
        return Rows.concat([], telling.told)
    places = [(each, len(stems.leaves[leaf])) for leaf, each in pairs.found.rows.items()]
    if telling.depends:
        places.append((pairs.queries, len(queries)))
    if timed:
        instants, different = number_hashes(pairs.found.times.astype(np.uint64))
        places.append((instants, len(different)))
    at, firsts = numbered_places(places, len(pairs))
    once = {leaf: each[firsts] for leaf, each in pairs.found.rows.items()}
    found = Combinations(once, pairs.found.times[firsts], NO_BITS)
    values = [each.value for each in telling.outputs]
    rows = columns_of(stems, found, values)
    parameters = take_rows(queries.parameters, pairs.queries[firsts])
    columns = [
        plain(as_array(evaluate(each, rows, telling.functions, parameters), len(found)))
        for each in values
    ]
    told = rows_of(columns, telling.told.names, len(found))
    return Rows(found.times, told, at, pairs.queries)
