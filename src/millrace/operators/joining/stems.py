"""SteMs as one slab sees them: the elements of each leaf, past and new, found by key and time.

Elements are stored once for each stream and column, for all plans and families (decision 35). Of
the past those are read that have a key which something of the slab has, and that the widest window
of a query reaches. Behind them stand the elements of the slab itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.kernels.sorted_keys import distinct
from millrace.operators.evaluate import Function, evaluate
from millrace.operators.joining import rules
from millrace.operators.joining.conditions import Equality
from millrace.operators.keys import hash_columns
from millrace.operators.relational.equal import numbered, without_nulls
from millrace.operators.relational.rowwise import plain_elements
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.timed import concat_rows, rows_of, take_rows
from millrace.operators.vectors import as_array, where_true
from millrace.plan.expressions import Expression
from millrace.plan.joining import Leaf
from millrace.plan.levels import CAME
from millrace.plan.relations import Filter

Functions = Mapping[str, Function]
GREATEST_NUMBER = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a leaf: when each came, in which epoch, and its key; the first are of the past."""

    rows: pa.RecordBatch
    times: Ints
    epochs: Ints
    keys: Hashes
    n_past: int

    def __len__(self) -> int:
        return len(self.times)

    def take(self, at: Ints) -> Rows:
        """Return rows at some places, in order."""
        n_past = int(np.searchsorted(at, self.n_past))
        rows = take_rows(self.rows, at)
        return Rows(rows, self.times[at], self.epochs[at], self.keys[at], n_past)

    def where(self, mask: Bools) -> Rows:
        """Return the rows for which `mask` is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    @property
    def new(self) -> Ints:
        """The places of what is of the slab."""
        return np.arange(self.n_past, len(self))


def truth(
    condition: Expression,
    rows: pa.RecordBatch,
    functions: Functions,
    parameters: pa.RecordBatch | None = None,
) -> Bools:
    """Say for which rows a condition is true: neither false nor unknown."""
    return where_true(evaluate(condition, rows, functions, parameters), rows.num_rows)


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads the elements of one leaf; `place` is the column by which its stream is spread."""

    leaf: Leaf
    condition: Expression | None
    names: tuple[str, ...]
    """What the plan calls the columns of the stream."""
    place: str | None
    since: int = 0
    """The epoch from which on somebody sees elements: a function that fails for others fails
    for nobody."""

    def new(self, slab: Slab) -> Rows:
        """Return what the slab brings."""
        return self._made(slab.streams[self.leaf.stream], 0, slab)

    def past(self, keys: Sequence[Hashes], reach: int, slab: Slab) -> Rows:
        """Return what came before the slab, at most `reach` before it, with one of some keys."""
        assert slab.past is not None, "a family that is one join is given stored elements"
        stream, after = self.leaf.stream, slab.begin - reach - 1
        if self.place is None:
            found = slab.past.between(stream, after + 1, slab.begin)
        else:
            wanted = distinct(np.concatenate([np.zeros(0, np.uint64), *keys]))
            found = slab.past.of(stream, wanted, after)
        return self._made(found, len(found), slab)

    def between(self, begin: int, end: int, slab: Slab) -> Rows:
        """Return what came before the slab and has a time in [begin, end)."""
        assert slab.past is not None, "a family that is one join is given stored elements"
        return self._made(slab.past.between(self.leaf.stream, begin, max(begin, end)), 0, slab)

    def _made(self, elements: Elements, n_past: int, slab: Slab) -> Rows:
        raw = plain_elements(elements).rows
        keys = np.zeros(len(elements), np.uint64)
        if self.place is not None:
            keys = hash_columns(raw, [self.place])
        epochs = raw.column(CAME).to_numpy()
        columns = raw.drop_columns([CAME]).columns
        named = rows_of(columns, self.names, len(elements))
        found = Rows(named, elements.times, epochs, keys, n_past).where(epochs >= self.since)
        for node in self.leaf.below:
            if isinstance(node, Filter):
                found = found.where(truth(node.condition, found.rows, slab.functions))
                continue
            values = [evaluate(each.value, found.rows, slab.functions) for each in node.outputs]
            names = [each.name for each in node.outputs]
            arrays = [as_array(each, len(found)) for each in values]
            rows = rows_of(arrays, names, len(found))
            found = Rows(rows, found.times, found.epochs, found.keys, found.n_past)
        if self.condition is not None:
            found = found.where(truth(self.condition, found.rows, slab.functions))
        return found


