"""Running plans: the part of a shard's step that moves standing plans on in time.

Every shard knows from the tallies of all tasks how far each stream is complete. A plan is run for
the slab of time from where it had come to where all its streams are complete: over the elements
that waited for it, and those that have just come. Elements are stored once for all plans; they stay
there for as long as they wait, or are read again.
What has changed in tables since its last slab takes effect where the slab begins, in all shards at
the same instant.

Where the rows of a plan travel between its operators (`plan.stages`), each stage of the epoch runs
the operators of its own over the same slab: first over what streams brought, then over what the
stages before have sent. Where one process has all rows, nothing has to travel.

A plan that fails takes nothing down: its query is suspended, and the epoch run again without it. Of
a family those queries are that the plan fails with (`engine.left_out`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from millrace.engine.beside import Beside
from millrace.engine.births import Births, SeenByBirths, births_now, gone, placed
from millrace.engine.budget import kept_between_epochs
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.elements import StoredElements, as_elements, stored, with_epoch
from millrace.engine.feeds import FeedSpec
from millrace.engine.heard import Heard, shown_fields
from millrace.engine.laying import ranges_of
from millrace.engine.left_out import code_of, culprits, left_out
from millrace.engine.members import Marked, StandingMembers, marked
from millrace.engine.plan_stores import (
    EPOCH,
    ElementStore,
    beside_prefix,
    element_stores,
    state_prefix,
)
from millrace.engine.plans import compiled, ordered_sources
from millrace.engine.progress import Progress, earliest, frontier
from millrace.engine.resting import noted_marks
from millrace.engine.run_state import RunState
from millrace.engine.stores import answer_store
from millrace.engine.table_changes import changes_at
from millrace.engine.tally import Failure
from millrace.engine.warming import Warming, past_rows
from millrace.engine.work import Work, summed
from millrace.errors import StoreError
from millrace.kernels.arrays import Hashes, Ints
from millrace.operators.canonical import canonical_order
from millrace.operators.joining.prepared import KEPT
from millrace.operators.query_sets import SETS
from millrace.operators.relational.passing import Run
from millrace.operators.relational.plan import Plan
from millrace.operators.relational.slab import Elements, Members, Past, Slab
from millrace.operators.relational.timed import NEVER
from millrace.operators.select import Function
from millrace.operators.weighing import Weighed
from millrace.plan.levels import BIRTHS, QUERIES
from millrace.plan.placement import EVERYWHERE, FIRST
from millrace.plan.relations import StreamOf
from millrace.plan.stages import stage_of
from millrace.state.root import Root

Range = tuple[int, int]
EVERYTHING: Range = (0, 1 << 64)


@dataclass(frozen=True, slots=True)
class Sent:
    """Rows on their way to a shard, to be there in the stage `hop`."""

    shard: int
    hop: int
    name: str
    rows: pa.Table


@dataclass(slots=True)
class Moved:
    """What plans have made in one shard: rows for stores and other shards, queries that failed.

    `work` is what their operators did, by the number of the feed, `weighed` in which way where they
    choose, and `reaches` how far back those read elements whose queries say so. `found` counts
    answers by feed.
    """

    rows: dict[str, list[pa.Table]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    found: dict[str, int] = field(default_factory=dict)
    work: dict[int, Work] = field(default_factory=dict)
    reaches: dict[int, int] = field(default_factory=dict)
    weighed: dict[int, Weighed] = field(default_factory=dict)

    def add(self, store: str, table: pa.Table) -> None:
        """Keep rows for a store."""
        if table.num_rows:
            self.rows.setdefault(store, []).append(table)

    def count(self, feed: str, n_found: int) -> None:
        """Count answers of a feed."""
        if n_found:
            self.found[feed] = self.found.get(feed, 0) + n_found

    def weigh(self, number: int, weighed: Iterable[Weighed]) -> None:
        """Add in which ways the plan of a feed was run."""
        for each in weighed:
            known = self.weighed.get(number)
            self.weighed[number] = each if known is None else known + each

    def include(self, other: Moved) -> None:
        """Add what one more plan has made."""
        for name, n_found in other.found.items():
            self.count(name, n_found)
        self.sent += other.sent
        for number, work in other.work.items():
            self.work[number] = summed(self.work.get(number, {}), work)
        self.reaches.update(other.reaches)
        for number, weighed in other.weighed.items():
            self.weigh(number, [weighed])
        for store, tables in other.rows.items():
            self.rows.setdefault(store, []).extend(tables)


@dataclass(frozen=True, slots=True)
class Since:
    """The query of a plan, up to where it has come, and whether it has begun; a family's births.

    A new plan begins where its streams are complete when it is registered; if one of them has had
    no row yet, with the first rows. `warming` is how it catches up with history, `taken` the last
    change of the registry whose tables it has seen. What runs `beside` a family's plan has stores
    of its own, until it `joins` that. One that has rested begins its slab as far back as `wakes`
    says, and is heard from `begin` on.
    """

    qid: int
    begin: int | None
    begun: bool
    earliest: int | None
    births: Births | None = None
    warming: Warming | None = None
    taken: int | None = None
    beside: bool = False
    joins: bool = False
    wakes: int | None = None

    @property
    def start(self) -> int | None:
        """The instant at which the next slab begins, if that is known."""
        if self.begin is not None:
            return self.begin
        return self.earliest if self.births is None else self.births.first


@dataclass(frozen=True, slots=True)
class Running:
    """Runs the plans of one epoch in one shard, in one of its stages."""

    decision: Decision
    catalog: Catalog
    root: Root
    functions: Mapping[str, Function]
    keys: Range
    hop: int = 0

    def run(self, arrived: Mapping[str, pa.Table], progress: Progress) -> Moved:
        """Move all plans on; `arrived` are the new rows by store, or by the hop they have made."""
        moved = Moved()
        KEPT.fit(kept_between_epochs(self.decision.memory))
        kept: dict[str, tuple[int, ElementStore]] = {}
        for name, (qid, begin, begun) in self.decision.plans.items():
            feed = self.catalog.feeds[name]
            if qid in self.decision.suspended or not self._runs(feed):
                continue
            end = frontier(feed, progress.marks)
            for store in element_stores(feed, self.catalog):
                needed = NEVER if end is None or store.reach is None else end - store.reach
                known, _ = kept.get(store.name, (needed, store))
                kept[store.name] = min(needed, known), store
            if name in self.decision.resting:
                continue
            first = earliest(feed, self.decision, progress.earliest)
            births = None
            if name in self.decision.births:
                births = births_now(feed, self.decision, progress)
            beside = self._beside(feed, qid, end)
            warming = self._warming(feed)
            if warming is not None and warming.end is not None:
                end = warming.end
            taken, wakes = self.decision.taken.get(name), self.decision.waking.get(name)
            since = Since(qid, begin, begun, first, births, warming, taken, wakes=wakes)
            self._alone(feed, since, end, arrived, moved)
            if beside is not None:
                self._alone(feed, *beside, arrived, moved)
        self._keep(kept, arrived, progress, moved)
        return moved

    def _keep(
        self,
        kept: Mapping[str, tuple[int, ElementStore]],
        arrived: Mapping[str, pa.Table],
        progress: Progress,
        moved: Moved,
    ) -> None:
        """Store the elements that plans read later, and how far the epoch has brought streams."""
        for name, (needed, store) in kept.items():
            if name in arrived:
                rows, spec = arrived[name], self.catalog.stream(store.stream)
                rows = rows.filter(pa.array(rows.column("_time").to_numpy() >= needed))
                moved.add(name, stored(rows, spec, store.laid, self.decision.identity.epoch))
        if self.keys[0] == 0 and self.hop == 0:
            for name, row in noted_marks(self.catalog, self.decision, progress):
                moved.add(name, row)

    def _warming(self, feed: FeedSpec) -> Warming | None:
        spelt = self.decision.warming.get(feed.name)
        return None if spelt is None else Warming.from_json(spelt)

    def _beside(self, feed: FeedSpec, qid: int, end: int | None) -> tuple[Since, int | None] | None:
        """Return what runs beside a family's plan, and where its slab ends."""
        spelt = self.decision.besides.get(feed.name)
        if spelt is None or spelt["births"] is None or spelt["warming"] is None:
            return None
        beside, warming = Beside.from_json(spelt), Warming.from_json(spelt["warming"])
        begin, births, (end, joins) = beside.begin, beside.births, beside.end(end)
        begun = begin is not None
        return Since(qid, begin, begun, None, births, warming, beside.taken, True, joins), end

    def _alone(
        self,
        feed: FeedSpec,
        since: Since,
        end: int | None,
        arrived: Mapping[str, pa.Table],
        moved: Moved,
    ) -> None:
        """Run one plan; if it fails, nothing of it is left but the failure."""
        alone = Moved()
        try:
            self._plan(feed, since, end, arrived, alone)
        except (MemoryError, OSError, StoreError):
            raise  # it is not the query's fault
        except Exception as error:
            if feed.kind == "family" and since.births is not None:
                moved.failures += self._culprits(feed, since, end, arrived, error)
            else:
                moved.failures.append(Failure(since.qid, None, code_of(error), str(error)))
        else:
            moved.include(alone)

    def _culprits(
        self,
        feed: FeedSpec,
        since: Since,
        end: int | None,
        arrived: Mapping[str, pa.Table],
        cause: Exception,
    ) -> list[Failure]:
        """Find the queries of a family that its plan fails with, by running it for some of them."""
        assert feed.plan is not None, "a feed that runs has a plan"
        assert since.births is not None, "a family has births"
        births, members = since.births, self.catalog.members(feed.name).keys()
        files, types = self.catalog.table_files[feed.name], feed.plan.parameter_types

        def fails(some: Collection[int]) -> Exception | None:
            only = left_out(births, members - set(some), self.root, files, types)
            try:
                self._plan(feed, replace(since, births=only), end, arrived, Moved())
            except (MemoryError, OSError, StoreError):
                raise
            except Exception as error:
                return error
            return None

        return culprits(members - set(self.decision.suspended), fails, cause)

    def _runs(self, feed: FeedSpec) -> bool:
        """Say whether there is something to run in this shard: the first has what is not spread."""
        assert feed.plan is not None, "a feed that runs has a plan"
        here = self._keys(feed) != EVERYTHING or self.keys[0] == 0
        return here and self.hop <= feed.plan.hops

    def _plan(
        self,
        feed: FeedSpec,
        since: Since,
        end: int | None,
        arrived: Mapping[str, pa.Table],
        moved: Moved,
    ) -> None:
        """Run a plan from where it had come to where it comes; its first slab begins with a row."""
        assert feed.plan is not None, "a feed that runs has a plan"
        start = since.start
        if start is None or end is None or end <= start:
            return  # nothing new is complete
        wakes = since.wakes is not None  # what it remembered is gone, and made again of elements
        begin = start if since.wakes is None else since.wakes
        held = {} if wakes else self.decision.held
        stores = element_stores(feed, self.catalog) if self.hop == 0 else ()
        past = StoredElements(
            self.root,
            self.decision.held,
            self.catalog,
            {each.stream: each for each in stores},
            self._keys(feed),
            self.decision.entered.get(feed.name, self.decision.identity.epoch),
            begin,
        )
        prefix = beside_prefix(feed) if since.beside else state_prefix(feed)
        state = RunState(self.root, held, prefix, self._keys(feed))
        queries = self._queries(feed, since.births, start)
        slab = Slab(
            begin,
            end,
            {name: self._elements(feed, name, past, arrived, (since, end)) for name in past.stores},
            self._tables(feed, since, queries, start) if self.hop == 0 else {},
            state,
            first=not since.begun or wakes,
            functions=self.functions,
            past=self._past(feed, since.births, replace(past, held=held)),
            members=self._members(feed, since.births),
            narrow=self.decision.narrow,
            upkeep=self.decision.upkeep,
        )
        plan, run = compiled(feed, self.catalog), Run(slab)
        if feed.plan.hops and self.keys != EVERYTHING:
            self._travel(feed, plan, run, arrived, moved)
        for each in feed.plan.told:
            if self.keys == EVERYTHING or stage_of(each) == self.hop:
                heard = self._heard(feed, plan.stream(each, run), since.qid, queries)
                heard = heard.since(start) if wakes else heard
                for teller, part in self._tellers(feed, heard):
                    self._tell(teller, since, part, each, moved)
        moved.work[feed.number] = run.meter.done
        if run.reach is not None:
            moved.reaches[feed.number] = run.reach
        moved.weigh(feed.number, run.weighed)
        if since.joins:
            state = state.joining(state_prefix(feed), plan, end)
        for store, batches in state.added.items():
            for batch in batches:
                moved.add(store, pa.Table.from_batches([batch]))

    def _keys(self, feed: FeedSpec) -> Range:
        assert feed.plan is not None, "a feed that runs has a plan"
        return EVERYTHING if feed.plan.columns is None else self.keys

    def _elements(
        self,
        feed: FeedSpec,
        stream: str,
        past: StoredElements,
        arrived: Mapping[str, pa.Table],
        slab: tuple[Since, int],
    ) -> Elements:
        """Return the elements of a slab: those that waited and those that are new.

        They are in order where that matters. Each birth of a family has its own.
        """
        assert feed.plan is not None, "a feed that runs has a plan"
        spec, new = self.catalog.stream(stream), arrived.get(past.stores[stream].name)
        since, end = slab
        warming, begin = since.warming, past.begin
        if warming is not None:  # what is before the limit is in the history
            store, begin = past.stores[stream], max(past.begin, min(warming.limit, end))
            read = self.root, self.decision.held, spec, store
            ranges = None if store.laid is None else ranges_of(feed, self.decision.ranges)
            parts = [past_rows(*read, ranges, past.keys, (past.begin, begin))]
            table = pa.concat_tables([*parts, replace(past, begin=begin).waiting(stream, end)])
        else:
            table = past.waiting(stream, end)
        if new is not None:
            times = new.column("_time").to_numpy()
            now = new.filter(pa.array((times >= begin) & (times < end)))
            now = with_epoch(now, self.decision.identity.epoch).select(table.column_names)
            table = pa.concat_tables([table, now])
        if stream in ordered_sources(feed.plan):
            names = ["_time", *spec.order]
            names += [each for each in spec.schema.names if each not in names]
            table = table.take(canonical_order(table.select(names)))
        elements = as_elements(table)
        if since.births is None:
            return elements
        if feed.plan.sharing is not None:
            return marked(elements, table.column(EPOCH).to_numpy())
        return since.births.seen(elements, table.column(EPOCH).to_numpy())

    def _past(self, feed: FeedSpec, births: Births | None, stored: StoredElements) -> Past:
        """Return what came before: for a family by births, or with the epochs in which it came."""
        assert feed.plan is not None, "a feed that runs has a plan"
        if births is None:
            return stored
        return SeenByBirths(stored, births) if feed.plan.sharing is None else Marked(stored)

    def _members(self, feed: FeedSpec, births: Births | None) -> Members | None:
        """Return the queries of a family that is one join."""
        assert feed.plan is not None, "a feed that runs has a plan"
        if births is None or feed.plan.sharing is None:
            return None
        files, types = self.catalog.table_files[feed.name], feed.plan.parameter_types
        return StandingMembers(self.root, files, tuple(types), births)

    def _queries(self, feed: FeedSpec, births: Births | None, start: int) -> Elements | None:
        """Return the queries of a family that come and go, in whatever shard."""
        assert feed.plan is not None, "a feed that runs has a plan"
        if births is None:
            return None
        files, types = self.catalog.table_files[feed.name], feed.plan.parameter_types
        return births.queries_at(start, self.root, files, types)

    def _tables(
        self, feed: FeedSpec, since: Since, queries: Elements | None, start: int
    ) -> dict[str, Elements]:
        """Return what changes in tables; those of a family are its queries, and their births."""
        assert feed.plan is not None, "a feed that runs has a plan"
        births, taken = since.births, since.taken
        found = {name: self._changes(feed, name, taken, start) for name in feed.plan.tables}
        if births is not None and queries is not None:
            for name, each in ((QUERIES, queries), (BIRTHS, births.births_at(start))):
                found[name] = placed(each, (self._column(feed, name), self._keys(feed)))
        return found

    def _column(self, feed: FeedSpec, table: str) -> str:
        """Return by which column a table is spread; one that is not read is so by none."""
        assert feed.plan is not None, "a feed that runs has a plan"
        columns = feed.plan.columns
        return EVERYWHERE if columns is None else dict(columns).get(table, FIRST)

    def _changes(self, feed: FeedSpec, table: str, taken: int | None, at: int) -> Elements:
        """Return what a plan has not seen of a table yet, as changes at one instant."""
        assert feed.plan is not None, "a feed that runs has a plan"
        place = self._column(feed, table), self._keys(feed)
        return changes_at(self.root, self.catalog, table, taken, at, place)

    def _travel(
        self, feed: FeedSpec, plan: Plan, run: Run, arrived: Mapping[str, pa.Table], moved: Moved
    ) -> None:
        """Take what was sent to this stage, and send what others wait for."""
        names = {leg: f"{feed.name} {leg.name}" for leg in plan.legs}
        for leg, name in names.items():
            if leg.hop.number == self.hop:
                receive = partial(leg.received, arrived.get(name))
                run.made[leg.name] = run.meter.measure(leg.name, receive)
        for leg, name in names.items():
            if leg.stage == self.hop:
                rows = plan.relation(leg.hop, run)
                for shard, table in leg.dealt(rows, run.slab, self.decision.shards):
                    moved.sent.append(Sent(shard, leg.hop.number, name, table))

    def _heard(self, feed: FeedSpec, told: Elements, qid: int, queries: Elements | None) -> Heard:
        """Return what queries tell that neither go nor are paused, as answers are stored."""
        if queries is None:
            return Heard.of_one(told, qid)
        others = self.decision.quiet
        if feed.kind == "family":  # each of its queries may have been suspended by itself
            others = (*others, *self.decision.suspended)
        silent = np.concatenate((gone(queries), np.array(others, np.int64)))
        heard = Heard.of_family(told, len(shown_fields(feed.answer)), silent)
        return heard if feed.stores_sets else heard.by_query()

    def _tellers(self, feed: FeedSpec, heard: Heard) -> Iterator[tuple[FeedSpec, Heard]]:
        """Yield under which name what is heard is told: queries with a feed of their own apart."""
        if feed.kind != "family":
            yield feed, heard
            return
        names = self.catalog.members(feed.name)
        for qid, part in heard.apart():
            if qid in names:
                yield self.catalog.feeds[names[qid]], part

    def _tell(
        self, feed: FeedSpec, since: Since, heard: Heard, told: StreamOf, moved: Moved
    ) -> None:
        """Make answers of what a plan tells."""
        past = None if feed.history is None else self._marks(feed, since, heard.keys)
        columns = heard.answers(feed.answer, told, past)
        moved.count(feed.name, len(heard.queries))
        wanted = self.decision.wanted.get(feed.name, ())
        if feed.stores_sets and wanted:
            columns[SETS] = heard.sets()
        if "rows" in wanted or (feed.stores_sets and "sets" in wanted):
            moved.add(answer_store(feed, "rows"), pa.table(columns))

    def _marks(self, feed: FeedSpec, since: Since, keys: Hashes) -> Ints | int:
        """Return before which instant answers are about history, of all or each of some queries."""
        assert feed.plan is not None, "a feed that runs has a plan"
        if since.warming is None:
            return NEVER
        if since.births is None:
            return since.warming.birth
        files, types = self.catalog.table_files[feed.name], feed.plan.parameter_types
        return since.births.marks_of(keys, self.root, files, types)
