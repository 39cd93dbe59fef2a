"""Pane rows: elements that no query can tell apart, added up, as they are stored.

A pane is a stretch of time in which no window begins or ends, a cell one of values that no query's
filter cuts. What falls into one pane, one cell of each tested column and one group is added up
once, for all queries; one element of it stands for the time and the tested values of all.

    #birth   #at   keys ...   tested ...   +counts      counts and sums
    #birth   #at   keys ...   tested ...   slot limb    sums beyond the usual digits
    #birth   #at   keys ...   tested ...   value        the extreme, or each different value

Law: a query that was there when a row was made takes all of it or nothing. Those that come later
see later elements only, so nothing that is stored is ever cut again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Hashes, Ints
from millrace.kernels.grouping import add_by_number, firsts_of
from millrace.operators.canonical import canonical_order
from millrace.operators.relational.equal import numbered
from millrace.operators.relational.feeds import operand_of, values_of
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.state import state_rows, state_schema
from millrace.operators.relational.timed import (
    OPEN,
    Timed,
    concat_rows,
    rows_of,
    take_rows,
)
from millrace.operators.relational.totals import RARE, Totals
from millrace.operators.relational.values import BY, VALUE, Values
from millrace.plan.levels import SEEN_FROM

AT = "#at"
_EXTREMES = {"min": 0, "first": 0, "max": -1, "last": -1}


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Pane rows of one store: what stands for them, what is theirs alone, and their counts."""

    features: pa.RecordBatch
    own: pa.RecordBatch
    counts: Ints

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """Elements that meet in pane rows: which row each is of, and where that occurs first."""

    given: Timed
    numbers: Ints
    features: pa.RecordBatch
    shards: Hashes


@dataclass(frozen=True, slots=True)
class PaneRows:
    """Makes and keeps the pane rows of groups."""

    name: str
    keys: pa.Schema
    tested: pa.Schema
    totals: Totals
    values: tuple[Values, ...]

    @property
    def features(self) -> pa.Schema:
        """What stands for the elements of a pane row."""
        leading = [pa.field(SEEN_FROM, pa.int64()), pa.field(AT, pa.int64())]
        return pa.schema([*leading, *self.keys, *self.tested])

    @property
    def _kinds(self) -> list[tuple[str, pa.Schema, int]]:
        """The stores, with the columns that are theirs alone and the number of counts."""
        found = [
            ("panes", pa.schema([]), len(self.totals.counted.counts)),
            ("sums", pa.schema(RARE), 1),
        ]
        for at, each in enumerate(self.values):
            own = [each.ledger.schema.field(name) for name in _own(each)]
            found.append((f"{at}.values", pa.schema(own), 1))
        return [(f"{self.name}.{name}.due", own, n_counts) for name, own, n_counts in found]

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {name: self._stored(own, n_counts) for name, own, n_counts in self._kinds}

    def _stored(self, own: pa.Schema, n_counts: int) -> pa.Schema:
        names = [f"n{at}" for at in range(n_counts)]
        return state_schema(pa.schema([*self.features, *own]), *names)

    def read(self, slab: Slab) -> list[Part]:
        """Return what is stored and of use: a part for each store."""
        found = []
        for name, own, n_counts in self._kinds:
            rows = slab.state.due(name, self._stored(own, n_counts), slab.begin, OPEN)
            counts = [rows.column(f"+n{at}").to_numpy() for at in range(n_counts)]
            found.append(
                Part(
                    rows.select(self.features.names),
                    rows.select(own.names),
                    np.stack(counts, axis=1),
                )
            )
        return found

    def made(self, met: Met, slab: Slab) -> list[tuple[Part, Ints]]:
        """Return new pane rows, a part for each store, and of which meeting each row is."""
        n_rows = met.features.num_rows
        changes, rare = self.totals.added_up(met.given, met.numbers, n_rows, slab)
        limbs = self.totals.by_digit(rare)
        nothing = rows_of([], [], n_rows)
        found = [
            (Part(met.features, nothing, changes), np.arange(n_rows)),
            (Part(take_rows(met.features, limbs.of), limbs.rows, limbs.counts), limbs.of),
        ]
        found += [self._valued(each, met, slab) for each in self.values]
        return found

    def _valued(self, values: Values, met: Met, slab: Slab) -> tuple[Part, Ints]:
        """Return the different values of each meeting, or the only one that matters."""
        operand, mask = operand_of(values.aggregate, met.given, slab)
        assert operand is not None, "only a count has no operand"
        columns = [operand]
        if values.aggregate.by is not None:
            by = values_of(values.aggregate.by, met.given, slab)
            mask &= by.is_valid().to_numpy(zero_copy_only=False)
            columns.insert(0, by)
        at = np.flatnonzero(mask)
        own = take_rows(rows_of(columns, _own(values), len(met.given)), at)
        numbers = met.numbers[at]
        marked = rows_of([pa.array(numbers), *own.columns], ["", *own.schema.names], len(at))
        equal, firsts = numbered(marked)
        counts = add_by_number(equal, met.given.weights[at][:, None], len(firsts))
        if values.aggregate.kind in _EXTREMES:
            last = _EXTREMES[values.aggregate.kind]
            order = canonical_order(pa.Table.from_batches([take_rows(marked, firsts)])).to_numpy()
            edges = firsts_of(numbers[firsts][order])
            kept = order[np.append(edges[1:], True) if last else edges] if len(order) else order
            firsts, counts = firsts[kept], counts[kept]
        of = numbers[firsts]
        return Part(take_rows(met.features, of), take_rows(own, firsts), counts), of

    def write(self, made: list[tuple[Part, Ints]], met: Met, until: Ints, slab: Slab) -> None:
        """Store new pane rows; `until` is when those of each meeting are of no use any more."""
        for (part, of), (name, own, n_counts) in zip(made, self._kinds, strict=True):
            columns = [*part.features.columns, *part.own.columns]
            rows = rows_of(columns, [*self.features.names, *own.names], len(part))
            counts = [np.ascontiguousarray(each) for each in part.counts.T]
            schema = self._stored(own, n_counts)
            slab.state.add(name, state_rows(schema, met.shards[of], until[of], rows, *counts))


def _own(values: Values) -> list[str]:
    return [VALUE] if values.by is None else [BY, VALUE]


def together(one: Part, other: Part) -> Part:
    """Put rows behind each other."""
    return Part(
        concat_rows([one.features, other.features], one.features.schema),
        concat_rows([one.own, other.own], one.own.schema)
        if one.own.schema.names
        else rows_of([], [], len(one) + len(other)),
        np.concatenate((one.counts, other.counts)),
    )
