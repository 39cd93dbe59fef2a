"""Operators whose answer is a function of counts: DISTINCT, UNION, EXCEPT, INTERSECT.

At each instant where a count of a row changes, the weight of the row in the answer is computed
from its counts in the inputs; between such instants it stays. What is told:

    counts change at    t1        t2        t3
    weight         v0    |   v1    |   v2    |   v3 ...
    told        -v0 from t1 on, v1 in [t1, t2), v2 in [t2, t3), v3 from t3 on, open
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.grouping import firsts_of, running_sums
from millrace.kernels.sorted_keys import distinct as different
from millrace.operators.relational.equal import hashes_of
from millrace.operators.relational.events import Ledger, events_of, joined
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import OPEN, Timed, take_rows
from millrace.plan.relations import SetKind

Weigh = Callable[[Ints], Ints]
"""From counts, a column for each input, to the weight of the row in the answer."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A function of the counts that each row has in some relations of the same columns."""

    name: str
    schema: pa.Schema
    n_inputs: int
    weigh: Weigh
    place: str | None = None

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self.name, self.schema, tuple(f"n{at}" for at in range(self.n_inputs)))

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return self._ledger.stores()

    def step(self, inputs: Sequence[Timed], slab: Slab) -> Timed:
        """Take what is new in the inputs."""
        parts = []
        for at, each in enumerate(inputs):
            changes = np.zeros((len(each), self.n_inputs), np.int64)
            changes[:, at] = each.weights
            parts.append(events_of(each, changes, hashes_of(each.rows, self.place)))
        ledger = self._ledger
        events = ledger.due(joined(parts, self.schema), slab)
        if not len(events):
            return Timed.empty(self.schema)
        account = ledger.settle(events, different(events.hashes), slab)
        after = running_sums(account.numbers, account.changes, account.base)
        weights, before = self.weigh(after), self.weigh(account.base)
        places, starts, ends, signed = stepped(account.numbers, account.times, weights, before)
        return Timed(take_rows(account.rows, account.numbers[places]), starts, ends, signed)


def stepped(
    numbers: Ints, times: Ints, weights: Ints, before: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Tell weights that change at instants, which are ordered by number and time.

    `before` is the weight of each number when the slab began. Returns places, starts, ends and
    weights of what is to be told.
    """
    first = firsts_of(numbers)
    previous = np.where(first, before[numbers], np.concatenate(([0], weights[:-1])))
    changed = np.flatnonzero(weights != previous)
    lead = firsts_of(numbers[changed])
    ends = next_times(numbers, times, changed)
    tails = changed[lead]
    at = np.concatenate((changed, tails))
    starts = times[at]
    ends = np.concatenate((ends, np.full(len(tails), OPEN)))
    signed = np.concatenate((weights[changed], -before[numbers[tails]]))
    kept = signed != 0
    return at[kept], starts[kept], ends[kept], signed[kept]


def next_times(numbers: Ints, times: Ints, changed: Ints) -> Ints:
    """Return when what holds from each changed place on changes again, OPEN if it does not."""
    ends = np.full(len(changed), OPEN)
    if len(changed) > 1:
        same: Bools = numbers[changed[1:]] == numbers[changed[:-1]]
        ends[:-1] = np.where(same, times[changed[1:]], OPEN)
    return ends


def distinct(counts: Ints) -> Ints:
    """Weigh a row for DISTINCT: once if it is there at all."""
    return (counts[:, 0] > 0).astype(np.int64)


def set_operator(kind: SetKind, *, keep_all: bool) -> Weigh:
    """Return how a set operator weighs a row by its counts on the left and on the right."""

    def weigh(counts: Ints) -> Ints:
        left, right = counts[:, 0], counts[:, 1]
        if not keep_all:
            left, right = np.minimum(left, 1), np.minimum(right, 1)
        match kind:
            case "union":
                found = left + right if keep_all else np.maximum(left, right)
            case "except":
                found = np.maximum(left - right, 0)
            case "intersect":
                found = np.minimum(left, right)
        return found.astype(np.int64)

    return weigh
