"""Narrowing: rows whose key some side of a join lacks are left out before anything is joined.

    a ⋈ b ⋈ c ⋈ d ⋈ e     a row of a that has no partner in e is in no row of the join, and is
                          neither hashed, joined with rows of b, nor looked for in c and d

A row of inner joins that can be made again (`again`) has an element of each of their windows, and
all of these have one key: that of the columns which decide about the shard. So in a slab only those
keys matter that each window has, be it among the new elements or among those before. They are
found window by window, by keys alone, beginning with the one that has the fewest of a sample.

Invariant: what is left out is in no row of the joins; what is kept may be in none, too.
Cost: a look for each key in each window's runs until one lacks it, 10 to 50 ns each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from millrace.kernels.arrays import Bools, Hashes
from millrace.kernels.sorted_keys import contained, distinct
from millrace.operators.keys import hash_columns
from millrace.operators.relational.again import after_of, stream_of
from millrace.operators.relational.passing import Makes, Run
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import Timed
from millrace.plan.declared import Declared
from millrace.plan.relation_types import stream_schema
from millrace.plan.relations import Relation, Windowed
from millrace.plan.scopes import inputs

SAMPLED = 512
"""How many keys are looked for in all windows, to see which of these has the fewest."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A window that is joined: how its new rows are made, and which column has their keys."""

    window: Windowed
    new: Makes
    column: int

    @classmethod
    def of(
        cls, window: Windowed, new: Makes, declared: Declared, columns: Mapping[str, str]
    ) -> Self:
        """Describe a window over a stream that is spread by one of some columns."""
        names = stream_schema(window.stream, declared).names
        return cls(window, new, names.index(columns[stream_of(window)]))


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Joins whose rows have one key, by the name of the uppermost relation."""

    name: str
    leaves: Mapping[str, Leaf]

    def new(self, leaf: str, run: Run) -> Timed:
        """Return the new rows of a window that may have partners in all others."""
        if not run.slab.narrow:
            return self.leaves[leaf].new(run)
        if self.name not in run.narrowed:
            run.narrowed[self.name] = self._narrowed(run)
        return run.narrowed[self.name][leaf]

    def _narrowed(self, run: Run) -> dict[str, Timed]:
        sides = [Side.of(leaf, leaf.new(run)) for leaf in self.leaves.values()]
        keys = common_keys(sides, run.slab)
        return {
            name: side.having_one_of(keys) for name, side in zip(self.leaves, sides, strict=True)
        }


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The new rows of a window, the key of each, and the different keys."""

    window: Windowed
    timed: Timed
    hashes: Hashes
    keys: Hashes

    @classmethod
    def of(cls, leaf: Leaf, timed: Timed) -> Side:
        """Hash the keys of rows."""
        hashes = hash_columns(timed.rows, [timed.rows.schema.names[leaf.column]])
        return cls(leaf.window, timed, hashes, distinct(hashes))

    def having_one_of(self, keys: Hashes) -> Timed:
        """Return the rows that have one of some keys, ascending."""
        kept = contained(self.keys, keys)
        if kept.all():
            return self.timed
        mine = self.keys[kept]
        if not len(mine):
            return self.timed.take(np.zeros(0, np.int64))
        at = np.minimum(np.searchsorted(mine, self.hashes), len(mine) - 1)
        return self.timed.where(mine[at] == self.hashes)

    def having(self, keys: Hashes, slab: Slab) -> Bools:
        """Say which of some keys the window may have, of the slab or of before."""
        assert slab.past is not None, "a plan that reads elements again is given them"
        found = contained(keys, self.keys)
        others = np.flatnonzero(~found)
        after = after_of(self.window, slab)
        found[others] = slab.past.having(stream_of(self.window), keys[others], after)
        return found


def common_keys(sides: Sequence[Side], slab: Slab) -> Hashes:
    """Return the keys of new rows that all windows may have, ascending."""
    keys = distinct(np.concatenate([each.keys for each in sides]))
    if len(keys) > 2 * SAMPLED:
        sample = keys[:: len(keys) // SAMPLED]
        sides = sorted(sides, key=lambda each: int(each.having(sample, slab).sum()))
    for each in sides:
        keys = keys[each.having(keys, slab)]
    return keys


def joined_together(
    names: Mapping[Relation, str],
    told: Iterable[Relation],
    made: Mapping[Relation, Sequence[Windowed]],
) -> Iterator[tuple[str, str, Sequence[Windowed]]]:
    """Give the relations that read windows of joins of one key, and what is narrowed with each.

    That is the uppermost of the joins, and all their windows. What is read by others too is not
    narrowed. `made` are the windows of relations that are made again, and `told` the relations of
    streams.
    """
    readers: dict[Relation, list[Relation | None]] = {each: [] for each in names}
    for each in told:
        readers[each].append(None)
    for node in names:
        for each in inputs(node):
            readers[each].append(node)

    def within(node: Relation) -> Iterator[Relation]:
        yield node
        for each in inputs(node):
            if len(readers[each]) == 1 and not isinstance(each, Windowed):
                yield from within(each)

    for node, windows in made.items():
        alone = len(readers[node]) != 1 or readers[node][0] not in made
        if alone and len(windows) > 2:
            yield from ((names[each], names[node], windows) for each in within(node))