def behind(past: Rows, new: Rows) -> Rows:
    """Return the elements of a slab behind those of the past."""
    return Rows(
        concat_rows([past.rows, new.rows], new.rows.schema),
        np.concatenate((past.times, new.times)),
        np.concatenate((past.epochs, new.epochs)),
        np.concatenate((past.keys, new.keys)),
        len(past),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The rows of a leaf by the numbers of their keys, and those of a key by time."""

    keys: Ints
    starts: Ints
    times: Ints
    places: Ints

    def wanted(self, numbers: Ints) -> Ints:
        """Return which key each number is, or -1 for none."""
        if not len(self.keys):
            return np.full(len(numbers), -1)
        at = np.minimum(np.searchsorted(self.keys, numbers), len(self.keys) - 1)
        return np.where(self.keys[at] == numbers, at, -1)


class Stems:
    """The leaves of one slab, and how each is asked by the equalities that bind it to others."""

    def __init__(
        self, leaves: Sequence[Rows], equalities: Sequence[Equality], functions: Functions
    ) -> None:
        self.leaves, self._equalities = leaves, equalities
        self._numbers = [self._numbered(each, functions) for each in equalities]
        self._indexes: dict[tuple[int, tuple[int, ...]], Index] = {}

    def _numbered(self, each: Equality, functions: Functions) -> tuple[Ints, Ints]:
        """Number the values of both sides: equal ones have one number, NULL has none."""
        columns = [
            as_array(evaluate(value, self.leaves[leaf].rows, functions), len(self.leaves[leaf]))
            for leaf, value in zip(each.leaves, each.values, strict=True)
        ]
        n_left, n_all = len(columns[0]), sum(map(len, columns))
        keys = rows_of([pa.concat_arrays(columns)], ["key"], n_all)
        numbers, _ = numbered(keys)
        if not each.nulls:
            numbers = np.where(without_nulls(keys.columns, n_all), numbers, -1)
        return numbers[:n_left], numbers[n_left:]

    def binding(self, leaf: int, bound: frozenset[int]) -> tuple[int, ...]:
        """Return the equalities between a leaf and those that are bound already."""
        return tuple(
            at
            for at, each in enumerate(self._equalities)
            if leaf in each.leaves and {*each.leaves} - {leaf} <= bound
        )

    def index(self, leaf: int, by: tuple[int, ...]) -> Index:
        """Return how a leaf is asked by some equalities."""
        if (leaf, by) not in self._indexes:
            self._indexes[leaf, by] = self._indexed(leaf, by)
        return self._indexes[leaf, by]

    def _indexed(self, leaf: int, by: tuple[int, ...]) -> Index:
        rows = self.leaves[leaf]
        places = rules.built(rows.n_past, len(rows))
        numbers = self.numbers(by, {leaf: places}, len(places))
        kept = np.flatnonzero(numbers >= 0)
        order = kept[np.lexsort((rows.times[places[kept]], numbers[kept]))]
        keys, firsts = np.unique(numbers[order], return_index=True)
        starts = np.append(firsts, len(order))
        return Index(keys, starts, rows.times[places[order]], places[order])

    def numbers(self, by: tuple[int, ...], at: Mapping[int, Ints], n_rows: int) -> Ints:
        """Number rows by some equalities; `at` are places of the leaves on one side of them.

        Of several the numbers are made one, as long as that fits; `agree` looks at the others.
        """
        found = np.zeros(n_rows, np.int64)
        for each in self._fitting(by):
            numbers = self._side(each, at)
            radix = self._radix(each)
            found = np.where((found >= 0) & (numbers >= 0), found * radix + numbers, -1)
        return found

    def agree(self, by: tuple[int, ...], at: Mapping[int, Ints], leaf: int, mine: Ints) -> Bools:
        """Say which rows of a leaf have equal values with those that they were found by."""
        found = np.ones(len(mine), np.bool_)
        for each in by[len(self._fitting(by)) :]:
            numbers = self._side(each, {leaf: mine})
            found &= (numbers >= 0) & (numbers == self._side(each, at))
        return found

    def _side(self, equality: int, at: Mapping[int, Ints]) -> Ints:
        leaves = self._equalities[equality].leaves
        side = 0 if leaves[0] in at else 1
        return self._numbers[equality][side][at[leaves[side]]]

    def _radix(self, equality: int) -> int:
        return 1 + max(int(each.max(initial=0)) for each in self._numbers[equality])

    def _fitting(self, by: tuple[int, ...]) -> tuple[int, ...]:
        size = 1
        for at, each in enumerate(by):
            size *= self._radix(each)
            if size > GREATEST_NUMBER:
                return by[:at]
        return by
