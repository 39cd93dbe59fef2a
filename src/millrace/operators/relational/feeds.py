"""What a grouping is fed with: each feed keeps what its aggregates need, and answers for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.grouping import add_by_number
from millrace.operators.evaluate import evaluate
from millrace.operators.relational.entries import Entries
from millrace.operators.relational.equal import numbered, plain
from millrace.operators.relational.events import Events
from millrace.operators.relational.join import true_rows
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.sweep import Sweep
from millrace.operators.relational.timed import Timed, rows_of, take_rows
from millrace.operators.vectors import as_array
from millrace.plan.aggregate_types import LISTS
from millrace.plan.expressions import Expression
from millrace.plan.relations import Aggregate


class Fed(Protocol):
    """What a feed has taken of a slab."""

    @property
    def n_rows(self) -> Ints | None:
        """How many rows each group has at each entry, once answered, if the feed knows."""
        ...

    def events(self) -> list[Events]:
        """Return what happens in the slab; the groups' keys are among the columns."""
        ...

    def answers(self, entries: Entries, slab: Slab) -> Mapping[str, pa.Array]:
        """Return the aggregates by name, a value for each entry."""
        ...


class Feed(Protocol):
    """Keeps what some aggregates need."""

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        ...

    def take(self, given: Timed, keys: pa.RecordBatch, slab: Slab) -> Fed:
        """Take what is new in the relation, with the keys of each row."""
        ...


WITH_NULLS = ("array_agg", "only")
"""The aggregates that do not pass over NULLs."""


@dataclass(frozen=True, slots=True)
class Once:
    """Feeds another feed with each value of a group once; it calls the value by a name."""

    aggregate: Aggregate
    value: str
    sweep: Sweep
    feed: Feed

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {**self.sweep.stores(), **self.feed.stores()}

    def take(self, given: Timed, keys: pa.RecordBatch, slab: Slab) -> Fed:
        """Take what is new in the relation, with the keys of each row."""
        nulls = self.aggregate.kind in WITH_NULLS
        operand, mask = operand_of(self.aggregate, given, slab, nulls=nulls)
        assert operand is not None, "a distinct aggregate has an operand"
        at = np.flatnonzero(mask)
        columns = [*keys.columns, operand]
        rows = rows_of(columns, [*keys.schema.names, self.value], len(given))
        valued = given.with_rows(rows).take(at)
        once = self.sweep.step([valued], slab)
        return self.feed.take(once, once.rows.select(keys.schema.names), slab)


def operand_of(
    aggregate: Aggregate, given: Timed, slab: Slab, *, nulls: bool = False
) -> tuple[pa.Array | None, Bools]:
    """Return the operand of an aggregate for each row, and which rows it takes."""
    mask = np.ones(len(given), np.bool_)
    if aggregate.where is not None:
        mask &= true_rows(aggregate.where, given, slab)
    if aggregate.operand is None:
        return None, mask
    operand = values_of(aggregate.operand, given, slab)
    if operand.null_count and not nulls:
        mask &= operand.is_valid().to_numpy(zero_copy_only=False)
    if aggregate.by is not None and aggregate.kind not in LISTS:
        mask &= values_of(aggregate.by, given, slab).is_valid().to_numpy(zero_copy_only=False)
    return operand, mask


def values_of(node: Expression, given: Timed, slab: Slab) -> pa.Array:
    """Evaluate an expression for each row."""
    return plain(as_array(evaluate(node, given.rows, slab.functions), len(given)))


def met(given: Timed, rows: pa.RecordBatch) -> tuple[Timed, Ints]:
    """Return the different rows that come and go together, and which of them each row is."""
    columns = [*rows.columns, pa.array(given.starts), pa.array(given.ends)]
    names = [*rows.schema.names, "_start", "_end"]
    numbers, firsts = numbered(rows_of(columns, names, len(given)))
    ones = np.ones(len(firsts), np.int64)
    return Timed(take_rows(rows, firsts), given.starts[firsts], given.ends[firsts], ones), numbers


def added_up(given: Timed, rows: pa.RecordBatch) -> tuple[Timed, Ints]:
    """Return the different rows that come and go together, with the sums of their weights."""
    together, numbers = met(given, rows)
    return together, add_by_number(numbers, given.weights[:, None], len(together))
