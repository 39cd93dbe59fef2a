"""Aggregates that look at single values: the values of a group, each with how often it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import SeveralRowsError
from millrace.kernels.arrays import Floats, Ints
from millrace.kernels.multisets import first_values, kth_values, most_frequent
from millrace.operators.canonical import canonical_order
from millrace.operators.cast import cast
from millrace.operators.relational.entries import Entries
from millrace.operators.relational.equal import hashes_of
from millrace.operators.relational.events import Account, Events, Ledger, events_of
from millrace.operators.relational.feeds import WITH_NULLS, added_up, operand_of, values_of
from millrace.operators.relational.of_lists import OF_ALL, of_all
from millrace.operators.relational.ranks import ranked
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import Timed, rows_of, take_rows
from millrace.plan.aggregate_types import LISTS
from millrace.plan.expressions import Column
from millrace.plan.relations import Aggregate, Order
from millrace.plan.types import DOUBLE

_LEAST, _GREATEST, _SHARE, _BETWEEN, _SHARE_DOWN = range(5)
_HOW = {
    "min": _LEAST,
    "first": _LEAST,
    "only": _LEAST,
    "max": _GREATEST,
    "last": _GREATEST,
    "percentile_disc": _SHARE,
    "percentile_cont": _BETWEEN,
}
BY, VALUE = "#by", "#value"


@dataclass(frozen=True, slots=True)
class Values:
    """Keeps the values of each group for one aggregate."""

    name: str
    keys: pa.Schema
    aggregate: Aggregate
    operand: pa.DataType
    by: pa.DataType | None
    place: str | None = None
    growing: bool = False
    """Whether no value ever goes: then the least or the greatest is all that is remembered."""

    @property
    def ledger(self) -> Ledger:
        """The values, each with how often it is there."""
        by = [] if self.by is None else [pa.field(BY, self.by)]
        schema = pa.schema([*self.keys, *by, pa.field(VALUE, self.operand)])
        return Ledger(self.name, schema, ("n",))

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return self.ledger.stores()

    def take(self, given: Timed, keys: pa.RecordBatch, slab: Slab) -> ValuesFed:
        """Take what is new in the relation, with the keys of each row."""
        nulls = self.aggregate.kind in WITH_NULLS
        operand, mask = operand_of(self.aggregate, given, slab, nulls=nulls)
        assert operand is not None, "only a count has no operand"
        columns = [*keys.columns, operand]
        if self.aggregate.by is not None:
            columns.insert(-1, values_of(self.aggregate.by, given, slab))
        rows = rows_of(columns, self.ledger.schema.names, len(given))
        valued = given.with_rows(rows).take(np.flatnonzero(mask))
        together, changes = added_up(valued, valued.rows)
        hashes = hashes_of(together.rows.select(self.keys.names), self.place)
        return ValuesFed(self, self.ledger.due(events_of(together, changes, hashes), slab))


@dataclass(slots=True)
class ValuesFed:
    """Values that some groups get in a slab."""

    values: Values
    taken: Events
    n_rows: Ints | None = field(default=None, init=False)

    def events(self) -> list[Events]:
        """Return what happens in the slab."""
        return [self.taken]

    def answers(self, entries: Entries, slab: Slab) -> Mapping[str, pa.Array]:
        """Return the aggregate by name, a value for each entry."""
        values, aggregate = self.values, self.values.aggregate
        extreme = values.growing and aggregate.kind in ("min", "max")
        settle = values.ledger.account if extreme else values.ledger.settle
        account = settle(self.taken, entries.hashes, slab)
        held = Held.of(account, entries, values.keys.names, self._order(account, slab))
        operand = held.rows.column(VALUE)
        if aggregate.kind in OF_ALL:
            return {aggregate.name: of_all(aggregate, _lists(held, operand, len(entries)))}
        if aggregate.kind == "mode":
            return {aggregate.name: _at(operand, most_frequent(*held.layout))}
        if aggregate.kind == "only":
            _require_one(held, len(entries))
        standing = kth_values(*held.layout, *share_of(aggregate))
        if extreme:
            self._remember(held, entries, standing[0], slab)
        return {aggregate.name: picked(aggregate, operand, *standing)}

    def _order(self, account: Account, slab: Slab) -> list[pa.Array]:
        """Return the ranks of values in a list that has an order."""
        aggregate = self.values.aggregate
        if aggregate.by is None or aggregate.kind not in LISTS:
            return []
        order = Order(Column(BY), aggregate.descending, aggregate.nulls_first)
        return ranked(account.rows, [order], slab)

    def _remember(self, held: Held, entries: Entries, places: Ints, slab: Slab) -> None:
        """Put the value that stands last in the place of the one that stood before."""
        begins = entries.begins
        old, new = places[begins[:-1]], places[begins[1:] - 1]
        gone = np.flatnonzero((old != new) & (old >= 0))
        come = np.flatnonzero((old != new) & (new >= 0))
        self.values.ledger.write(
            entries.hashes[np.concatenate((gone, come))],
            take_rows(held.rows, np.concatenate((old[gone], new[come]))),
            np.concatenate((np.full(len(gone), -1), np.ones(len(come), np.int64)))[:, None],
            slab,
        )


def share_of(aggregate: Aggregate) -> tuple[tuple[int, int], int]:
    """Return at which share of a group's values an aggregate is, and how, as kernels take it."""
    share = Fraction(repr(float(aggregate.fraction or 0))).limit_denominator(10**9)
    how = _SHARE_DOWN if aggregate.descending else _HOW[aggregate.kind]
    return (share.numerator, share.denominator), how


