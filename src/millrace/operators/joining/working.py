"""What one slab is to the queries of a family: what comes to them, less what goes.

Queries are found by lineage, block by block, or all at once by an index over them; whether rows
that come are news is asked about the few queries to which something comes, by lineage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.operators.joining.answers import Answering, Rows, Telling, told_rows
from millrace.operators.joining.choosing import BESIDE, LINEAGE, chosen
from millrace.operators.joining.conditions import Conditions
from millrace.operators.joining.exploring import CELLS_AT_ONCE, Exploring
from millrace.operators.joining.finding import Finding, Probe
from millrace.operators.joining.lineage import leaf_bits, leaf_codes
from millrace.operators.joining.pairing import WINDOWS
from millrace.operators.joining.prepared import Prepared
from millrace.operators.joining.queries import blocks
from millrace.operators.joining.stems import Rows as LeafRows
from millrace.operators.joining.stems import Stems
from millrace.operators.relational.slab import Slab


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What one slab is to the queries of a family."""

    stems: Stems
    conditions: Conditions
    prepared: Prepared
    codes: tuple[dict[int, Ints], ...]
    entered: Ints
    telling: Telling

    @classmethod
    def of(
        cls,
        conditions: Conditions,
        prepared: Prepared,
        leaves: list[LeafRows],
        telling: Telling,
        slab: Slab,
    ) -> Work:
        """Lay out what is to be done for some leaves."""
        assert slab.members is not None, "a family that is one join is given its queries"
        codes = tuple(
            leaf_codes(leaf, rows, conditions, prepared.queries, slab.functions)
            for leaf, rows in enumerate(leaves)
        )
        stems = Stems(leaves, conditions.equalities, slab.functions)
        entered = slab.members.entered(prepared.queries.born)
        return cls(stems, conditions, prepared, codes, entered, telling)

    def came(self, strategy: str) -> tuple[list[str], Rows]:
        """Return what comes to all queries, found by a strategy, or by what takes least."""
        finding = self.finding()
        if finding is not None:
            probes = finding.probes()
            way = chosen(strategy, finding, probes)
            if way in WINDOWS:  # they take it that what is stored is not newer than drivers
                past = self._found(finding, finding.probes("past"), way)
                slab = self._found(finding, finding.probes("slab"), BESIDE)
                return [way], Rows.concat([past, slab], self.telling.told)
            if way != LINEAGE:
                return [way], self._found(finding, probes, way)
        every = np.arange(len(self.prepared.queries))
        return [LINEAGE], self._by_lineage(every, _coming)

    def finding(self) -> Finding | None:
        """Return how queries are found by an index over them, if they can be."""
        if self.prepared.pairing is None:
            return None
        found = Finding(
            self.stems,
            self.conditions,
            self.prepared,
            self.codes,
            self.entered,
            self.telling.functions,
        )
        return found if found.within_reach() else None

    def _found(self, finding: Finding, probes: list[Probe], way: str) -> Rows:
        parts, queries = [], self.prepared.queries
        for probe in probes:
            strategy = self.prepared.strategy(way, probe.driver)
            for found, wanted in finding.found(probe, strategy):
                parts.append(told_rows(self.stems, found, queries, wanted, self.telling))
        return Rows.concat(parts, self.telling.told)

    def news(self, came: Rows) -> Rows:
        """Leave out what is equal to something that goes at the same instant."""
        some = np.unique(came.queries)
        order = np.argsort(came.queries, kind="stable")
        ascending = came.take(order)

        def news(answering: Answering, block: Ints) -> Rows:
            first, stop = np.searchsorted(ascending.queries, (block[0], block[-1] + 1))
            mine = ascending.take(np.arange(first, stop))
            numbers = np.searchsorted(block, mine.queries)
            return answering.news(Rows(numbers, mine.times, mine.rows))

        return self._by_lineage(some, news)

    def _by_lineage(self, some: Ints, tell: Callable[[Answering, Ints], Rows]) -> Rows:
        """Tell something about some queries, block by block, by the lineage of rows."""
        parts, leaves = [], self.stems.leaves
        for block in blocks(some, max(map(len, leaves)), CELLS_AT_ONCE):
            queries = self.prepared.queries.take(block)
            lineage = tuple(
                leaf_bits(rows, codes, queries, self.entered[block])
                for rows, codes in zip(leaves, self.codes, strict=True)
            )
            exploring = Exploring(
                self.stems, self.conditions, queries, lineage, self.telling.functions
            )
            rows = tell(Answering(exploring, self.telling), block)
            parts.append(Rows(block[rows.queries], rows.times, rows.rows))
        return Rows.concat(parts, self.telling.told)


def _coming(answering: Answering, _: Ints) -> Rows:
    return answering.coming()
