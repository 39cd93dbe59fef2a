"""The queries of a family, prepared to be asked: their constants as ranges of codes.

Preparing takes about a microsecond a query and range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.kernels.lineage import WORD
from millrace.operators.codes import TextCodes, codes_of, is_text
from millrace.operators.joining.conditions import Conditions, Range
from millrace.operators.ranges import Coder, Ends, end_of, evaluate_constants
from millrace.operators.relational.timed import take_rows
from millrace.plan.expressions import Expression
from millrace.plan.joining import Joining
from millrace.plan.levels import QUERY
from millrace.sharing.codes import as_range

BORN = "born"


@dataclass(frozen=True, eq=False)
class Ranged:
    """A range of each query, and how values get the codes that are compared with it."""

    low: Ints
    high: Ints
    coder: Coder

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """Where ranges begin, and where they end, in order; of those that are not empty."""
        real = self.low <= self.high
        return np.sort(self.low[real]), np.sort(self.high[real])

    def take(self, at: Ints) -> Ranged:
        """Return the ranges of some queries."""
        return Ranged(self.low[at], self.high[at], self.coder)


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Queries of a family: ids, the changes they came with, parameters, ranges, sizes of windows.

    `unsettled` are conditions that ranges do not answer, for all queries if it is so for one.
    """

    ids: Ints
    born: Ints
    parameters: pa.RecordBatch
    ranges: tuple[Ranged, ...]
    sizes: tuple[Ints, ...]
    unsettled: tuple[Expression, ...]

    @classmethod
    def of(cls, rows: pa.RecordBatch, joining: Joining, conditions: Conditions) -> Queries:
        """Prepare queries."""
        names = [each for each in rows.schema.names if each not in (QUERY, BORN)]
        parameters = rows.select(names)
        ranges, unsettled = [], [*conditions.residuals]
        for each in conditions.ranges:
            ranged, exact = _ranged(each, parameters)
            ranges.append(ranged)
            unsettled += () if exact else each.conditions
        sizes = tuple(_sizes(each.window.window.size, parameters) for each in joining.leaves)
        ids, born = (rows.column(each).to_numpy() for each in (QUERY, BORN))
        return cls(ids, born, parameters, tuple(ranges), sizes, tuple(unsettled))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_bytes(self) -> int:
        """How much memory they take, about."""
        arrays = [self.ids, self.born, *self.sizes]
        arrays += [end for each in self.ranges for end in (each.low, each.high)]
        return sum(each.nbytes for each in arrays) + int(self.parameters.nbytes)

    @property
    def reach(self) -> int:
        """How far back the widest window of a query sees, and one instant more."""
        return max((int(each.max(initial=0)) for each in self.sizes), default=0) + 1

    def take(self, at: Ints) -> Queries:
        """Return some queries."""
        return Queries(
            self.ids[at],
            self.born[at],
            take_rows(self.parameters, at),
            tuple(each.take(at) for each in self.ranges),
            tuple(each[at] for each in self.sizes),
            self.unsettled,
        )


def _ranged(asked: Range, parameters: pa.RecordBatch) -> tuple[Ranged, bool]:
    """Return the range of each query, and whether it answers the conditions for all of them."""
    n_rows = parameters.num_rows
    ends = []
    for bounds, least in ((asked.lows, True), (asked.highs, False)):
        for bound in bounds:
            found, exact = end_of(bound, asked.type, parameters, least=least)
            assert found is not None, "there is a bound"
            ends.append(Ends(found, None, exact) if least else Ends(None, found, exact))
    coder: Coder = codes_of
    if is_text(asked.type):
        constants = [each for one in ends for each in one.constants()]
        coder = TextCodes.of(pa.concat_arrays(constants)).codes_of
    low, high = as_range(np.full(n_rows, -(2**63)), np.full(n_rows, 2**63 - 1))
    for each in ends:
        one, other = each.codes(coder, n_rows)
        low, high = np.maximum(low, one), np.minimum(high, other)
    return Ranged(low, high, coder), all(bool(each.exact.all()) for each in ends)


def _sizes(size: int | Expression | None, parameters: pa.RecordBatch) -> Ints:
    """Return how large the windows of queries are; one without a size sees nothing."""
    assert size is not None, "a window of a leaf has a size"
    if isinstance(size, int):
        return np.full(parameters.num_rows, size)
    found: Ints = evaluate_constants(size, parameters).cast(pa.int64()).fill_null(-1).to_numpy()
    return found


def blocks(some: Ints, n_rows: int, most_cells: int) -> Iterator[Ints]:
    """Cut queries so that the bits of a number of rows fit into some words."""
    n_words = max(1, min(-(-len(some) // WORD), most_cells // max(n_rows, 1)))
    for first in range(0, len(some), n_words * WORD):
        yield some[first : first + n_words * WORD]
