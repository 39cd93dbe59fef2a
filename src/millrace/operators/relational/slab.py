"""A slab: the stretch of time that one step of a plan completes, with all that happened in it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.operators.evaluate import Function
from millrace.operators.relational.state import State


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a stream, in order; for a change of a table, how many copies come or go."""

    rows: pa.RecordBatch
    times: Ints
    copies: Ints | None = None

    def __len__(self) -> int:
        return len(self.times)


class Past(Protocol):
    """The elements that a plan has seen before the slab, in all shards those of their own keys."""

    def of(self, stream: str, keys: Hashes, after: int) -> Elements:
        """Return those of some keys, by the column that decides about the shard.

        Their time is greater than `after`.
        """
        ...

    def having(self, stream: str, keys: Hashes, after: int) -> Bools:
        """Say of which of some keys, ascending, there may be elements of such a time.

        Of those that it denies there are none.
        """
        ...

    def between(self, stream: str, begin: int, end: int) -> Elements:
        """Return those whose time is in [begin, end)."""
        ...


class Members(Protocol):
    """The queries of a family as they stand in a slab, where they are not a table of its plan."""

    @property
    def version(self) -> Hashable:
        """What the queries were read of: as long as that is the same, so are they."""
        ...

    def rows(self) -> pa.RecordBatch:
        """Return their ids, the changes that they came with, and their parameters."""
        ...

    def since(self, version: Hashable) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
        """Return those that have gone and those that have come since another version.

        None if that is not known by looking at a part of them.
        """
        ...

    def entered(self, born: Ints) -> Ints:
        """Return the epochs from which on those see elements that came with some changes."""
        ...


@dataclass(frozen=True, slots=True)
class Slab:
    """The instants [begin, end), the elements of streams and the changes of tables in them.

    The first slab of a plan says so: what is there from the beginning, such as the count of
    nothing, is told then. `past` is what plans read again that do not remember it, `members` the
    queries of a family that is one join. With `narrow`, joins begin with the keys that all their
    sides have (`narrowing`). With `upkeep`, what is prepared of those queries is changed as they
    are (`joining.prepared`).
    """

    begin: int
    end: int
    streams: Mapping[str, Elements]
    tables: Mapping[str, Elements]
    state: State
    first: bool = False
    functions: Mapping[str, Function] = field(default_factory=dict)
    past: Past | None = None
    members: Members | None = None
    narrow: bool = True
    upkeep: bool = True
