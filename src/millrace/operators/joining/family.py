"""A family's stream of joins: all queries at once, of the elements that are stored for everybody.

    slab's elements ─► who is anybody's? ─► SteMs of their keys ─► for each block of queries:
        lineage of rows ─► drivers ask, lineages meet ─► rows, each with the set of its queries

Nothing is remembered but the elements themselves, and those are shared with all other plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Hashes
from millrace.operators.joining import rules
from millrace.operators.joining.choosing import chosen, estimates
from millrace.operators.joining.conditions import Conditions, Sorting
from millrace.operators.joining.lineage import anybodys, leaf_codes
from millrace.operators.joining.pairing import pairing
from millrace.operators.joining.prepared import KEPT, Prepared
from millrace.operators.joining.queries import Queries
from millrace.operators.joining.stems import Reading, behind
from millrace.operators.joining.stems import Rows as LeafRows
from millrace.operators.joining.told import Telling
from millrace.operators.joining.turnover import Turnover
from millrace.operators.joining.working import Work
from millrace.operators.query_sets import SETS
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.streams import ordered
from millrace.operators.relational.timed import OPEN, empty_rows
from millrace.operators.weighing import Weighed
from millrace.plan.declared import Declared
from millrace.plan.joining import Joining, Sharing
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import StreamKind
from millrace.sharing.lineage_prices import LINEAGE

_NUMBERS = count()


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a slab comes to: what is told, how far back windows reach, what was read again.

    `weighed` is how queries were found, if something was there to find them by.
    """

    told: Elements
    reach: int
    n_past: int
    weighed: Weighed | None


