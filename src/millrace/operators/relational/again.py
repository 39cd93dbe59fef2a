"""Reading again: what can be made anew of stored elements is not remembered by operators.

A window of time over a stream, what is selected and computed of it, and joins of such relations
are functions of the stream's elements, and those are stored once for all plans. So

- a join does not remember a side of this kind: it makes it again, of the elements with the keys
  that it looks for;
- nobody notes when such a row will go. It is told as if it stayed, and what goes in a slab is made
  again, of the elements whose time in the window ends in the slab, and told as a tail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from millrace.kernels.arrays import Hashes
from millrace.kernels.sorted_keys import contained, distinct
from millrace.operators.keys import hash_columns
from millrace.operators.relational.slab import Elements, Past, Slab
from millrace.operators.relational.timed import OPEN, Timed, concat_rows
from millrace.plan.relations import Source, Windowed


class Reads(Protocol):
    """Reads elements, and knows what was made of them."""

    def of(self, window: Windowed) -> Elements:
        """Return the elements of a window."""
        ...

    def once(self, recipe: Recipe, make: Callable[[], Timed]) -> Timed:
        """Return what a recipe makes, which is not made twice of the same elements."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How a relation is made of windows over streams."""

    windows: tuple[Windowed, ...]
    make: Callable[[Reads, Slab], Timed]

    def made(self, reads: Reads, slab: Slab) -> Timed:
        """Make the relation of the elements of its windows."""
        return reads.once(self, lambda: self.make(reads, slab))

    def then(self, make: Callable[[Timed, Slab], Timed]) -> Recipe:
        """Return how something is made of what this recipe makes."""
        return Recipe(self.windows, lambda reads, slab: make(self.made(reads, slab), slab))


def lasting(window: Windowed) -> bool:
    """Say whether the window's rows come with their elements, and can be made again of them."""
    by = window.window
    constant = by.size is None or isinstance(by.size, int)
    moving = by.slide is not None or by.lag
    return isinstance(window.stream, Source) and by.kind == "range" and constant and not moving


def reach_of(window: Windowed) -> int | None:
    """Return how long before an instant an element may lie whose row goes at it or later."""
    size = window.window.size
    assert size is None or isinstance(size, int), "a window that is read again has a constant size"
    return None if size is None else size + 1


def after_of(window: Windowed, slab: Slab) -> int:
    """Return the instant after which elements lie whose rows do not go before a slab."""
    reach = reach_of(window)
    return -OPEN if reach is None else slab.begin - reach - 1


def stream_of(window: Windowed) -> str:
    """Return the stream that a window is over."""
    assert isinstance(window.stream, Source), "only elements of declared streams are read again"
    return window.stream.name


@dataclass(slots=True)
class Again:
    """What one run has read again: for each window the keys that it knows, and their elements."""

    slab: Slab
    known: dict[Windowed, tuple[Hashes, Elements]] = field(default_factory=dict)
    made: dict[Recipe, tuple[tuple[int, ...], Timed]] = field(default_factory=dict)
    """What recipes have made when so many keys were known of each of their windows."""

    @property
    def _past(self) -> Past:
        assert self.slab.past is not None, "a plan that reads elements again is given them"
        return self.slab.past

    def by_keys(self, recipe: Recipe, keys: Hashes) -> Timed:
        """Make a relation again, at least for some keys, but for what has gone before the slab."""
        return recipe.made(Asked(self, keys), self.slab)

    def going(self, recipe: Recipe, columns: Mapping[str, str] | None) -> Timed:
        """Return those rows of a relation, told before the slab, that go in it.

        If there are several windows, a row goes with one of its elements; the others are found by
        the columns that decide about the shard.
        """
        gone = {each: self._gone(each) for each in recipe.windows}
        if len(gone) == 1:
            return self._ending(recipe.made(Given(gone), self.slab))
        assert columns is not None, "what is joined again is spread by columns"
        keys = [
            hash_columns(elements.rows, [columns[stream_of(window)]])
            for window, elements in gone.items()
        ]
        return self._ending(self.by_keys(recipe, distinct(np.concatenate(keys))))

    def going_of(self, recipe: Recipe, keys: Hashes) -> Timed:
        """Return the rows that go in the slab, at least those of some keys."""
        return self._ending(self.by_keys(recipe, distinct(keys)))

    def _ending(self, timed: Timed) -> Timed:
        return timed.where((timed.ends >= self.slab.begin) & (timed.ends < self.slab.end))

    def _gone(self, window: Windowed) -> Elements:
        """Return the elements whose time in a window ends in the slab."""
        reach, slab = reach_of(window), self.slab
        if reach is None:
            return self._past.between(stream_of(window), slab.begin, slab.begin)
        end = min(slab.end - reach, slab.begin)
        return self._past.between(stream_of(window), slab.begin - reach, end)

    def of(self, window: Windowed, keys: Hashes) -> Elements:
        """Return the elements of a window that have some keys, or others that are known."""
        stream, after = stream_of(window), after_of(window, self.slab)
        if window not in self.known:
            self.known[window] = keys, self._past.of(stream, keys, after)
        known, elements = self.known[window]
        missing = keys[~contained(keys, known)]
        if len(missing):
            more = self._past.of(stream, missing, after)
            rows = concat_rows([elements.rows, more.rows], elements.rows.schema)
            elements = Elements(rows, np.concatenate((elements.times, more.times)))
            self.known[window] = distinct(np.concatenate((known, missing))), elements
        return elements


@dataclass(slots=True)
class Asked:
    """Reads the elements of some keys, and others that are known."""

    again: Again
    keys: Hashes
    read: dict[Windowed, Elements] = field(default_factory=dict)

    def of(self, window: Windowed) -> Elements:
        """Return the elements of a window."""
        if window not in self.read:
            self.read[window] = self.again.of(window, self.keys)
        return self.read[window]

    def once(self, recipe: Recipe, make: Callable[[], Timed]) -> Timed:
        """Return what a recipe makes; as long as no more keys are known, it is the same."""
        for window in recipe.windows:
            self.of(window)
        known = tuple(len(self.again.known[window][0]) for window in recipe.windows)
        if self.again.made.get(recipe, ((), None))[0] != known:
            self.again.made[recipe] = known, make()
        return self.again.made[recipe][1]


@dataclass(frozen=True, slots=True)
class Given:
    """Reads elements that are there."""

    elements: Mapping[Windowed, Elements]

    def of(self, window: Windowed) -> Elements:
        """Return the elements of a window."""
        return self.elements[window]

    def once(self, recipe: Recipe, make: Callable[[], Timed]) -> Timed:  # noqa: ARG002  of a protocol
        """Return what a recipe makes."""
        return make()


def with_tails(new: Timed, going: Timed, slab: Slab) -> Timed:
    """Tell rows as if those stayed that do not go in the slab; and what goes in it as tails."""
    ends = np.where(new.ends >= slab.end, OPEN, new.ends)
    stays = Timed(new.rows, new.starts, ends, new.weights)
    forever = np.full(len(going), OPEN)
    return Timed.concat([stays, Timed(going.rows, going.ends, forever, -going.weights)],
                        new.rows.schema)  # fmt: skip
