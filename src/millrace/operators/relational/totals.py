"""Counts and sums of groups: what can be added and taken away again.

Sums are exact (`kernels.exact_sums`): a sum is kept as limbs, each a row of a store

    keys ..., slot, limb, +n        slot: which sum; limb: which 32 bits of it

but for the limbs that almost all numbers have, which are columns beside the counts. So a sum does
not depend on order, batches, panes or shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millrace.errors import SumOverflowError
from millrace.kernels import exact_sums as exact
from millrace.kernels.arrays import Bools, Floats, Hashes, Ints
from millrace.kernels.grouping import (
    add_by_number,
    add_into,
    add_to_cells,
    number_hashes,
    running_sums,
)
from millrace.operators.cast import cast
from millrace.operators.decimals import beyond_decimals, from_words, words_of
from millrace.operators.relational.entries import Entries, accounted
from millrace.operators.relational.equal import hashes_of
from millrace.operators.relational.events import Events, Ledger, events_of
from millrace.operators.relational.feeds import met, operand_of, values_of
from millrace.operators.relational.pairs import FREEDOM, paired_answers, split_pairs
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import Timed, rows_of, take_rows
from millrace.plan.outline import aggregate_text
from millrace.plan.relations import Aggregate
from millrace.plan.types import DOUBLE, kind_of, shown

_VARIANCES = {"var_pop": 0, "var_samp": 1, "stddev_pop": 0, "stddev_samp": 1}
_FIRST_SQUARE = 256
"""Limbs of squares are numbered from here on."""
RARE = (pa.field("slot", pa.int32()), pa.field("limb", pa.int32()))
_WIDTH = 1 << 10
_USUAL = {
    "integer": (exact.ZERO_LIMB, 2),
    "decimal": (exact.ZERO_LIMB, 4),
    "floating": (exact.ZERO_LIMB - 3, 6),  # what has bits from 2^-96 to 2^96
}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the counts of an aggregate stand: values; NaNs, +inf, -inf; limbs from `first` on."""

    at: int
    odd: bool
    first: int
    n_limbs: int

    @property
    def limbs_at(self) -> int:
        """Where the limbs stand."""
        return self.at + 1 + 3 * self.odd

    @property
    def stop(self) -> int:
        """Where the next slot begins."""
        return self.limbs_at + self.n_limbs


@dataclass(frozen=True, slots=True)
class RareLimbs:
    """Limbs of one sum that have no column: of which number, at which place, how much."""

    slot: int
    of: Ints
    places: Ints
    values: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """Limbs that have no column, added up: of which number each is, which it is, and how much."""

    of: Ints
    rows: pa.RecordBatch
    counts: Ints


