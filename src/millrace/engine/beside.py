"""Beside: queries of a family that see history run beside its plan until they are where it is.

A family has one plan, which is where its streams are. Births that see history begin in the past,
where the plan has been before. So a second plan of the same operators runs for them alone, over
what streams retain (`engine.warming`), with stores of its own:

    the family      ───────────────────────────────│──────────►   live
    beside it            since ▒▒▒│▒▒▒▒│▒▒▒▒│▒▒▒▒▒▒┘
                                             both come to the same instant in one epoch

When both come to the same instant in one epoch, what the second one remembers becomes the first
one's: relations of a birth or of a query have that among their keys, and no two are the same. What
depends on tables alone both have remembered, and it is left. Nobody is of age beside: a birth is
told to be so when it has come over.

Those that are born meanwhile go along if the second plan is not beyond where they begin, and else
wait for the next. A family that begins with such births has nothing to run beside: it is warm
itself. So there are two plans at most, however many are born.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from typing import Any, Self

from millrace.engine import facts
from millrace.engine.ageing import lasting
from millrace.engine.births import Birth, Births
from millrace.engine.catalog import Catalog
from millrace.engine.feeds import FeedSpec
from millrace.engine.plan_stores import beside_stores
from millrace.engine.progress import frontier
from millrace.state.manifest import Manifest
from millrace.state.root import Root


@dataclass(frozen=True, slots=True)
class Beside:
    """Births that run beside the plan of their family, up to where, and those that wait.

    `taken` is the last change of the registry whose tables they have seen, and `warming` how they
    catch up in the epoch, as `engine.warming` spells it.
    """

    births: Births | None = None
    waiting: tuple[Birth, ...] = ()
    begin: int | None = None
    taken: int | None = None
    warming: dict[str, Any] | None = None

    @property
    def start(self) -> int | None:
        """The instant at which the next slab begins, if one does."""
        if self.begin is not None or self.births is None:
            return self.begin
        return self.births.first

    @property
    def needed(self) -> int | None:
        """The time from which on history is still to be read."""
        known = [each.since for each in self.waiting] + [self.start]
        return min((each for each in known if each is not None), default=None)

    def end(self, reached: int | None) -> tuple[int | None, bool]:
        """Return where the slab ends, and whether they join the others there.

        That is in an epoch in which the family's plan goes on, as both have to see the same tables.
        """
        if self.warming is None or reached is None:
            return None, False
        end, limit = self.warming["end"], self.warming["limit"]
        joins = end is None and reached > limit
        return (reached, True) if joins else (limit if end is None else end, False)

    def ran(self, end: int | None, sequence: int) -> Beside:
        """Return what is left after an epoch that came to an instant."""
        if self.births is None or self.start is None or end is None or end <= self.start:
            return self
        births = self.births.taken(sequence)
        return replace(self, births=births, begin=end, taken=sequence)

    def to_json(self) -> dict[str, Any]:
        """Spell it as JSON."""
        return {
            "births": None if self.births is None else self.births.to_json(),
            "waiting": [astuple(each) for each in self.waiting],
            "begin": self.begin,
            "taken": self.taken,
            "warming": self.warming,
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        births = None if spelt["births"] is None else Births.from_json(spelt["births"])
        waiting = tuple(Birth(*each) for each in spelt["waiting"])
        return cls(births, waiting, spelt["begin"], spelt["taken"], spelt["warming"])


@dataclass(frozen=True, slots=True)
class Newborn:
    """Says which queries of families run together, before an epoch."""

    root: Root
    manifest: Manifest
    catalog: Catalog

    def decided(self) -> tuple[dict[str, Births], dict[str, Beside]]:
        """Return the births of each family, and of some those that run beside them."""
        found, besides = dict[str, Births](), dict[str, Beside]()
        known = facts.births(self.manifest, self.catalog)
        reached = facts.frontiers(self.manifest, self.catalog)
        for name, born in self.catalog.born.items():
            feed = self.catalog.feeds[name]
            assert feed.plan is not None, "a family has a plan"
            horizon = 0 if feed.plan.spans else feed.plan.horizon
            before = Births.from_json(known[name]) if name in known else Births(horizon)
            if not born:
                continue
            if feed.history is None:
                fresh = self._plain(feed)
                if feed.plan.spans and before.horizon is not None and max(born) > before.last:
                    files = self.catalog.table_files[name]
                    fresh = replace(fresh, lasts=lasting(self.root, feed.plan, files, before))
                found[name] = before.after(born, fresh, reached.get(name))
            else:
                found[name], beside = self._historic(feed, before, born, reached.get(name))
                if beside.births is not None or beside.waiting:
                    besides[name] = beside
        return found, besides

    def _plain(self, feed: FeedSpec) -> Birth:
        """Return the birth of queries that see what comes from now on."""
        clocks = facts.clocks(self.manifest, self.catalog)
        since = frontier(feed, facts.watermarks(self.manifest, self.catalog))
        seen = [time for each in feed.sources for time in clocks.get(each, {}).values()]
        newest = max(seen, default=None)
        return Birth(self.catalog.sequence, self.manifest.epoch + 1, newest, since)

    def _fresh(self, feed: FeedSpec) -> Birth:
        """Return the birth of queries that see history, if streams have begun."""
        since = begins_at(feed, self.manifest, self.catalog)
        if since is None:
            return self._plain(feed)
        mark = frontier(feed, facts.watermarks(self.manifest, self.catalog))
        return Birth(self.catalog.sequence, 0, since=since, mark=mark)

    def _historic(
        self, feed: FeedSpec, before: Births, born: Iterable[int], reached: int | None
    ) -> tuple[Births, Beside]:
        """Sort queries by where they run; those that a family begins anew with see no history."""
        spelt = facts.besides(self.manifest, self.catalog).get(feed.name)
        beside = Beside() if spelt is None else Beside.from_json(spelt)
        born, known = sorted(born), facts.sequence(self.manifest)
        fallen = [] if before.last else [each for each in born if each <= known]
        if fallen:  # it was suspended
            before = before.after(fallen, replace(self._plain(feed), until=known), reached)
        elders = before.after([each for each in born if each <= before.last], None, reached)
        low = before.last
        births = beside.births
        if births is not None:
            mine = [each for each in born if births.floor < each <= births.last]
            low, births = births.last, births.after(mine, None, beside.begin)
            births = births if births.alive else None
        waiting = []
        for each in beside.waiting:
            if any(low < one <= each.until for one in born):
                waiting.append(each)
            low = each.until
        if any(each > low for each in born):
            waiting.append(self._fresh(feed))
        begin = None if births is None else beside.begin
        taken = None if births is None else beside.taken
        beside = Beside(births, tuple(waiting), begin, taken, beside.warming)
        return self._placed(feed, elders, beside, reached)

    def _placed(
        self, feed: FeedSpec, elders: Births, beside: Beside, reached: int | None
    ) -> tuple[Births, Beside]:
        """Let those that wait go along where somebody is not beyond where they begin."""
        births, waiting = beside.births, list(beside.waiting)
        if births is None:
            begun = reached is not None or bool(elders.alive)
            while waiting and _goes_along(waiting[0], elders, reached, begun=begun):
                elders = replace(elders, alive=(*elders.alive, waiting.pop(0)))
            if waiting and reached is not None and self._clean(feed):
                floor = elders.last
                births = Births(None, added=floor, grown=floor, floor=floor)
                births = replace(births, alive=tuple(waiting))
                return elders, Beside(births)
            return elders, Beside(waiting=tuple(waiting))
        while waiting and _goes_along(waiting[0], births, beside.begin, begun=True):
            births = replace(births, alive=(*births.alive, waiting.pop(0)))
        return elders, replace(beside, births=births, waiting=tuple(waiting))

    def _clean(self, feed: FeedSpec) -> bool:
        """Say whether nothing is left of those that ran beside before."""
        stores = self.manifest.stores
        names = [name for name, _ in beside_stores(feed, self.catalog)]
        return not any(stores[name].runs for name in names if name in stores)


def _goes_along(birth: Birth, births: Births, reached: int | None, *, begun: bool) -> bool:
    """Say whether a birth may run with others, which are not beyond where it begins."""
    if not begun:
        return True
    if any(each.since is None for each in births.alive):
        return birth.since is None
    start = births.first if reached is None else reached
    return start is not None and birth.since is not None and birth.since >= start


def begins_at(feed: FeedSpec, manifest: Manifest, catalog: Catalog) -> int | None:
    """Return since when queries that are born now see history; None if a stream has not begun."""
    marks = facts.watermarks(manifest, catalog)
    birth = frontier(feed, marks)
    if birth is None or feed.history is None:
        return None
    # A stream that is ahead of the others has let go of what they still retain.
    kept = [marks[name] - (catalog.streams[name].retain or 0) for name in feed.sources]
    return max(birth - feed.history, *kept)