def picked(
    aggregate: Aggregate, operand: pa.Array, lower: Ints, upper: Ints, between: Floats
) -> pa.Array:
    """Return an aggregate that is one of some values, or lies between two; NULL without any."""
    found = _at(operand, lower)
    if aggregate.kind != "percentile_cont":
        return found
    low, high = (
        cast(each, DOUBLE).to_numpy(zero_copy_only=False) for each in (found, _at(operand, upper))
    )
    with np.errstate(invalid="ignore"):
        mixed = np.where(between == 0, low, low + (high - low) * between)
    return pa.array(mixed, mask=lower < 0)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The values of groups in order, and their changes by entry, as the kernels take them."""

    rows: pa.RecordBatch
    layout: tuple[Ints, Ints, Ints, Ints, Ints, Ints]

    @classmethod
    def of(
        cls,
        account: Account,
        entries: Entries,
        keys: Sequence[str],
        first: Sequence[pa.Array] = (),
    ) -> Held:
        """Order values by group, then by the columns `first`, and then canonically."""
        groups = entries.group_of(account.rows.select(list(keys)))
        others = [name for name in account.rows.schema.names if name not in keys]
        known = np.flatnonzero(groups >= 0)
        kept = take_rows(account.rows, known)
        ordered = [pa.array(groups[known]), *(each.take(pa.array(known)) for each in first)]
        ordered += [kept.column(name) for name in others]
        ranked = pa.table(ordered, names=[str(at) for at in range(len(ordered))])
        order = known[canonical_order(ranked).to_numpy()]
        place = np.full(account.rows.num_rows, -1)
        place[order] = np.arange(len(order))
        value_begins = np.searchsorted(groups[order], np.arange(len(entries.hashes) + 1))
        at = entries.entry_of(groups[account.numbers], account.times)
        by_entry = np.argsort(at, kind="stable")
        event_begins = np.searchsorted(at[by_entry], np.arange(len(entries) + 1))
        layout = (
            value_begins,
            account.base[order, 0].copy(),
            entries.begins,
            event_begins,
            place[account.numbers][by_entry],
            account.changes[by_entry, 0].copy(),
        )
        return cls(take_rows(account.rows, order), layout)


def _require_one(held: Held, n_entries: int) -> None:
    """Raise if at some entry there is more than one row."""
    entries, _, copies = first_values(*held.layout, 0, 2)
    n_rows = np.bincount(entries, copies, n_entries)
    if (n_rows > 1).any():
        raise SeveralRowsError(
            "a subquery that stands for one value has several rows",
            hint="Use an aggregate such as max(...), or ask with IN.",
        )


def _at(column: pa.Array, places: Ints) -> pa.Array:
    """Return the values at some places, NULL where there is none."""
    return column.take(pa.array(places, mask=places < 0))


def _lists(held: Held, operand: pa.Array, n_entries: int) -> pa.Array:
    """Return the list of all values at each entry."""
    entries, places, copies = first_values(*held.layout, 0, -1)
    repeated = np.repeat(places, copies)
    lengths = np.zeros(n_entries, np.int64)
    np.add.at(lengths, entries, copies)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), operand.take(pa.array(repeated)))
    return pc.if_else(pa.array(lengths > 0), lists, pa.nulls(n_entries, lists.type))
