"""Upkeep: which queries an index was built of, which came since, and which of the built ones left.

Building an index anew for each query that comes would cost a sort of all; so there are

    built      slots that the index holds; of those that have left, what it finds is not heard
    tail       slots that came since: few, asked one by one

and the index is built anew when tail and gone are more than 4,096 and more than one in a hundred.
A slot that is used again is in the tail, and gone from the built part.

Invariant: no slot stands twice. Cost: changes cost a pass over the slots, 1 ns each.
"""

from __future__ import annotations

import numpy as np

from millrace.kernels.arrays import Bools, Ints

AT_LEAST = 4096
ONE_IN = 100


class Upkeep:
    """The slots of a changing set of queries."""

    def __init__(self) -> None:
        self._built = np.zeros(0, np.bool_)
        self._n_gone = 0
        self.tail: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._built)) + self.tail.size

    def add(self, slots: Ints) -> None:
        """Let queries come; their slots stand for no others."""
        assert not np.isin(slots, self.tail).any(), "a slot is free before it is used again"
        self._built = with_room(self._built, slots)
        assert not self._built[slots].any(), "a slot is free before it is used again"
        self.tail = np.concatenate((self.tail, slots))

    def drop(self, slots: Ints) -> None:
        """Let queries go that are there."""
        young = np.isin(slots, self.tail)
        self.tail = self.tail[~np.isin(self.tail, slots)]
        old = slots[~young]
        assert self._built[old].all(), "what goes was there"
        self._built[old] = False
        self._n_gone += old.size

    @property
    def due(self) -> bool:
        """Whether it is time to build the index anew."""
        return self.tail.size + self._n_gone > max(AT_LEAST, len(self) // ONE_IN)

    def settle(self) -> Ints:
        """Return the slots of all queries, of which the index is now built."""
        self._built[self.tail] = True
        self._n_gone, self.tail = 0, self.tail[:0]
        return np.flatnonzero(self._built)

    def standing(self, slots: Ints) -> Bools | None:
        """Say which slots that the index has found still stand; None: all of them."""
        return self._built[slots] if self._n_gone else None


def with_room(column: np.ndarray, slots: Ints) -> np.ndarray:
    """Return a column by slots that reaches as far as some slots, with zeros where it grew."""
    n_slots = int(slots.max(initial=-1)) + 1
    if n_slots <= column.size:
        return column
    longer = np.zeros(max(n_slots, 2 * column.size), column.dtype)
    longer[: column.size] = column
    return longer
