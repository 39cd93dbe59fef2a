"""Weighing: in which ways an operator has worked, and what each way was expected to take.

An operator that chooses tells with what it has made why: shards and slabs add up, and the driver
shows it, wherever the work was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Weighed:
    """The ways that were taken, what each that there is was expected to take, for how many.

    What is expected is in ns; where nothing was, there was nothing to choose.
    """

    ways: tuple[str, ...]
    costs: Mapping[str, float]
    n_asking: int

    @property
    def way(self) -> str:
        """The ways in one word, or in a few."""
        return ", ".join(self.ways)

    def __add__(self, other: Weighed) -> Weighed:
        """Return what was done here and there.

        >>> (Weighed(("ssi",), {"ssi": 2.0}, 5) + Weighed(("lineage",), {"ssi": 1.0}, 1)).way
        'lineage, ssi'
        """
        names = dict.fromkeys([*self.costs, *other.costs])
        return Weighed(
            tuple(sorted({*self.ways, *other.ways})),
            {each: self.costs.get(each, 0.0) + other.costs.get(each, 0.0) for each in names},
            self.n_asking + other.n_asking,
        )

    def spelt(self) -> str:
        """Say what was expected of each way, the cheapest first.

        >>> Weighed(("ssi",), {"lineage": 2e6, "ssi": 1.5e5}, 1_000).spelt()
        ': ssi 0.150 ms, lineage 2.000 ms'
        """
        costs = sorted(self.costs.items(), key=lambda each: each[1])
        told = ", ".join(f"{name} {cost / 1e6:,.3f} ms" for name, cost in costs)
        return f": {told}" if told else ""

    def to_json(self) -> list[Any]:
        """Spell it as JSON."""
        return [list(self.ways), dict(self.costs), self.n_asking]

    @classmethod
    def from_json(cls, spelt: list[Any]) -> Self:
        """Read what `to_json` wrote."""
        ways, costs, n_asking = spelt
        return cls(tuple(ways), costs, n_asking)
