"""The queries of a family, prepared to be asked: their constants as ranges of codes.

Preparing takes about a microsecond a query and range. When some come and go, only those that come
are prepared, and the others are copied: about 10 ns a query and range.

Invariant: queries that have changed are those that would be prepared now, in the same order. Codes
of texts may differ, and conditions may be asked that ranges answer by now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.kernels.lineage import WORD
from millrace.operators.codes import codes_of, is_text
from millrace.operators.joining.conditions import Conditions, Range
from millrace.operators.joining.spaced import SpacedTexts
from millrace.operators.ranges import Coder, Ends, end_of, evaluate_constants
from millrace.operators.relational.timed import concat_rows, rows_of, take_rows
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

    def changed(self, gone: Ints, come: Ranged) -> Ranged:
        """Return the ranges without those at some places, and others behind them."""
        low, high = (
            np.concatenate((np.delete(one, gone), other))
            for one, other in ((self.low, come.low), (self.high, come.high))
        )
        found = Ranged(low, high, come.coder)
        if "ends" in self.__dict__:  # to sort them again would take ten times as long
            left = self.take(gone)
            found.__dict__["ends"] = tuple(map(_resorted, self.ends, left.ends, come.ends))
        return found


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
        found = cls._coded(rows, joining, conditions, [None] * len(conditions.ranges))
        assert found is not None, "there is room for the first texts"
        return found

    @classmethod
    def _coded(
        cls,
        rows: pa.RecordBatch,
        joining: Joining,
        conditions: Conditions,
        coders: Sequence[Coder | None],
    ) -> Queries | None:
        """Prepare queries, with the codes that are known; None if there is no room for others."""
        names = [each for each in rows.schema.names if each not in (QUERY, BORN)]
        parameters = rows.select(names)
        ranges, unsettled = [], [*conditions.residuals]
        for each, coder in zip(conditions.ranges, coders, strict=True):
            found = _ranged(each, parameters, coder)
            if found is None:
                return None
            ranged, exact = found
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

    @property
    def rows(self) -> pa.RecordBatch:
        """Their ids, the changes that they came with, and their parameters."""
        columns = [pa.array(self.ids), pa.array(self.born), *self.parameters.columns]
        return rows_of(columns, [QUERY, BORN, *self.parameters.schema.names], len(self))

    def changed(
        self, gone: Ints, come: pa.RecordBatch, joining: Joining, conditions: Conditions
    ) -> Queries | None:
        """Return the queries without those at some places, and others behind them.

        None if all have to be prepared anew, as there is no room for the texts of the others.
        """
        more = self._coded(come, joining, conditions, [each.coder for each in self.ranges])
        if more is None:
            return None
        asked = {*self.unsettled, *more.unsettled}
        every = (each for one in conditions.ranges for each in one.conditions)
        parameters = self.parameters
        if len(gone):
            parameters = take_rows(parameters, np.delete(np.arange(len(self)), gone))
        return Queries(
            np.concatenate((np.delete(self.ids, gone), more.ids)),
            np.concatenate((np.delete(self.born, gone), more.born)),
            concat_rows([parameters, more.parameters], self.parameters.schema),
            tuple(map(Ranged.changed, self.ranges, [gone] * len(self.ranges), more.ranges)),
            tuple(
                np.concatenate((np.delete(one, gone), other))
                for one, other in zip(self.sizes, more.sizes, strict=True)
            ),
            tuple(each for each in (*conditions.residuals, *every) if each in asked),
        )

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


def _resorted(ascending: Ints, gone: Ints, come: Ints) -> Ints:
    """Return numbers in order without some of them, and with others; those are in order too."""
    nth = np.arange(len(gone)) - np.searchsorted(gone, gone)  # of several equal ones
    left = np.delete(ascending, np.searchsorted(ascending, gone) + nth)
    return np.insert(left, np.searchsorted(left, come), come)


def _ranged(
    asked: Range, parameters: pa.RecordBatch, known: Coder | None
) -> tuple[Ranged, bool] | None:
    """Return the range of each query, and whether it answers the conditions for all of them.

    None if there is no room for texts among those that are known.
    """
    n_rows = parameters.num_rows
    ends = []
    for bounds, least in ((asked.lows, True), (asked.highs, False)):
        for bound in bounds:
            found, exact = end_of(bound, asked.type, parameters, least=least)
            assert found is not None, "there is a bound"
            ends.append(Ends(found, None, exact) if least else Ends(None, found, exact))
    coder: Coder = codes_of
    if is_text(asked.type):
        constants = pa.concat_arrays([each for one in ends for each in one.constants()])
        spaced = (
            known.holding(constants)
            if isinstance(known, SpacedTexts)
            else SpacedTexts.of(constants)
        )
        if spaced is None:
            return None
        coder = spaced
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
