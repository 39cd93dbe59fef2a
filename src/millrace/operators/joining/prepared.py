"""What is prepared of a family's queries, and kept for as long as they do not change.

A process keeps it under the names of the files that say what the queries are, and forgets the
oldest when that takes more than an epoch says that it may (`Kept.fit`). So an epoch whose queries
are those of the one before prepares nothing; indexes over queries are made when somebody first asks
for them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock

from millrace.operators.joining.pairing import Pairing, Strategy
from millrace.operators.joining.queries import Queries
from millrace.sharing.select.dynamic import Dynamic

MOST_BYTES = 1 << 29
_INDEX_BYTES = 200
"""What a query takes in an index over queries, about."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The queries of a family, and the strategies that find them, by name and driver."""

    queries: Queries
    pairing: Pairing | None
    choices: dict[tuple[int, ...], dict[str, float]] = field(default_factory=dict)
    """What ways were expected to take, by the magnitudes of drivers and of what they ask."""
    _made: dict[tuple[str, int], Strategy] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def strategy(self, name: str, driver: int) -> Strategy:
        """Return a strategy by which elements of a leaf find queries."""
        assert self.pairing is not None, "queries are found by something"
        with self._lock:
            if (name, driver) not in self._made:
                self._made[name, driver] = self.pairing.strategy(name, self.queries, driver)
            return self._made[name, driver]

    def dynamic(self, driver: int) -> Dynamic:
        """Return the one that chooses for each driver."""
        found = self.strategy("dynamic", driver)
        assert isinstance(found, Dynamic), "it is of that name"
        return found

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, about."""
        return self.queries.n_bytes + len(self._made) * len(self.queries) * _INDEX_BYTES


@dataclass(slots=True)
class Kept:
    """What was prepared last, by what it was made of, as far as it fits."""

    most: int
    _known: OrderedDict[Hashable, Prepared] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, key: Hashable, make: Callable[[], Prepared]) -> Prepared:
        """Return what is kept under a key, or make it."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        found = make()
        with self._lock:
            self._known[key] = found
            self._forget()
        return found

    def fit(self, most: int) -> None:
        """Keep so many bytes at most from now on; what was used last is kept in any case."""
        with self._lock:
            self.most = most
            self._forget()

    def __len__(self) -> int:
        return len(self._known)

    def _forget(self) -> None:
        while len(self._known) > 1 and self._n_bytes() > self.most:
            self._known.popitem(last=False)

    def _n_bytes(self) -> int:
        return sum(each.n_bytes for each in self._known.values())


KEPT = Kept(MOST_BYTES)
