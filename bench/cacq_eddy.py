"""An eddy over chunks of rows: grouped filters with lineage, and policies that route (CACQ 3, 4).

The paper routes each tuple by itself; here all rows of a chunk take the same way, which is drawn
anew for each chunk. A row leaves when no query is live for it: all have rejected it or have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from millrace.kernels.arrays import Bools, Floats, Ints

ATTRIBUTES = "abcde"
N_ATTRIBUTES = len(ATTRIBUTES)
DOMAIN = 100
DECAY, DECAY_ROWS = 0.9, 100
FLOOR = 1.0

Query = Mapping[int, int]
"""What a query asks: its attributes have to be greater than these."""


@dataclass(frozen=True, slots=True, eq=False)
class Filters:
    """The grouped filters of some queries, one for each attribute."""

    asked: Bools
    limits: Ints

    @classmethod
    def of(cls, queries: Sequence[Query]) -> Filters:
        """Group the predicates of queries by attribute."""
        asked = np.zeros((len(queries), N_ATTRIBUTES), np.bool_)
        limits = np.full((len(queries), N_ATTRIBUTES), -1)
        for number, query in enumerate(queries):
            for attribute, limit in query.items():
                asked[number, attribute], limits[number, attribute] = True, limit
        return cls(asked, limits)

    @property
    def weights(self) -> Ints:
        """How many predicates each filter has."""
        found: Ints = self.asked.sum(axis=0)
        return found


@dataclass(slots=True)
class Tickets:
    """CACQ's lottery: a filter gets a ticket for each predicate of a row that it takes.

    For a row that it returns it gives back as many as predicates passed: what is left is how many
    it rejected. Old tickets fade.
    """

    random: np.random.Generator
    held: Floats = field(default_factory=lambda: np.full(N_ATTRIBUTES, FLOOR))

    def order(self) -> Ints:
        """Draw an order of the filters: who has more tickets tends to come earlier."""
        share = self.held / self.held.mean()
        drawn: Ints = np.argsort(-(self.random.random(N_ATTRIBUTES) ** (1 / share)))
        return drawn

    def note(self, attribute: int, taken: int, returned: int) -> None:
        """Count the predicates of rows that a filter took, and of those that it gave back."""
        self.held[attribute] = max(FLOOR, self.held[attribute] + taken - returned)

    def fade(self, n_rows: int) -> None:
        """Forget a little after some rows."""
        self.held = np.maximum(FLOOR, self.held * DECAY ** (n_rows / DECAY_ROWS))

    def shares(self, weights: Ints) -> Floats:
        """Return which part of all tickets each filter has that any query asks."""
        held = np.where(weights > 0, self.held, 0.0)
        found: Floats = held / held.sum()
        return found


@dataclass(slots=True)
class Eddy:
    """Routes chunks through filters in the order that `order` draws; counts what filters take."""

    filters: Filters
    order: Callable[[], Ints]
    tickets: Tickets | None = None
    n_rows: int = 0
    n_entered: int = 0

    def route(self, chunk: Ints) -> None:
        """Send a chunk through the filters."""
        filters = self.filters
        live = np.ones((len(chunk), len(filters.asked)), np.bool_)
        done = np.zeros(N_ATTRIBUTES, np.bool_)
        for attribute in self.order():
            rows = np.flatnonzero(live.any(axis=1))
            if not filters.weights[attribute] or not len(rows):
                continue
            self.n_entered += len(rows)
            done[attribute] = True
            asked = filters.asked[:, attribute]
            passed = (chunk[rows, attribute][:, None] > filters.limits[:, attribute]) & asked
            complete = ~(filters.asked & ~done).any(axis=1)
            left = live[rows] & (passed | ~asked) & ~complete
            live[rows] = left
            if self.tickets is not None:
                returned = int(passed[left.any(axis=1)].sum())
                taken = len(rows) * int(filters.weights[attribute])
                self.tickets.note(int(attribute), taken, returned)
        self.n_rows += len(chunk)
        if self.tickets is not None:
            self.tickets.fade(len(chunk))

    @property
    def entered(self) -> float:
        """How many filters a row has entered, in the mean."""
        return self.n_entered / self.n_rows


def rows(random: np.random.Generator, n_rows: int) -> Ints:
    """Return rows as the paper generates them: attributes are uniform in 0 to 99."""
    return random.integers(0, DOMAIN, (n_rows, N_ATTRIBUTES))


def nested(limits: Sequence[int]) -> list[Query]:
    """Return queries of which each asks what the one before asks, and one attribute more."""
    return [dict(enumerate(limits[: count + 1])) for count in range(len(limits))]
