"""Joins: pairs of rows that are there at the same time, have equal keys, and fit a condition.

    new left  x  (old right and new right)     and     old left  x  new right

A pair is there from the later start to the earlier end, as often as the product of the weights.
What is remembered of a side are its rows that end after the slab, by key; a side that can be made
again (`again`) is not remembered at all. Rows with a NULL in a key have no partner, unless the key
says that NULLs are equal.

If every shard has all of one side, the first shard remembers it for all of them. The rows of the
other side are remembered in their own shards, by the key but for the bits that say the shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.kernels.grouping import pairs_of
from millrace.kernels.sorted_keys import distinct
from millrace.operators.evaluate import evaluate
from millrace.operators.keys import hash_columns
from millrace.operators.relational.equal import hashes_of, numbered, placed_by, without_nulls
from millrace.operators.relational.folded import consolidated
from millrace.operators.relational.intervals import (
    interval_rows,
    interval_schema,
    intervals_in,
)
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import Timed, concat_rows, rows_of, take_rows
from millrace.operators.vectors import as_array, where_true
from millrace.plan.expressions import Expression

PAIRS_AT_ONCE = 1 << 22

MadeAgain = Callable[[Hashes], Timed]
"""Makes the rows of a side again that have some keys, by the key that decides about the shard."""
Again = tuple[MadeAgain | None, MadeAgain | None]
"""How each side is made again, if it can be."""
NEITHER: Again = (None, None)


@dataclass(frozen=True, slots=True)
class Key:
    """Values of both sides that must be equal; if `nulls`, NULL equals NULL."""

    left: Expression
    right: Expression
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class Side:
    """Rows of one side with their keys."""

    timed: Timed
    keys: pa.RecordBatch
    hashes: Hashes
    able: Bools
    """Which rows can have a partner."""


@dataclass(frozen=True, slots=True)
class InnerJoin:
    """Pairs of two relations; `condition` is what keys do not say."""

    name: str
    left: pa.Schema
    right: pa.Schema
    keys: tuple[Key, ...]
    condition: Expression | None
    place: str | None = None
    everywhere: tuple[str, str] | None = None
    """The side ("left", "right") that every shard has, and the column that places the other."""
    remembered: tuple[str, ...] = ("left", "right")

    @property
    def schema(self) -> pa.Schema:
        """The columns of both sides."""
        return pa.schema([*self.left, *self.right])

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        schemas = {"left": self.left, "right": self.right}
        return {f"{self.name}.{side}": interval_schema(schemas[side]) for side in self.remembered}

    def step(self, left: Timed, right: Timed, slab: Slab, again: Again = NEITHER) -> Timed:
        """Take what is new on both sides; those that are not remembered can be made again."""
        new_left, new_right = self._sides(left, right, slab)
        old_left = self._old("left", self.left, new_right, slab, again[0])
        old_right = self._old("right", self.right, new_left, slab, again[1])
        found = [
            self._pairs(new_left, old_right, slab),
            self._pairs(new_left, new_right, slab),
            self._pairs(old_left, new_right, slab),
        ]
        for side, schema, new in (
            ("left", self.left, new_left),
            ("right", self.right, new_right),
        ):
            if side in self.remembered:
                self._remember(side, schema, new, slab)
        return Timed.concat(found, self.schema)

    def pairs(self, left: Timed, right: Timed, slab: Slab) -> Timed:
        """Return the pairs of two sides."""
        return self._pairs(*self._sides(left, right, slab), slab)

    def _sides(self, left: Timed, right: Timed, slab: Slab) -> tuple[Side, Side]:
        return (
            self._side(left, [each.left for each in self.keys], slab),
            self._side(right, [each.right for each in self.keys], slab),
        )

    def _side(self, timed: Timed, values: list[Expression], slab: Slab) -> Side:
        n_rows = len(timed)
        columns = [as_array(evaluate(each, timed.rows, slab.functions), n_rows) for each in values]
        keys = rows_of(columns, [str(at) for at in range(len(columns))], n_rows)
        strict = [column for column, key in zip(columns, self.keys, strict=True) if not key.nulls]
        return Side(timed, keys, hashes_of(keys, self.place), without_nulls(strict, n_rows))

    def _old(
        self, side: str, schema: pa.Schema, partners: Side, slab: Slab, again: MadeAgain | None
    ) -> Side:
        """Return the rows of a side, from before the slab, that may have one of some partners."""
        values = [each.left if side == "left" else each.right for each in self.keys]
        if again is None:
            return self._side(self._remembered(side, schema, partners, slab), values, slab)
        assert self.place is not None, "what is made again is found by the key that places it"
        keys = hash_columns(partners.keys, [self.place])[partners.able]
        found = again(distinct(keys)) if len(keys) else Timed.empty(schema)
        return self._side(found, values, slab)

    def _remembered(self, side: str, schema: pa.Schema, partners: Side, slab: Slab) -> Timed:
        here = self.everywhere is not None and side != self.everywhere[0]
        wanted = distinct(partners.hashes[partners.able])
        read = slab.state.anywhere if here else slab.state.of
        rows = read(f"{self.name}.{side}", interval_schema(schema), wanted, slab.begin)
        return consolidated(intervals_in(rows, schema), slab.begin)

    def _remember(self, side: str, schema: pa.Schema, new: Side, slab: Slab) -> None:
        if self.everywhere is not None and side == self.everywhere[0] and not slab.state.first:
            return
        lasting = np.flatnonzero((new.timed.ends > slab.end) & new.able)
        kept, hashes = new.timed.take(lasting), new.hashes[lasting]
        if self.everywhere is not None and side != self.everywhere[0]:
            hashes = placed_by(kept.rows, self.everywhere[1], hashes)
        slab.state.add(f"{self.name}.{side}", interval_rows(kept, hashes, schema))

    def _pairs(self, left: Side, right: Side, slab: Slab) -> Timed:
        if not len(left.timed) or not len(right.timed):
            return Timed.empty(self.schema)
        one, other = _matches(left, right)
        found = []
        for first in range(0, len(one), PAIRS_AT_ONCE):
            piece = slice(first, first + PAIRS_AT_ONCE)
            found.append(self._fitting(left.timed, right.timed, one[piece], other[piece], slab))
        return Timed.concat(found, self.schema)

    def _fitting(self, left: Timed, right: Timed, one: Ints, other: Ints, slab: Slab) -> Timed:
        starts = np.maximum(left.starts[one], right.starts[other])
        ends = np.minimum(left.ends[one], right.ends[other])
        together = np.flatnonzero(starts < ends)
        one, other = one[together], other[together]
        columns = [*take_rows(left.rows, one).columns, *take_rows(right.rows, other).columns]
        pairs = Timed(
            rows_of(columns, self.schema.names, len(one)),
            starts[together],
            ends[together],
            left.weights[one] * right.weights[other],
        )
        if self.condition is None:
            return pairs
        return pairs.where(true_rows(self.condition, pairs, slab))


def true_rows(condition: Expression, timed: Timed, slab: Slab) -> Bools:
    """Say for which rows a condition is true: neither false nor unknown."""
    return where_true(evaluate(condition, timed.rows, slab.functions), len(timed))


def _matches(left: Side, right: Side) -> tuple[Ints, Ints]:
    """Return the places of all pairs with equal keys."""
    n_left = len(left.timed)
    keys = concat_rows([left.keys, right.keys], left.keys.schema)
    numbers, firsts = numbered(keys, np.concatenate((left.hashes, right.hashes)))
    able = np.flatnonzero(right.able)
    mine = numbers[n_left:][able]
    order = np.argsort(mine, kind="stable")
    begins = np.searchsorted(mine[order], np.arange(len(firsts) + 1))
    wanted = np.where(left.able, numbers[:n_left], -1)
    return pairs_of(able[order], begins, wanted)
