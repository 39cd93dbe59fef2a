"""One slab on its way through the operators of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from millrace.kernels.arrays import Hashes
from millrace.operators.relational.again import Again, Recipe
from millrace.operators.relational.meter import Meter
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.streams import Net
from millrace.operators.relational.timed import Timed
from millrace.operators.weighing import Weighed


@dataclass(slots=True)
class Run:
    """One slab on its way through a plan, and what was computed in it so far."""

    slab: Slab
    made: dict[str, object] = field(default_factory=dict)
    """What relations and streams have given, by the names of operators."""
    changes: dict[str, Net] = field(default_factory=dict)
    narrowed: dict[str, dict[str, Timed]] = field(default_factory=dict)
    """What windows give to joins of one key, by the names of relations (`narrowing`)."""
    meter: Meter = field(default_factory=Meter)
    again: Again = field(init=False)
    reach: int | None = None
    """How far back elements are read for the queries of a family, if they say so."""
    weighed: list[Weighed] = field(default_factory=list)
    """In which ways operators have worked that choose one."""

    def __post_init__(self) -> None:
        self.again = Again(self.slab)

    def by_keys(self, recipe: Recipe, keys: Hashes) -> Timed:
        """Make a relation again, at least for some keys."""
        return self.meter.again(self.again.by_keys(recipe, keys))


Makes = Callable[[Run], Timed]
"""Gives what is new in a relation."""
Tells = Callable[[Run], Elements]
"""Gives the elements of a stream."""
