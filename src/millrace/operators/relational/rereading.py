"""What a plan reads again: which of its relations can be made anew of stored elements, and how.

A relation that can be is not remembered by the operators above it. Those that join ask for some of
its keys; those that must know what goes are told by tails (`again.with_tails`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

from millrace.operators.keys import hash_columns
from millrace.operators.relational.again import (
    Recipe,
    lasting,
    reach_of,
    stream_of,
    with_tails,
)
from millrace.operators.relational.join import InnerJoin
from millrace.operators.relational.passing import Makes, Run
from millrace.operators.relational.rowwise import each_row, plain_elements, windowed
from millrace.operators.relational.timed import Timed
from millrace.plan.declared import Declared
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import Filter, Join, Project, Relation, Windowed


class Rereading:
    """The recipes of a plan's relations, and which windows are read again by them.

    `columns` says by which column each stream is spread over shards, if it is.
    """

    def __init__(self, declared: Declared, columns: Mapping[str, str] | None) -> None:
        self._declared, self._columns = declared, columns
        self._recipes: dict[Relation, Recipe] = {}
        self._read: dict[Windowed, bool] = {}
        self._endless: set[str] = set()
        self._by_key: set[str] = set()

    @cached_property
    def reaches(self) -> dict[str, int | None]:
        """How far back elements of streams are read; None is for ever."""
        found: dict[str, int | None] = {}
        for window in self._read:
            reach, known = reach_of(window), found.get(stream_of(window), 0)
            widest = None if reach is None or known is None else max(reach, known)
            found[stream_of(window)] = widest
        return {**found, **dict.fromkeys(self._endless)}

    @cached_property
    def keyed(self) -> frozenset[str]:
        """The streams whose elements are read by their keys, and not by time alone."""
        found = {stream_of(window) for window, by_key in self._read.items() if by_key}
        return frozenset(found | self._by_key)

    @property
    def made(self) -> frozenset[Relation]:
        """The relations of which nobody notes when rows will go."""
        return frozenset(self._recipes)

    @property
    def windows(self) -> Mapping[Relation, tuple[Windowed, ...]]:
        """Of which windows those relations are made."""
        return {node: recipe.windows for node, recipe in self._recipes.items()}

    # ---- while the plan is made ------------------------------------------------------------------

    def learn(self, node: Relation) -> None:
        """Note how a relation is made again, if it can be; its inputs are known already."""
        match node:
            case Windowed() if lasting(node):
                names = relation_schema(node, self._declared).names
                self._recipes[node] = Recipe(
                    (node,), lambda reads, _: windowed(node, names, plain_elements(reads.of(node)))
                )
            case Filter(given) | Project(given) if given in self._recipes:
                self._recipes[node] = self._recipes[given].then(partial(each_row, node=node))

    def learn_join(
        self, node: Join, join: InnerJoin, left: Recipe | None, right: Recipe | None
    ) -> None:
        """Note that a join is made again of both sides, if both can be."""
        if left is not None and right is not None:
            self._recipes[node] = Recipe(
                (*left.windows, *right.windows),
                lambda reads, slab: join.pairs(
                    left.made(reads, slab), right.made(reads, slab), slab
                ),
            )

    def by_key(self, node: Relation) -> Recipe | None:
        """Return how a relation is made again for some keys, to an operator that will ask so."""
        recipe = self._recipes.get(node)
        self._note(recipe, by_key=True)
        return recipe

    def read_endlessly(self, stream: str, *, by_key: bool = False) -> None:
        """Note that elements of a stream are read as far back as there are some."""
        self._endless.add(stream)
        if by_key:
            self._by_key.add(stream)

    def tailed(self, node: Relation, new: Makes) -> Makes:
        """Return a relation to an operator that must know what goes: if it can be, by tails."""
        recipe = self._recipes.get(node)
        if recipe is None:
            return new
        self._note(recipe, by_key=len(recipe.windows) > 1)

        def tailed(run: Run) -> Timed:
            going = run.meter.again(run.again.going(recipe, self._columns))
            return with_tails(new(run), going, run.slab)

        return tailed

    def _note(self, recipe: Recipe | None, *, by_key: bool) -> None:
        """Note which windows are read again, and how."""
        for window in () if recipe is None else recipe.windows:
            if by_key or window.window.size is not None:
                self._read[window] = by_key or self._read.get(window, False)

    # ---- while it runs ---------------------------------------------------------------------------

    def coming(self, node: Relation, place: str, run: Run, new: Makes) -> Timed | None:
        """Return a join that is made again to an operator that only tells what comes.

        What goes matters to it if the same row comes at the same instant; so only what goes of the
        keys is read that something comes of.
        """
        recipe = self._recipes.get(node)
        if recipe is None or len(recipe.windows) == 1:
            return None
        fresh = new(run)
        keys = hash_columns(fresh.rows, [place])
        going = run.meter.again(run.again.going_of(recipe, keys))
        return with_tails(fresh, going, run.slab)
