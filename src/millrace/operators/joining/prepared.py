"""What is prepared of a family's queries, and kept: as it is, or changed as queries come and go.

A process keeps it under the names of the files that say what the queries are, and forgets the
oldest when that takes more than an epoch says that it may (`Kept.fit`). So an epoch whose queries
are those of the one before prepares nothing; indexes over queries are made when somebody first asks
for them.

When queries have come or gone, what was prepared of those before is changed: strategies take the
few that come, and let those go that went (`sharing.upkeep`). A query has a *slot* there, which it
keeps, while its place among the queries changes as others go:

    places    0   1   2   3                       0   1   2   3
    queries   a   b   c   d     b goes, e comes   a   c   d   e
    slots     0   1   2   3                       0   2   3   1

What was chosen stands until a quarter of the queries has changed; if more than half of them has, or
more than half of the slots are free, all is prepared anew.

Invariant: what is found is the same, whatever was prepared and changed before. What somebody uses
is not changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.operators.joining.pairing import Pairing, Strategy
from millrace.operators.joining.queries import Queries
from millrace.operators.joining.turnover import Turnover, compared, told
from millrace.operators.relational.slab import Members
from millrace.sharing.select.dynamic import Dynamic

MOST_BYTES = 1 << 29
MOST_CHANGED = 1 / 2
"""If a greater part of the queries is not what it was, all are prepared anew."""
MOST_FREE = 1 / 2
"""If a greater part of the slots is free, too."""
MOST_UNCHOSEN = 1 / 4
"""If a greater part has changed since something was chosen, it is chosen anew."""
_INDEX_BYTES = 200
"""What a query takes in an index over queries, about."""


@dataclass(slots=True)
class Choices:
    """What ways were expected to take, by the magnitudes of drivers and of what they ask."""

    costs: dict[tuple[int, ...], dict[str, float]] = field(default_factory=dict)
    n_changed: int = 0
    """How many queries have come and gone since."""

    def changed(self, n_changed: int, n_queries: int) -> None:
        """Forget what was chosen if much is not what it was."""
        self.n_changed += n_changed
        if self.n_changed > MOST_UNCHOSEN * n_queries:
            self.costs, self.n_changed = {}, 0


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The queries of a family, and the strategies that find them, by name and driver."""

    queries: Queries
    pairing: Pairing | None
    slots: Ints
    """The slot of each query in strategies."""
    places: Ints
    """The query in each slot, or -1 where it is free."""
    chosen: Choices = field(default_factory=Choices)
    _made: dict[tuple[str, int], Strategy] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def of(cls, queries: Queries, pairing: Pairing | None) -> Prepared:
        """Prepare queries, each in the slot that is its place."""
        places = np.arange(len(queries))
        return cls(queries, pairing, places, places)

    @property
    def choices(self) -> dict[tuple[int, ...], dict[str, float]]:
        """What ways were expected to take, by the magnitudes of drivers and of what they ask."""
        return self.chosen.costs

    def strategy(self, name: str, driver: int) -> Strategy:
        """Return a strategy by which elements of a leaf find queries, by their slots."""
        assert self.pairing is not None, "queries are found by something"
        with self._lock:
            if (name, driver) not in self._made:
                made = self.pairing.strategy(name)
                self.pairing.add(made, self.slots, self.queries, driver)
                self._made[name, driver] = made
            return self._made[name, driver]

    def dynamic(self, driver: int) -> Dynamic:
        """Return the one that chooses for each driver."""
        found = self.strategy("dynamic", driver)
        assert isinstance(found, Dynamic), "it is of that name"
        return found

    def changed(self, gone: Ints, queries: Queries) -> Prepared:
        """Return what is prepared when queries at some places have gone and others are behind.

        Strategies are changed: nobody may use what was before.
        """
        left = np.delete(self.slots, gone)
        n_come = len(queries) - len(left)
        dropped, free = self.slots[gone], np.ones(len(self.places) + n_come, np.bool_)
        free[left] = False
        added = np.flatnonzero(free)[:n_come]
        slots = np.concatenate((left, added))
        places = np.full(max(len(self.places), int(slots.max(initial=-1)) + 1), -1)
        places[slots] = np.arange(len(queries))
        come = queries.take(np.arange(len(left), len(queries)))
        for (_, driver), strategy in self._made.items():
            assert self.pairing is not None, "queries are found by something"
            if len(dropped):
                strategy.drop(dropped)
            if n_come:
                self.pairing.add(strategy, added, come, driver)
        self.chosen.changed(len(gone) + n_come, len(queries))
        return Prepared(queries, self.pairing, slots, places, self.chosen, self._made)

    def bears(self, change: Turnover) -> bool:
        """Say whether it is worth to change this, or too much is not what it was."""
        n_queries = len(self.queries) - len(change.gone) + int(change.come.num_rows)
        n_free = len(self.places) - n_queries
        return len(change) <= MOST_CHANGED * n_queries and n_free <= MOST_FREE * len(self.places)

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, about."""
        return self.queries.n_bytes + len(self._made) * len(self.places) * _INDEX_BYTES


class Preparing(Protocol):
    """Who prepares queries; `number` tells it from others."""

    @property
    def number(self) -> int:
        """Whose queries they are."""
        ...

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        """Prepare queries: their ids, the changes that they came with, and their parameters."""
        ...

    def change(self, prepared: Prepared, change: Turnover) -> Prepared | None:
        """Change what was prepared, if that is possible; nobody may use it afterwards."""
        ...


@dataclass(slots=True, eq=False)
class _Kept:
    """What was prepared of one version of queries, and by how many it is used."""

    prepared: Prepared
    n_users: int = 0


@dataclass(slots=True)
class Kept:
    """What was prepared last, by what it was made of, as far as it fits."""

    most: int
    _known: OrderedDict[tuple[int, Hashable], _Kept] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def using(self, how: Preparing, members: Members, *, upkeep: bool) -> Iterator[Prepared]:
        """Give what is prepared of queries, for as long as the context lasts.

        With `upkeep`, what is prepared of other versions of them is changed, if nobody uses it.
        """
        kept = self._taken(how, members, upkeep=upkeep)
        try:
            yield kept.prepared
        finally:
            with self._lock:
                kept.n_users -= 1

    def _taken(self, how: Preparing, members: Members, *, upkeep: bool) -> _Kept:
        key = how.number, members.version
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                self._known[key].n_users += 1
                return self._known[key]
        found = _Kept(self._made(how, members, upkeep=upkeep), 1)
        with self._lock:
            self._known[key] = found
            self._forget()
        return found

    def _made(self, how: Preparing, members: Members, *, upkeep: bool) -> Prepared:
        """Prepare queries, or change what is kept of another version of them."""
        others = self._others(how.number) if upkeep else {}
        for version, before in others.items():
            since = members.since(version)
            if since is not None:
                change = told(before.queries, *since)
                changed = self._changed(how, version, change)
                return how.prepare(members.rows()) if changed is None else changed
        rows = members.rows()
        for version, before in [*others.items()][:1]:
            changed = self._changed(how, version, compared(before.queries, rows))
            if changed is not None:
                return changed
        return how.prepare(rows)

    def _others(self, number: int) -> dict[Hashable, Prepared]:
        """Return what is kept of somebody's queries, by version, what was used last first."""
        with self._lock:
            known = reversed(self._known.items())
            return {key[1]: each.prepared for key, each in known if key[0] == number}

    def _changed(
        self, how: Preparing, version: Hashable, change: Turnover | None
    ) -> Prepared | None:
        """Change what is kept of a version, if that is worth it and nobody uses it."""
        with self._lock:
            kept = self._known.get((how.number, version))
            if change is None or kept is None or kept.n_users or not kept.prepared.bears(change):
                return None
            del self._known[how.number, version]
        return how.change(kept.prepared, change)

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
        return sum(each.prepared.n_bytes for each in self._known.values())


KEPT = Kept(MOST_BYTES)
