"""Which ranges the band joins of families have in an epoch: by the queries that stand in it.

How wide they are is a fact that every epoch leaves to the next, from the first queries on.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.engine import facts
from millrace.engine.births import Births
from millrace.engine.catalog import Catalog
from millrace.engine.laying import Ranges, ranges_now
from millrace.engine.members import StandingMembers
from millrace.state.manifest import Manifest
from millrace.state.root import Root


@dataclass(frozen=True, slots=True)
class BandRanges:
    """Decides on ranges; those of queries that are the same as in the last epoch are known."""

    root: Root
    _last: dict[int, tuple[Hashable, Ranges]] = field(default_factory=dict)

    def decided(
        self, manifest: Manifest, catalog: Catalog, births: Mapping[str, Births]
    ) -> dict[str, Any]:
        """Return the ranges of families whose rows are laid out over some, as JSON."""
        known, found = facts.ranges(manifest, catalog), {}
        for name, each in births.items():
            plan, number = catalog.feeds[name].plan, catalog.feeds[name].number
            if plan is None or not plan.laid:
                continue
            types = tuple(plan.parameter_types)
            members = StandingMembers(self.root, catalog.table_files[name], types, each)
            version, ranges = self._last.get(number, (None, None))
            if ranges is None or version != members.version:
                ranges = ranges_now(plan.laid, members.rows(), known.get(name))
                self._last[number] = members.version, ranges
            found[name] = ranges.to_json()
        for number in {*self._last} - {catalog.feeds[name].number for name in found}:
            del self._last[number]
        return found
