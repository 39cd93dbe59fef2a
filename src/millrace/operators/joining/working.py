"""What one slab is to the queries of a family: what comes to them less what goes, or what goes.

Queries are found by lineage, block by block, or all at once by an index over them; whether rows
that come are news is asked about the few queries to which something comes, by lineage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.operators.joining.answers import Answering
from millrace.operators.joining.choosing import BESIDE, chosen
from millrace.operators.joining.conditions import Conditions
from millrace.operators.joining.exploring import CELLS_AT_ONCE, Exploring
from millrace.operators.joining.finding import Finding, Probe
from millrace.operators.joining.lineage import leaf_bits, leaf_codes
from millrace.operators.joining.pairing import WINDOWS
from millrace.operators.joining.prepared import Prepared
from millrace.operators.joining.queries import blocks
from millrace.operators.joining.stems import Rows as LeafRows
from millrace.operators.joining.stems import Stems
from millrace.operators.joining.told import Pairs, Rows, Telling, still_wanted, told_rows
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.timed import take_rows
from millrace.operators.weighing import Weighed
from millrace.sharing.lineage_prices import LINEAGE


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

    def came(self, strategy: str) -> tuple[Weighed, Rows]:
        """Return what comes to all queries, found by a strategy, or by what takes least."""
        finding = self.finding()
        weighed = Weighed((LINEAGE,), {}, sum(len(each.new) for each in self.stems.leaves))
        if finding is not None:
            probes = finding.probes()
            weighed = chosen(strategy, finding, probes)
            way = weighed.way
            if way in WINDOWS:  # they take it that what is stored is not newer than drivers
                past = self._found(finding, finding.probes("past"), way)
                slab = self._found(finding, finding.probes("slab"), BESIDE)
                return weighed, self._told([*past, *slab])
            if way != LINEAGE:
                return weighed, self._told([*self._found(finding, probes, way)])
        every, parts = np.arange(len(self.prepared.queries)), []
        for block, answering in self._by_lineage(every):
            parts += [each.numbered_from(int(block[0])) for each in answering.coming()]
        return weighed, self._told(parts)

    def _told(self, pairs: list[Pairs]) -> Rows:
        return told_rows(self.stems, Pairs.concat(pairs), self.prepared.queries, self.telling)

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

    def _found(self, finding: Finding, probes: list[Probe], way: str) -> Iterator[Pairs]:
        queries, functions = self.prepared.queries, self.telling.functions
        for probe in probes:
            strategy = self.prepared.strategy(way, probe.driver)
            for found, wanted in finding.found(probe, strategy):
                yield still_wanted(self.stems, Pairs.of_each(found, wanted), queries, functions)

    def news(self, came: Rows) -> Rows:
        """Leave out what is equal to something that goes at the same instant."""
        some = np.unique(came.queries)
        order = np.argsort(came.queries, kind="stable")
        at, queries, parts = came.at[order], came.queries[order], []
        for block, answering in self._by_lineage(some):
            first, stop = np.searchsorted(queries, (block[0], block[-1] + 1))
            used, mine = np.unique(at[first:stop], return_inverse=True)
            numbers = np.searchsorted(block, queries[first:stop])
            rows = Rows(came.times[used], take_rows(came.rows, used), mine, numbers)
            news = answering.news(rows)
            parts.append(replace(news, queries=block[news.queries]))
        return Rows.concat(parts, self.telling.told)

    def went(self, begin: int, end: int) -> Rows:
        """Return what goes from all queries in a slab, news or not."""
        every, parts = np.arange(len(self.prepared.queries)), []
        for block, answering in self._by_lineage(every):
            going = answering.going(begin, end)
            parts += [each.numbered_from(int(block[0])) for each in going]
        pairs, queries = Pairs.concat(parts), self.prepared.queries
        return told_rows(self.stems, pairs, queries, self.telling, timed=True)

    def _by_lineage(self, some: Ints) -> Iterator[tuple[Ints, Answering]]:
        """Yield some queries block by block, and what answers them by the lineage of rows."""
        leaves = self.stems.leaves
        for block in blocks(some, max(map(len, leaves)), CELLS_AT_ONCE):
            queries = self.prepared.queries.take(block)
            lineage = tuple(
                leaf_bits(rows, codes, queries, self.entered[block])
                for rows, codes in zip(leaves, self.codes, strict=True)
            )
            exploring = Exploring(
                self.stems, self.conditions, queries, lineage, self.telling.functions
            )
            yield block, Answering(exploring, self.telling)
