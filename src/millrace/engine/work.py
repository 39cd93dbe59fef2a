"""Work of plans: what their operators have done, added up in the driver from the shards' receipts.

Numbers are of this engine since it started, and do not enter commits: they say nothing that another
run would have to know.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Self, TypeAlias

from millrace.operators.weighing import Weighed

if TYPE_CHECKING:
    from millrace.engine.receipt import Receipt

Work: TypeAlias = Mapping[str, Sequence[float]]
"""For each operator of a plan, how many rows it told, its seconds, and how many it read again."""


def summed(one: Work, other: Work) -> Work:
    """Return what the same operators did in two slabs.

    >>> summed({"r0": [2, 0.5, 0]}, {"r0": [1, 0.25, 3], "r1": [1, 0.5, 0]})
    {'r0': [3, 0.75, 3], 'r1': [1, 0.5, 0]}
    """
    found = {name: list(each) for name, each in one.items()}
    for name, each in other.items():
        known = found.get(name, [0] * len(each))
        found[name] = [mine + theirs for mine, theirs in zip(known, each, strict=True)]
    return found


@dataclass(frozen=True, slots=True)
class Done:
    """How many rows were told, in how many seconds, and how many were read again for that."""

    rows: int = 0
    seconds: float = 0.0
    again: int = 0

    @classmethod
    def of(cls, measured: Sequence[float]) -> Self:
        """Read what a meter says of an operator."""
        rows, seconds, again = measured
        return cls(int(rows), seconds, int(again))

    def __add__(self, other: Done) -> Done:
        again = self.again + other.again
        return Done(self.rows + other.rows, self.seconds + other.seconds, again)


@dataclass(slots=True)
class PlanWork:
    """What one plan has done: in how many epochs, in all of them, and in the last of them.

    `shards` tells the shards apart in the last epoch in which several ran it; `weighed` is in which
    ways they worked when they last had to choose.
    """

    n_epochs: int = 0
    epoch: int = -1
    total: dict[str, Done] = field(default_factory=dict)
    last: dict[str, Done] = field(default_factory=dict)
    shards: dict[int, Done] = field(default_factory=dict)
    weighed: Weighed | None = None

    def add(
        self, epoch: int, by_shard: Mapping[int, Work], weighed: Sequence[Weighed] = ()
    ) -> None:
        """Add what the shards did in an epoch, and in which ways."""
        if weighed:
            self.weighed = reduce(add, weighed)
        self.n_epochs, self.epoch, self.last = self.n_epochs + 1, epoch, {}
        for work in by_shard.values():
            for operator, done in work.items():
                _add(self.total, operator, done)
                _add(self.last, operator, done)
        if len(by_shard) > 1:
            self.shards = {
                shard: sum(map(Done.of, work.values()), Done())
                for shard, work in sorted(by_shard.items())
            }


def _add(to: dict[str, Done], operator: str, done: Sequence[float]) -> None:
    to[operator] = to.get(operator, Done()) + Done.of(done)


@dataclass(slots=True)
class Works:
    """What all plans have done, by the numbers of their feeds."""

    plans: dict[int, PlanWork] = field(default_factory=dict)

    def add(self, epoch: int, receipts: Sequence[Receipt]) -> None:
        """Add what the receipts of an epoch say."""
        found: dict[int, dict[int, Work]] = {}
        weighed: dict[int, list[Weighed]] = {}
        for receipt in receipts:
            for number, each in receipt.weighed.items():
                weighed.setdefault(number, []).append(each)
            for number, work in receipt.work.items():
                found.setdefault(number, {})[receipt.shard] = work
        for number, by_shard in found.items():
            ways = weighed.get(number, ())
            self.plans.setdefault(number, PlanWork()).add(epoch, by_shard, ways)

    def keep(self, numbers: Collection[int]) -> None:
        """Forget all but some plans."""
        self.plans = {number: each for number, each in self.plans.items() if number in numbers}
