"""A family's plan under trial: its inputs in slabs and shards, and what each query should tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.operators.keys import N_BUCKETS, bucket_of, hash_columns
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.state import MemoryState
from millrace.plan.families import Families
from millrace.plan.levels import BIRTHS, QUERIES, family_declared
from millrace.plan.placement import EVERYWHERE
from millrace.plan.push import Pushing
from millrace.plan.relations import StreamKind, StreamOf
from millrace.plan.unnest import Unnesting
from millrace.schema import type_named
from millrace.testing.family_strategies import Family
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.bags import Bagged
from millrace.testing.oracle.families import Member, told_by
from millrace.testing.oracle.relations import Definition, Element
from millrace.testing.relation_worlds import DECLARED, Worlds

Told = Counter[tuple[Any, ...]]
"""What queries tell: the query, the instant, the values; and how often."""


def expected(some: list[Member], world: Worlds, stream: StreamOf) -> Told:
    """Return what queries tell by the definition."""
    definition = Definition(DECLARED, *world)
    return Counter(
        (member.qid, *comparable(at, list(row.values())))
        for member in some
        for at, row in told_by(member, stream, definition)
    )


def comparable(at: int, row: list[Any]) -> tuple[Any, ...]:
    """Return an instant and the values of a row, of which equal ones compare as such."""
    values = (tuple(map(same, each)) if isinstance(each, list) else same(each) for each in row)
    return at, *values


class Trial:
    """The plan of a family, and how its inputs are made for slabs and shards."""

    def __init__(self, family: Family, some: list[Member], world: Worlds) -> None:
        self.types = [type_named(each) for each in family.types]
        self.members, self.world = some, world
        self.declared = family_declared(DECLARED, self.types)

    def streams(self, family: Family, *kinds: StreamKind) -> list[StreamOf]:
        """Return what the family tells of its relation, for all queries."""
        return self.made(*(StreamOf(kind, family.plan) for kind in kinds))

    def made(self, *streams: StreamOf) -> list[StreamOf]:
        """Return streams for all queries."""
        pushing, unnesting = Pushing(DECLARED), Unnesting(DECLARED)
        making = Families(DECLARED, self.types)
        found = []
        for each in streams:
            plain = unnesting.stream(pushing.stream(each))
            assert isinstance(plain, StreamOf)
            found.append(making.stream(plain))
        return found

    def slab(
        self, begin: int, end: int, state: MemoryState, share: dict[str, Any] | None = None
    ) -> Slab:
        """Return a slab of all inputs, or of a shard's share of them."""
        streams, tables = self.world
        births = sorted({each.birth for each in self.members})
        copied = {
            name: [
                (at, {**row, "#birth": birth})
                for at, row in some
                for birth in births
                if birth <= at
            ]
            for name, some in streams.items()
        }
        rows = {
            QUERIES: [change for each in self.members for change in self._changes(each)],
            BIRTHS: [(each, {"birth": each}, 1) for each in births],
        }
        inputs: dict[str, list[Any]] = {**copied, **tables, **rows}
        taken = {name: self._taken(name, some, begin, end, share) for name, some in inputs.items()}
        chosen = {name: each for name, each in taken.items() if name in streams}
        others = {name: each for name, each in taken.items() if name not in streams}
        return Slab(begin, end, chosen, others, state, first=begin == 0)

    def _changes(self, member: Member) -> list[tuple[int, dict[str, Any], int]]:
        values = {f"p{at}": each for at, each in enumerate(member.values)}
        row = {"qid": member.qid, "birth": member.birth, **values}
        return [(member.birth, row, 1), (member.end, row, -1)]

    def _taken(
        self, name: str, items: list[Any], begin: int, end: int, share: dict[str, Any] | None
    ) -> Elements:
        schema = (self.declared.streams.get(name) or self.declared.tables[name]).to_arrow()
        some = [each for each in items if begin <= each[0] < end]
        rows = pa.RecordBatch.from_pylist([each[1] for each in some], schema=schema)
        if share is not None and share["columns"].get(name, EVERYWHERE) != EVERYWHERE:
            hashes = hash_columns(rows, [share["columns"][name]])
            owners = bucket_of(hashes).astype(np.int64) * share["n"] // N_BUCKETS
            mask = owners == share["shard"]
            some = [each for each, mine in zip(some, mask, strict=True) if mine]
            rows = rows.filter(pa.array(mask))
        is_table = name in self.declared.tables
        copies = np.array([each[2] for each in some], np.int64) if is_table else None
        return Elements(rows, np.array([each[0] for each in some], np.int64), copies)

    def told(self, elements: Elements) -> Told:
        """Return what is told by queries that are alive; the others are not heard."""
        ends = {each.qid: each.end for each in self.members}
        rows = (list(row.values()) for row in elements.rows.to_pylist())
        return Counter(
            (row[0], *comparable(at, row[1 + len(self.types) :]))
            for at, row in zip(elements.times.tolist(), rows, strict=True)
            if at < ends[row[0]]
        )


def in_order(element: Element) -> tuple[int, Any]:
    """Order elements of one instant as streams do, where rows are counted."""
    return element[0], Bagged.of(element[1]).place()
