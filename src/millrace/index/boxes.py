"""Boxes: every query as disjoint boxes in the space of codes.

A box is an interval of each column. A clause with several literals is a union of boxes, which are
made disjoint by excluding from each what the earlier ones hold:

    a = 1 OR b > 5    ─►   a in [1, 1]
                           a in [NULL, 0]   and b in [6, MAX]
                           a in [2, MAX]    and b in [6, MAX]

Because NULL is a code like any other, "not true" is the complement of "true", and the three
values of logic need no further care. The boxes of a conjunction are the intersections of the
boxes of its clauses.

Invariant: a row lies in at most one box of a query, and in one exactly if the query's clauses
hold for it, unless the query is to be verified; then it lies in one at least if they hold.

Cost: at most 32 boxes a query, and one for each point of an IN list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.index.atoms import Analysis, Atom, Clause
from millrace.index.intervals import ends_of
from millrace.kernels.arrays import Bools, Ints
from millrace.operators.codes import MAX_CODE, NULL_CODE, valid
from millrace.operators.ranges import (
    EMPTY,
    PRESENT,
    Coder,
    Ends,
    converted,
    evaluate_constants,
)
from millrace.plan.expressions import Parameter

Coders = Callable[[str, pa.DataType], Coder]
Interval = tuple[Ints, Ints]
Box = dict[str, Interval]


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Boxes of the queries of one family: of which query each is, and its constrained columns."""

    queries: Ints
    intervals: Mapping[str, Interval]
    verify: Bools


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """The points of an IN list: of which query each is, and its value."""

    atom: Atom
    queries: Ints
    values: pa.Array
    widened: Bools


class Draft:
    """The boxes of some queries of a family, before texts have codes."""

    def __init__(self, analysis: Analysis, parameters: pa.RecordBatch) -> None:
        self._n_queries = parameters.num_rows
        self._clauses: list[list[tuple[Atom, Ends]]] = []
        self._points: _Points | None = None
        for clause in analysis.clauses:
            if clause[0].form == "points":
                self._points = _points_of(clause[0], parameters)
            else:
                self._clauses.append(_evaluated(clause, parameters))

    @property
    def constants(self) -> Iterator[tuple[str, pa.DataType, pa.Array]]:
        """All constants, by the column that they stand beside; every column appears."""
        for clause in self._clauses:
            for atom, ends in clause:
                for values in ends.constants() or [pa.nulls(0)]:
                    yield atom.name, atom.type, values
        if self._points is not None:
            yield self._points.atom.name, self._points.atom.type, self._points.values

    def boxes(self, coders: Coders) -> Boxes:
        """Give the boxes, with codes; empty ones are left out."""
        expanded = [self._expanded(clause, coders) for clause in self._clauses]
        found = [_intersection(choice) for choice in product(*expanded)]
        queries = np.tile(np.arange(self._n_queries), len(found))
        columns = dict.fromkeys(column for box in found for column in box)
        whole = {column: _stacked(found, column, self._n_queries) for column in columns}
        if self._points is not None:
            queries, whole = self._at_points(queries, whole, coders)
        kept = np.ones(queries.size, np.bool_)
        for low, high in whole.values():
            kept &= low <= high
        return Boxes(
            queries[kept],
            {column: (low[kept], high[kept]) for column, (low, high) in whole.items()},
            self._verify,
        )

    @cached_property
    def _verify(self) -> Bools:
        doubtful = np.zeros(self._n_queries, np.bool_)
        for clause in self._clauses:
            for _, ends in clause:
                doubtful |= ~ends.exact
        if self._points is not None:
            doubtful |= self._points.widened
        return doubtful

    def _expanded(self, clause: list[tuple[Atom, Ends]], coders: Coders) -> list[Box]:
        """Give the disjoint boxes of one clause."""
        n_queries = self._n_queries
        tests = [
            (atom.name, ends.codes(coders(atom.name, atom.type), n_queries))
            for atom, ends in clause
        ]
        if len(tests) == 1:
            return [dict(tests)]
        found = []
        for nth, (column, interval) in enumerate(tests):
            for outside in product((_below, _above), repeat=nth):
                before = [
                    {other: side(held)}
                    for side, (other, held) in zip(outside, tests[:nth], strict=True)
                ]
                found.append(_intersection((*before, {column: interval})))
        return _widened(found, np.logical_or.reduce([~ends.exact for _, ends in clause]))

    def _at_points(
        self, queries: Ints, whole: dict[str, Interval], coders: Coders
    ) -> tuple[Ints, dict[str, Interval]]:
        """Multiply each box of a query by the query's points."""
        points = self._points
        assert points is not None, "asked for only if there are points"
        column = points.atom.name
        codes = coders(column, points.atom.type)(points.values)
        keyed = np.unique(np.stack((points.queries, codes)), axis=1)
        wide = np.flatnonzero(points.widened)
        owners = np.concatenate((keyed[0], wide))
        low = np.concatenate((keyed[1], np.full(wide.size, PRESENT)))
        high = np.concatenate((keyed[1], np.full(wide.size, MAX_CODE)))
        order = np.argsort(owners, kind="stable")
        first = np.searchsorted(owners[order], np.arange(self._n_queries + 1))
        n_points = np.diff(first)[queries]
        box = np.repeat(np.arange(queries.size), n_points)
        ends = np.cumsum(n_points)
        nth = np.arange(box.size) - np.repeat(ends - n_points, n_points)
        at = order[first[queries[box]] + nth]
        spread = {each: (held[0][box], held[1][box]) for each, held in whole.items()}
        mine = {column: (low[at], high[at])}
        return queries[box], _intersection((spread, mine))


