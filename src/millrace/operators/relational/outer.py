"""Outer joins: the pairs, and the rows of a preserved side that have no partner, with NULLs.

A row has a partner as long as it is in some pair. So the different left sides of all pairs are a
relation of their own, and what is left of a side when they are taken out is without a partner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.operators.relational.join import NEITHER, Again, InnerJoin, Key
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.sweep import Sweep, distinct
from millrace.operators.relational.timed import Timed, rows_of
from millrace.plan.expressions import Column
from millrace.plan.placement import FIRST
from millrace.plan.relations import JoinKind


@dataclass(frozen=True, slots=True)
class Unmatched:
    """The rows of one side of a join that are in no pair."""

    once: Sweep
    taken: InnerJoin

    @classmethod
    def of(cls, name: str, side: pa.Schema, place: str | None) -> Unmatched:
        """Look for rows of these columns."""
        partner = pa.schema([pa.field(f"#{each.name}", each.type) for each in side])
        keys = tuple(Key(Column(each), Column(f"#{each}"), nulls=True) for each in side.names)
        once_at = place if place in (None, FIRST) else f"#{place}"
        taken_at = place if place in (None, FIRST) else str(side.get_field_index(place))
        once = Sweep(f"{name}.once", partner, 1, distinct, once_at)
        return cls(once, InnerJoin(f"{name}.taken", side, partner, keys, None, taken_at))

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {**self.once.stores(), **self.taken.stores()}

    def step(self, side: Timed, pairs: Timed, slab: Slab) -> Timed:
        """Take what is new on the side, and the new pairs."""
        names = side.rows.schema.names
        columns = pairs.rows.select(names).columns
        partners = rows_of(columns, self.once.schema.names, len(pairs))
        matched = self.taken.step(side, self.once.step([pairs.with_rows(partners)], slab), slab)
        gone = Timed(matched.rows.select(names), matched.starts, matched.ends, -matched.weights)
        return Timed.concat([side, gone], side.rows.schema)


@dataclass(frozen=True, slots=True)
class OuterJoin:
    """A join that preserves its left side, its right one, or both."""

    inner: InnerJoin
    left: Unmatched | None
    right: Unmatched | None

    @classmethod
    def of(cls, kind: JoinKind, inner: InnerJoin, left: str | None, right: str | None) -> OuterJoin:
        """Make an outer join of an inner one; sides are placed by their columns `left`, `right`."""
        return cls(
            inner,
            Unmatched.of(f"{inner.name}.l", inner.left, left) if kind in ("left", "full") else None,
            Unmatched.of(f"{inner.name}.r", inner.right, right)
            if kind in ("right", "full")
            else None,
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of both sides."""
        return self.inner.schema

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        parts = (self.inner, self.left, self.right)
        return {
            name: schema
            for each in parts
            if each is not None
            for name, schema in each.stores().items()
        }

    def step(self, left: Timed, right: Timed, slab: Slab, again: Again = NEITHER) -> Timed:
        """Take what is new on both sides; those that are not remembered can be made again."""
        pairs = self.inner.step(left, right, slab, again)
        found = [pairs]
        if self.left is not None:
            found.append(self._padded(self.left.step(left, pairs, slab)))
        if self.right is not None:
            found.append(self._padded(self.right.step(right, pairs, slab)))
        return Timed.concat(found, self.schema)

    def _padded(self, side: Timed) -> Timed:
        """Put NULLs in the place of the columns that a side does not have."""
        n_rows = len(side)
        columns = [
            side.rows.column(each.name)
            if each.name in side.rows.schema.names
            else pa.nulls(n_rows, each.type)
            for each in self.schema
        ]
        weights = np.asarray(side.weights)
        rows = rows_of(columns, self.schema.names, n_rows)
        return Timed(rows, side.starts, side.ends, weights)