Sums = dict[int, dict[int, Ints]]
"""By the number of an aggregate and the place of a limb: its sum in each row."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Keeps the number of rows of each group, and counts and sums for some aggregates."""

    name: str
    keys: pa.Schema
    aggregates: tuple[Aggregate, ...]
    types: tuple[pa.DataType, ...]
    operands: tuple[pa.DataType | None, ...]
    whole: bool = True
    """Whether all rows of the groups come here, so that their number can be told."""
    place: str | None = None

    @property
    def slots(self) -> list[Slot]:
        """The place of each aggregate among the counts, behind the number of rows."""
        found, at = [], 1
        for aggregate, operand in zip(self.aggregates, self.operands, strict=True):
            if aggregate.kind == "count" or operand is None:
                slot = Slot(at, odd=False, first=0, n_limbs=0)
            elif aggregate.kind in (*_VARIANCES, *FREEDOM):
                slot = Slot(at, odd=True, first=0, n_limbs=0)
            else:
                kind = kind_of(operand)
                slot = Slot(at, kind == "floating", *_USUAL[kind])
            found.append(slot)
            at = slot.stop
        return found

    @property
    def counted(self) -> Ledger:
        """The counts of groups, with the usual limbs of sums."""
        n_counts = max([1, *(each.stop for each in self.slots)])
        return Ledger(f"{self.name}.n", self.keys, tuple(f"n{at}" for at in range(n_counts)))

    @property
    def summed(self) -> Ledger:
        """The other limbs of sums."""
        return Ledger(f"{self.name}.sums", pa.schema([*self.keys, *RARE]), ("n",))

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {**self.counted.stores(), **self.summed.stores()}

    def take(self, given: Timed, keys: pa.RecordBatch, slab: Slab) -> TotalsFed:
        """Take what is new in the relation, with the keys of each row."""
        together, numbers = met(given, keys)
        changes, rare = self.added_up(given, numbers, len(together), slab)
        hashes = hashes_of(together.rows, self.place)
        counted = self.counted.due(events_of(together, changes, hashes), slab)
        summed = self.summed.due(self._rare(together, hashes, rare), slab)
        return TotalsFed(self, counted, summed)

    def added_up(
        self, given: Timed, numbers: Ints, n_numbers: int, slab: Slab
    ) -> tuple[Ints, list[RareLimbs]]:
        """Add up the counts and the usual limbs of rows that have one number; and the others."""
        changes = np.zeros((n_numbers, len(self.counted.counts)), np.int64)
        column = np.zeros(len(given), np.int64)
        add_into(changes, numbers, column, given.weights)
        rare = []
        for at, (aggregate, slot) in enumerate(zip(self.aggregates, self.slots, strict=True)):
            operand, mask = operand_of(aggregate, given, slab)
            rows = np.flatnonzero(mask)
            of, weights = numbers[rows], given.weights[rows]
            add_into(changes, of, column[: len(of)] + slot.at, weights)
            if operand is None or aggregate.kind == "count":
                continue
            values = operand.take(pa.array(rows))
            other = None
            if aggregate.by is not None:
                other = values_of(aggregate.by, given, slab).take(pa.array(rows))
            owners, places, limbs = self._limbs(
                aggregate, slot, (values, other), changes, of, weights
            )
            known = (places >= slot.first) & (places < slot.first + slot.n_limbs)
            usual = places[known] - slot.first + slot.limbs_at
            add_into(changes, owners[known], usual, limbs[known])
            rest = np.flatnonzero(~known)
            rare.append(RareLimbs(at, owners[rest], places[rest], limbs[rest]))
        return changes, rare

    def _limbs(
        self,
        aggregate: Aggregate,
        slot: Slot,
        operands: tuple[pa.Array, pa.Array | None],
        changes: Ints,
        of: Ints,
        weights: Ints,
    ) -> tuple[Ints, Ints, Ints]:
        """Return the limbs of values: of which number each is, which place, how much.

        What is not finite, and the usual limbs of doubles, are added to `changes` at once.
        """
        values, other = operands
        if other is not None:
            pairs = np.stack([_doubles_of(values), _doubles_of(other)], axis=1)
            finite = np.isfinite(pairs).all(axis=1)
            add_into(
                changes, of[~finite], np.full(int((~finite).sum()), slot.at + 1), weights[~finite]
            )
            of, weights = of[finite], weights[finite]
            owners, places, limbs = split_pairs(aggregate, pairs[finite])
        elif slot.odd:
            doubles = _doubles_of(values)
            finite = np.isfinite(doubles)
            if not finite.all():
                _count_odd(changes, of, doubles, weights, slot)
                of, weights, doubles = of[finite], weights[finite], doubles[finite]
            squared = aggregate.kind in _VARIANCES
            if not squared:
                usual = (slot.first, slot.n_limbs, slot.limbs_at)
                left = np.flatnonzero(exact.add_doubles(changes, of, doubles, weights, usual))
                of, weights, doubles = of[left], weights[left], doubles[left]
            owners, places, limbs = _split_doubles(doubles, squared=squared)
        else:
            owners, places, limbs = _split_whole(values)
        return of[owners], places, limbs * weights[owners]

    def _rare(self, together: Timed, hashes: Hashes, limbs: list[RareLimbs]) -> Events:
        """Return limbs that have no column, each as a row."""
        found = self.by_digit(limbs)
        columns = [*take_rows(together.rows, found.of).columns, *found.rows.columns]
        rows = rows_of(columns, self.summed.schema.names, len(found.of))
        starts, ends = together.starts[found.of], together.ends[found.of]
        timed = Timed(rows, starts, ends, np.ones_like(found.of))
        return events_of(timed, found.counts, hashes[found.of])

    def by_digit(self, limbs: list[RareLimbs]) -> Digits:
        """Add up the limbs of one number, slot and place."""
        n_slots = max(len(self.aggregates), 1)
        codes = [(each.of * n_slots + each.slot) * _WIDTH + each.places for each in limbs]
        none = np.zeros(0, np.int64)
        code = np.concatenate([none, *codes])
        value = np.concatenate([none, *(each.values for each in limbs)])
        numbers, firsts = number_hashes(code.astype(np.uint64))
        totals = add_by_number(numbers, value[:, None], len(firsts))
        code = code[firsts]
        columns = [code // _WIDTH % n_slots, code % _WIDTH]
        arrays = [pa.array(each.astype(np.int32)) for each in columns]
        rows = rows_of(arrays, [each.name for each in RARE], len(code))
        return Digits(code // _WIDTH // n_slots, rows, totals)

    def answers(self, counts: Ints, rare: Sums) -> dict[str, pa.Array]:
        """Return the aggregates by name, of counts with the usual limbs, and of all other limbs."""
        found = {}
        for number, (aggregate, slot) in enumerate(zip(self.aggregates, self.slots, strict=True)):
            mine = np.zeros((len(counts), 4), np.int64)  # values, NaNs, +inf and -inf
            mine[:, : 1 + 3 * slot.odd] = counts[:, slot.at : slot.limbs_at]
            limbs = {slot.first + at: counts[:, slot.limbs_at + at] for at in range(slot.n_limbs)}
            limbs = {place: each for place, each in limbs.items() if each.any()}
            limbs |= rare.get(number, {})
            found[aggregate.name] = self._answer(number, aggregate, mine, limbs)
        return found

    def _answer(
        self, slot: int, aggregate: Aggregate, counts: Ints, limbs: dict[int, Ints]
    ) -> pa.Array:
        n_values = counts[:, 0]
        if aggregate.kind == "count":
            return pa.array(n_values)
        freedom = {**_VARIANCES, **FREEDOM}.get(aggregate.kind, 0)
        absent = n_values <= freedom
        arrow, operand = self.types[slot], self.operands[slot]
        assert operand is not None, "only a count has no operand"
        if aggregate.kind in _VARIANCES:
            return _variance(aggregate, counts, limbs, absent)
        if aggregate.kind in FREEDOM:
            return paired_answers(aggregate, counts, limbs, absent)
        if aggregate.kind == "avg" or kind_of(operand) == "floating":
            divisors = np.ones_like(n_values) if aggregate.kind == "sum" else n_values.copy()
            scale = operand.scale if kind_of(operand) == "decimal" else 0
            return _doubles(_quotient(limbs, divisors, scale), counts, absent)
        words, beyond = exact.whole_words(_matrix(limbs, exact.ZERO_LIMB, 4, len(counts)))
        decimal = kind_of(arrow) == "decimal"
        beyond |= beyond_decimals(words) if decimal else words[:, 1] != words[:, 0] >> 63
        if beyond.any():
            raise _too_large(aggregate, arrow)
        if decimal:
            return from_words(words, ~absent, arrow)
        return pa.array(words[:, 0].copy(), mask=absent)


def _count_odd(changes: Ints, of: Ints, doubles: Floats, weights: Ints, slot: Slot) -> None:
    """Count what is not finite."""
    tests = (np.isnan(doubles), doubles == np.inf, doubles == -np.inf)
    for column, odd in enumerate(tests, slot.at + 1):
        rows = np.flatnonzero(odd)
        add_into(changes, of[rows], np.full(len(rows), column), weights[rows])


def _doubles_of(values: pa.Array) -> Floats:
    found: Floats = cast(values, DOUBLE).to_numpy(zero_copy_only=False)
    return found


def _split_whole(values: pa.Array) -> tuple[Ints, Ints, Ints]:
    """Split whole numbers and decimals into limbs."""
    rows = np.arange(len(values))
    if kind_of(values.type) == "decimal":
        return exact.split_words(words_of(values), exact.ZERO_LIMB, rows)
    words = values.cast(pa.int64()).to_numpy()[:, None]
    return exact.split_words(words, exact.ZERO_LIMB, rows)


def _split_doubles(doubles: Floats, *, squared: bool) -> tuple[Ints, Ints, Ints]:
    """Split doubles into limbs, and with them their squares."""
    rows = np.arange(len(doubles))
    found = exact.split_doubles(doubles, rows)
    if not squared:
        return found
    owners, places, limbs = exact.split_products(doubles, doubles, rows)
    return (
        np.concatenate((found[0], owners)),
        np.concatenate((found[1], places + _FIRST_SQUARE)),
        np.concatenate((found[2], limbs)),
    )


@dataclass(slots=True)
class TotalsFed:
    """Counts and sums that some groups get in a slab."""

    totals: Totals
    counted: Events
    summed: Events
    n_rows: Ints | None = field(default=None, init=False)

    def events(self) -> list[Events]:
        """Return what happens in the slab."""
        return [self.counted, self.summed]

    def answers(self, entries: Entries, slab: Slab) -> Mapping[str, pa.Array]:
        """Return the aggregates by name, a value for each entry."""
        names = self.totals.keys.names
        account = self.totals.counted.settle(self.counted, entries.hashes, slab)
        groups, of = accounted(entries, account, names)
        known = np.flatnonzero(groups >= 0)  # another key may share a hash
        counts = entries.running(
            groups[known], account.base[known], of, account.times, account.changes
        )
        if self.totals.whole:
            self.n_rows = counts[:, 0]
        return self.totals.answers(counts, self._sums(entries, slab))

    def _sums(self, entries: Entries, slab: Slab) -> Sums:
        """Return, for each slot and limb, its sum at each entry."""
        account = self.totals.summed.settle(self.summed, entries.hashes, slab)
        if not account.rows.num_rows:
            return {}
        groups = entries.group_of(account.rows.select(self.totals.keys.names))
        codes = (
            account.rows.column("slot").to_numpy() * 1024 + account.rows.column("limb").to_numpy()
        )
        different, columns = np.unique(codes, return_inverse=True)
        rows, n_columns = np.flatnonzero(groups >= 0), len(different)
        start = add_to_cells(
            groups[rows], columns[rows], account.base[rows, 0], len(entries.hashes), n_columns
        )
        at = entries.entry_of(groups[account.numbers], account.times)
        moved = add_to_cells(
            at, columns[account.numbers], account.changes[:, 0], len(entries), n_columns
        )
        sums = running_sums(entries.groups, moved, start)
        found: Sums = {}
        for column, code in enumerate(different.tolist()):
            found.setdefault(code // _WIDTH, {})[code % _WIDTH] = sums[:, column]
        return found


def _too_large(aggregate: Aggregate, arrow: pa.DataType) -> SumOverflowError:
    return SumOverflowError(
        f"a sum does not fit into {shown(arrow)}",
        detail=f"It is {aggregate_text(aggregate)}.",
        hint="Cast what is added to double, which holds more and is exact to 15 digits.",
    )


def _matrix(limbs: dict[int, Ints], first: int, width: int, n_rows: int) -> Ints:
    """Lay limbs side by side."""
    found = np.zeros((n_rows, width), np.int64)
    for place, values in limbs.items():
        found[:, place - first] = values
    return found


def _span(limbs: dict[int, Ints]) -> tuple[int, int]:
    """Return the first place and the number of places that limbs take."""
    return (min(limbs), max(limbs) - min(limbs) + 1) if limbs else (0, 1)


def _quotient(limbs: dict[int, Ints], divisors: Ints, scale: int) -> Floats:
    first, width = _span(limbs)
    matrix = _matrix(limbs, first, width, len(divisors))
    return exact.rounded_quotients(matrix, first, divisors, scale)


def _variance(
    aggregate: Aggregate, counts: Ints, limbs: dict[int, Ints], absent: Bools
) -> pa.Array:
    sums = {place: each for place, each in limbs.items() if place < _FIRST_SQUARE}
    squares = {
        place - _FIRST_SQUARE: each for place, each in limbs.items() if place >= _FIRST_SQUARE
    }
    first, width = _span(sums)
    first_square, square_width = _span(squares)
    found = exact.variances(
        _matrix(sums, first, width, len(counts)),
        first,
        _matrix(squares, first_square, square_width, len(counts)),
        first_square,
        counts[:, 0].copy(),
        _VARIANCES[aggregate.kind],
    )
    if aggregate.kind.startswith("stddev"):
        found = np.sqrt(found)
    found[counts[:, 1:].any(axis=1)] = np.nan
    return pa.array(found, mask=absent)


def _doubles(values: Floats, counts: Ints, absent: Bools) -> pa.Array:
    """Put in what is not finite: NaN if there is one or both infinities are, else the infinity."""
    nans, most, least = counts[:, 1] > 0, counts[:, 2] > 0, counts[:, 3] > 0
    values = np.where(most, np.inf, np.where(least, -np.inf, values))
    values = np.where(nans | (most & least), np.nan, values)
    return pa.array(values, mask=absent)