@dataclass(frozen=True, slots=True, eq=False)
class FamilyJoin:
    """Tells what joins of windows give to all queries of a family."""

    joining: Joining
    conditions: Conditions
    readings: tuple[Reading, ...]
    told: pa.Schema
    distinct: bool
    """Whether rows that come are never equal to rows that go."""
    strategy: str
    kind: StreamKind = "istream"
    """Whether what comes is told, or what goes."""
    number: int = field(default_factory=lambda: next(_NUMBERS))

    @classmethod
    def of(
        cls,
        joining: Joining,
        declared: Declared,
        columns: Mapping[str, str] | None,
        told: pa.Schema,
        sharing: Sharing,
        kind: StreamKind = "istream",
    ) -> FamilyJoin:
        """Make the operator; `columns` says by which column each stream is spread."""
        conditions = Sorting(joining, declared).sorted()
        readings = []
        for leaf, condition in zip(joining.leaves, conditions.filters, strict=True):
            names = tuple(relation_schema(leaf.window, declared).names)
            place = None if columns is None else columns[leaf.stream]
            readings.append(Reading(leaf, condition, names, place))
        how = sharing.distinct, sharing.strategy, kind
        return cls(joining, conditions, tuple(readings), told, *how)

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used: none of its own."""
        return {}

    def step(self, slab: Slab) -> Stepped:
        """Take a slab."""
        assert slab.members is not None, "a family that is one join is given its queries"
        with KEPT.using(self, slab.members, upkeep=slab.upkeep) as prepared:
            leaves = self._leaves(prepared.queries, slab)
            n_past = sum(each.n_past for each in leaves)
            weighed, told = self._told(prepared, leaves, slab)
            return Stepped(told, prepared.queries.reach, n_past, weighed)

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        """Prepare queries: their ids, the changes that they came with, and their parameters."""
        queries = Queries.of(rows, self.joining, self.conditions)
        sizes = [each.window.window.size for each in self.joining.leaves]
        windowed = any(not isinstance(each, int) for each in sizes)
        return Prepared.of(queries, pairing(self.conditions, windowed=windowed))

    def change(self, prepared: Prepared, change: Turnover) -> Prepared | None:
        """Change what was prepared as queries have; None if all have to be prepared anew."""
        how = self.joining, self.conditions
        queries = prepared.queries.changed(change.gone, change.come, *how)
        return None if queries is None else prepared.changed(change.gone, queries)

    def _leaves(self, queries: Queries, slab: Slab) -> list[LeafRows]:
        """Return the rows of each leaf that may be somebody's: those of the slab, and partners."""
        readings = self._readings(queries, slab)
        new = [
            self._anybodys(leaf, each.new(slab), queries, slab)
            for leaf, each in enumerate(readings)
        ]
        ending = _ending(readings, queries, slab) if self.kind == "dstream" else []
        found = []
        for leaf, reading in enumerate(readings):
            # What goes may be of the driver's own leaf; what comes asks the others.
            asking = [each.keys for at, each in enumerate(new) if at != leaf or not self.distinct]
            asking += ending
            if any(map(len, asking)):
                past = reading.past(asking, queries.reach, slab)
                past = self._anybodys(leaf, past, queries, slab)
            else:
                past = new[leaf].take(np.zeros(0, np.int64))
            found.append(behind(past, new[leaf]))
        return found

    def _readings(self, queries: Queries, slab: Slab) -> list[Reading]:
        """Return how leaves are read: what no query sees is left out before anything is asked."""
        assert slab.members is not None, "a family that is one join is given its queries"
        low, _ = rules.sees(slab.members.entered(queries.born))
        since = int(low.min(initial=OPEN))
        return [replace(each, since=since) for each in self.readings]

    def _anybodys(self, leaf: int, rows: LeafRows, queries: Queries, slab: Slab) -> LeafRows:
        codes = leaf_codes(leaf, rows, self.conditions, queries, slab.functions)
        return rows.where(anybodys(codes, queries, len(rows)))

    def _told(
        self, prepared: Prepared, leaves: list[LeafRows], slab: Slab
    ) -> tuple[Weighed | None, Elements]:
        queries, weighed = prepared.queries, None
        if not all(map(len, leaves)) or not len(queries):
            return None, Elements(empty_rows(self._schema), np.zeros(0, np.int64))
        work = self._work(prepared, leaves, slab)
        if self.kind == "dstream":
            found = work.went(slab.begin, slab.end)
            if not self.distinct and len(found):
                found = found.less(work.came(self.strategy)[1], len(queries))
        else:
            weighed, found = work.came(self.strategy)
            if not self.distinct and len(found):
                found = work.news(found)
        rows, times = found.as_sets(queries.ids, distinct=self.distinct)
        return weighed, ordered(rows, times, np.ones(len(times), np.int64))

    def _work(self, prepared: Prepared, leaves: list[LeafRows], slab: Slab) -> Work:
        telling = Telling(self.joining.outputs, self.told, slab.functions)
        return Work.of(self.conditions, prepared, leaves, telling, slab)

    def weighed(self, prepared: Prepared, slab: Slab) -> Weighed:
        """Say how queries would be found for the elements of a slab, and what that would take."""
        leaves = self._leaves(prepared.queries, slab)
        n_drivers = sum(len(each.new) for each in leaves)
        finding = None
        if all(map(len, leaves)) and len(prepared.queries):
            finding = self._work(prepared, leaves, slab).finding()
        if finding is None:
            return Weighed((LINEAGE,), {}, n_drivers)
        probes = finding.probes()
        ways = chosen(self.strategy, finding, probes).ways
        return Weighed(ways, estimates(finding, probes), n_drivers)

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([pa.field(SETS, pa.binary()), *self.told])


def _ending(readings: Sequence[Reading], queries: Queries, slab: Slab) -> list[Hashes]:
    """Return the keys of the past elements whose time in a window ends in the slab."""
    found = []
    for reading, sizes in zip(readings, queries.sizes, strict=True):
        if len(sizes):
            begin = slab.begin - 1 - int(sizes.max())
            end = min(slab.begin, slab.end - 1 - int(sizes.min()))
            found.append(reading.between(begin, end, slab).keys)
    return found