def _evaluated(clause: Clause, parameters: pa.RecordBatch) -> list[tuple[Atom, Ends]]:
    return [(atom, ends_of(atom, parameters)) for atom in clause]


def _points_of(atom: Atom, parameters: pa.RecordBatch) -> _Points:
    n_queries = parameters.num_rows
    first = atom.points[0] if atom.points else None
    if isinstance(first, Parameter) and first.many:
        lists = parameters.column(f"p{first.number}")
        queries = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
        parts = [pc.list_flatten(lists)]
    else:
        queries = np.tile(np.arange(n_queries), len(atom.points))
        parts = [evaluate_constants(point, parameters) for point in atom.points]
    values, possible, exact = _converted_points(parts or [pa.nulls(0)], atom.type)
    widened = np.zeros(n_queries, np.bool_)
    widened[queries[~exact]] = True
    kept = possible & ~widened[queries]
    return _Points(atom, queries[kept], values.filter(pa.array(kept)), widened)


def _converted_points(parts: list[pa.Array], target: pa.DataType) -> tuple[pa.Array, Bools, Bools]:
    """Bring points to the type of their column: the values, whether any can be equal, exactness.

    Points may have different types, as in `price IN (1, 1.5)`; beside integers, 1.5 is no point.
    """
    low = [converted(each, target, least=True, is_open=False) for each in parts]
    high = [converted(each, target, least=False, is_open=False)[0] for each in parts]
    values, highest = pa.concat_arrays([each for each, _, _ in low]), pa.concat_arrays(high)
    apart = pc.fill_null(pc.less(highest, values), fill_value=False)  # not <>: NaN equals itself
    possible = valid(values) & ~apart.to_numpy(zero_copy_only=False)
    return values, possible, np.concatenate([exact for _, _, exact in low])


def _below(held: Interval) -> Interval:
    """Return what lies below an interval, NULL included."""
    first = held[0] == NULL_CODE  # nothing lies below NULL
    low = np.where(first, EMPTY[0], NULL_CODE)
    return low, np.where(first, EMPTY[1], held[0] - 1)


def _above(held: Interval) -> Interval:
    high = np.full(held[1].size, MAX_CODE)
    low = np.where(held[1] == MAX_CODE, MAX_CODE, held[1] + 1)
    return low, np.where(held[1] == MAX_CODE, EMPTY[1], high)


def _intersection(parts: tuple[Mapping[str, Interval], ...]) -> Box:
    whole: Box = {}
    for part in parts:
        for column, (low, high) in part.items():
            least, most = whole.get(column, (low, high))
            whole[column] = (np.maximum(low, least), np.minimum(high, most))
    return whole


def _stacked(found: list[Box], column: str, n_queries: int) -> Interval:
    """Put the intervals of all boxes on one column behind each other."""
    free = np.full(n_queries, NULL_CODE), np.full(n_queries, MAX_CODE)
    held = [box.get(column, free) for box in found]
    return np.concatenate([low for low, _ in held]), np.concatenate([high for _, high in held])


def _widened(found: list[Box], doubtful: Bools) -> list[Box]:
    """Where a literal of the clause is not exact, let the first box hold everything."""
    if not doubtful.any():
        return found
    widened = []
    for nth, box in enumerate(found):
        low, high = (NULL_CODE, MAX_CODE) if nth == 0 else EMPTY
        widened.append(
            {
                column: (np.where(doubtful, low, held[0]), np.where(doubtful, high, held[1]))
                for column, held in box.items()
            }
        )
    return widened
