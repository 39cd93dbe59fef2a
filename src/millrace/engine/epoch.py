"""The engine: runs epochs, one after another, so that none is lost and none counts twice.

    run(identity) ─► known? ─► decide ─► log ─► execute ─► compose ─► commit ─► tell sinks
                       │                  ▲        │
                       │                  └────────┘ another attempt, with another decision
                       └─► committed before: nothing to do

Whoever drives it (Spark, or a loop in this process) brings an `Execution`, which knows how to
run routes and steps over the epoch's input. Everything else is here, and is the same for both.

Invariant: an epoch has an effect if and only if its commit exists, and the commit is created
exclusively, by an engine that holds the newest term.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from millrace import failpoints
from millrace.connectors.sinks.sink import FanOut
from millrace.engine import facts
from millrace.engine.backfill import Deciding
from millrace.engine.band_ranges import BandRanges
from millrace.engine.beside import Newborn
from millrace.engine.budget import history_rows
from millrace.engine.catalog import Catalog
from millrace.engine.compose import compose, inline_runs
from millrace.engine.decide import abandoned, decide, expired, merges
from millrace.engine.decision import Decision, Identity, attempts
from millrace.engine.delivery import Delivery
from millrace.engine.keeping import old_runs
from millrace.engine.left_out import returning, without_failed
from millrace.engine.plan_stores import plan_stores
from millrace.engine.progress import frontier
from millrace.engine.quarantine import verdicts_of, without_culprits
from millrace.engine.receipt import Receipt
from millrace.engine.reconsider import reconsidered, without_order
from millrace.engine.registry import Registry
from millrace.engine.registry_state import run_by
from millrace.engine.resting import rest
from millrace.engine.settings import Settings
from millrace.engine.statistics import EpochStatistics, measure
from millrace.engine.supervise import ExecutionError, Supervision
from millrace.engine.sysstream import SysStream
from millrace.engine.table_changes import least_taken
from millrace.engine.warming import Warmth, together
from millrace.engine.work import Works
from millrace.errors import IdentityError, StoreFullError, UnknownNameError
from millrace.plan.bind import Functions
from millrace.state.cuts import StoredFences
from millrace.state.manifest import Manifest
from millrace.state.names import MissingError
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run_file import forget
from millrace.state.run_store import RunStore
from millrace.time import SECOND, Clock

_logger = logging.getLogger(__name__)

MOST_RECONSIDERATIONS = 4


class Execution(Protocol):
    """Runs the tasks of one epoch's input under a decision."""

    def execute(self, decision: Decision) -> list[Receipt]:
        """Return the receipts of all shards, or raise `ExecutionError`."""
        ...


class Engine:
    """One root's engine. Not shared between threads but for what it tells of itself.

    That is `manifest`, `statistics`, `work` and `trouble`. `settings` may be replaced at any time:
    they hold from the next epoch on (`engine.changing`). With `sysstream` it tells of itself.
    """

    def __init__(
        self,
        root: Root,
        store: RunStore,
        registry: Registry,
        delivery: Delivery,
        settings: Settings,
        clock: Clock,
        *,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self.root, self.registry, self.delivery = root, registry, delivery
        self.settings, self._clock, self.wait = settings, clock, wait
        self._store = store
        self.functions: Functions = {}
        self.trouble = ""  # why the epoch in flight is being tried again
        self._tidied = False  # whoever was here before may have died while tidying
        self.statistics: deque[EpochStatistics] = deque(maxlen=1_000)
        self.work = Works()
        self._band_ranges = BandRanges(root)
        self.told: Callable[[Manifest], object] = lambda _: None  # who else hears of commits
        self.sysstream: SysStream | None = None

    @property
    def manifest(self) -> Manifest:
        """What is committed now."""
        return self._store.manifest

    def run(self, identity: Identity, execution: Execution) -> EpochStatistics | None:
        """Run one epoch to its commit; None if it was committed before."""
        if self.committed(identity):
            self.delivery.committed(self.manifest)  # whoever committed it may not have said so
            return None
        seconds: dict[str, float] = {}
        began = time.perf_counter()
        decision, catalog = self._decided(identity)
        seconds["decide"] = time.perf_counter() - began
        decision, receipts = self._executed(decision, catalog, execution, seconds)
        failpoints.reach("receipts.after")
        statistics = self._commit(decision, catalog, receipts, seconds)
        self.delivery.committed(self.manifest)
        self.told(self.manifest)
        self._tidy(catalog)
        if self.sysstream is not None:
            self.sysstream.epoch_ended(self, statistics)
        failpoints.reach("epoch.after")
        return statistics

    def committed(self, identity: Identity) -> bool:
        """Say whether an epoch is committed; refuse input that cannot be its input."""
        manifest = self.manifest
        known = manifest.facts.get("query")
        if known is not None and known != identity.query:
            raise _foreign_checkpoint(str(known), identity.query)
        if identity.epoch > manifest.epoch + 1:
            raise _missing_epochs(manifest.epoch, identity.epoch)
        if identity.epoch == manifest.epoch + 1:
            return False
        digest = facts.digest_of(manifest, identity.epoch)
        if digest != identity.digest:
            raise _other_input(identity.epoch, digest)
        return True

    def _decided(self, identity: Identity) -> tuple[Decision, Catalog]:
        """Read back what was decided for this input, or decide and log it now."""
        logged = attempts(self.root, identity.epoch)
        for file in reversed(logged):
            decision = Decision.read(self.root, file)
            if decision.identity.digest == identity.digest and not decision.probe:
                return decision, self._catalog(decision)
        catalog = self._published()
        generations = self.registry.population.generations
        settings, clock = self._settings_now(), self._clock.now()
        decision = decide(
            self.manifest, catalog, identity, settings, term=self._store.fence.term, clock=clock
        )
        fences, consumed = StoredFences(self.root), self.delivery.consumed
        past_rows = history_rows(self.manifest, catalog, settings)
        warmth = Warmth(self.root, self.manifest, catalog, past_rows)
        plans = self._plans(catalog, warmth)
        births, besides = Newborn(self.root, self.manifest, catalog).decided()
        warming = warmth.decided(plans, births)
        backfill, sliced = self._backfill(catalog, past_rows)
        wanted = self._wanted(catalog)
        resting = rest(self.manifest, catalog, wanted, plans)
        running = [catalog.feeds[name].plan for name in plans if name not in resting.resting]
        for name in resting.cold:
            if not self._paused(name):
                wanted[name] = list(dict.fromkeys((*wanted.get(name, ()), "rows")))
        decision = replace(
            decision,
            attempt=len(logged),
            suspended=tuple(facts.suspended(self.manifest, generations)),
            wanted=wanted,
            anew=resting.anew,
            resting=resting.resting,
            waking=resting.waking,
            plans=plans,
            births={name: each.to_json() for name, each in births.items()},
            besides=warmth.beside(besides, warming),
            quiet=self._quiet(catalog),
            held=together(self._held(catalog), sliced, warmth.held),
            backfill=backfill,
            warming=warming,
            ranges=self._band_ranges.decided(self.manifest, catalog, births),
            entered=facts.entered(self.manifest, catalog),
            taken=facts.taken(self.manifest, catalog),
            earliest=facts.earliest(self.manifest, catalog),
            hops=max((each.hops for each in running if each is not None), default=0),
            merges=merges(
                self.manifest,
                catalog,
                settings,
                fences,
                consumed,
                clock=clock,
                resting=resting.resting,
            ),
        )
        return self._log(without_failed(decision, self.root, catalog)), catalog

    def _backfill(
        self, catalog: Catalog, most: int
    ) -> tuple[dict[str, Any], dict[str, tuple[Piece, ...]]]:
        """Say what is answered of histories, and which runs that takes."""
        population = self.registry.population
        deciding = Deciding(self.root, self.manifest, catalog, population, most)
        return deciding.decided(), deciding.held

    def _end_expired(self) -> None:
        """Drop the queries whose time to live is over."""
        catalog, now = self.registry.catalog, self._clock.now()
        if catalog.first_end is None or catalog.first_end > now:
            return
        for name in catalog.fleeting:
            if (catalog.feeds[name].expires or 0) <= now:
                with suppress(UnknownNameError):  # somebody else has just dropped it
                    self.registry.record([{"do": "drop feed", "name": name}])

    def _published(self) -> Catalog:
        """Return the catalog in force, with the index that tasks will read."""
        self._end_expired()
        changes, tables = returning(self.registry, self.manifest)
        if changes:
            self._when_there_is_room(lambda: self.registry.record(changes, tables))
        found: list[Catalog] = []
        publish = self.registry.publish
        self._when_there_is_room(lambda: found.append(publish(self.functions)))
        return found[-1]

    def _wanted(self, catalog: Catalog) -> dict[str, list[FanOut]]:
        """Say which forms of each feed's answers anybody wants: sinks, or readers of rows."""
        told = {name: feed for name, feed in catalog.feeds.items() if feed.kind != "family"}
        wanted = self.delivery.wanted(told)
        for name, feed in told.items():
            if feed.stores_rows and "rows" not in wanted[name]:
                wanted[name] = [*wanted[name], "rows"]
        for name in catalog.planned:
            if self._paused(name):
                wanted[name] = []  # it goes on in time, and tells nobody
        return {name: forms for name, forms in wanted.items() if forms}

    def _paused(self, query: str) -> bool:
        population = self.registry.population
        return population.names.get(query) in population.paused

    def _plans(self, catalog: Catalog, warmth: Warmth) -> dict[str, list[Any]]:
        """Say which plans run: the query of each, up to where it has come, whether it has begun."""
        reached = facts.frontiers(self.manifest, catalog)
        waiting = facts.earliest(self.manifest, catalog)
        marks = facts.watermarks(self.manifest, catalog)
        named = self.registry.population.names
        found = {}
        for feed in catalog.plans():
            name = feed.name
            begin, family = reached.get(name), name in catalog.born
            if begin is None and name not in waiting and not family:
                begin = frontier(feed, marks)
            if name in named and name not in reached and not family:
                past = warmth.begin(feed, named[name])
                begin = begin if past is None else past
            if name in named and (not family or catalog.born[name]):
                found[name] = [named[name], begin, name in reached]
        return found

    def _quiet(self, catalog: Catalog) -> tuple[int, ...]:
        """Return the queries of families that are paused: they go on, and tell nobody."""
        population = self.registry.population
        if not population.paused or not catalog.born:
            return ()
        members = [run_by(name, catalog, population) for name in catalog.born]
        return tuple(sorted(population.paused & set(np.concatenate(members).tolist())))

    def _held(self, catalog: Catalog) -> dict[str, tuple[Piece, ...]]:
        """Name the runs that plans read."""
        stores = {name for feed in catalog.plans() for name, _ in plan_stores(feed, catalog)}
        return {
            name: tuple(piece for run in self.manifest.stores[name].runs for piece in run.pieces)
            for name in sorted(stores)
            if name in self.manifest.stores
        }

    def _settings_now(self) -> Settings:
        """Return the settings; an engine that has just started serves first and merges later."""
        ready = bool(self.statistics) or self.settings.merge_at_start
        return self.settings if ready else replace(self.settings, merging=False)

    def _log(self, decision: Decision) -> Decision:
        failpoints.reach("log.before")
        self._when_there_is_room(lambda: decision.write(self.root))
        failpoints.reach("log.after")
        return decision

    def _catalog(self, decision: Decision) -> Catalog:
        try:
            return self.registry.published(decision.catalog, self.functions)
        except MissingError:
            self._store.fence.check()  # a newer engine has gone on, and deleted it
            raise

    def _executed(
        self,
        decision: Decision,
        catalog: Catalog,
        execution: Execution,
        seconds: dict[str, float],
    ) -> tuple[Decision, list[Receipt]]:
        """Execute until the receipts can stand; return them with the decision they stand for."""
        supervision = Supervision(self._back_off)
        began, reconsiderations = time.perf_counter(), 0
        while True:
            try:
                receipts = execution.execute(decision)
            except ExecutionError as error:
                self._store.fence.check()  # files that a newer engine has deleted are no failure
                self.trouble = error.message
                if supervision.failed(error):
                    decision = self._quarantine(decision, catalog, execution, error)
                continue
            better = reconsidered(decision, catalog, receipts)
            if better is None:
                seconds["run"] = time.perf_counter() - began
                return decision, receipts
            reconsiderations += better.segments != decision.segments
            if reconsiderations > MOST_RECONSIDERATIONS:
                better = without_order(better)
            better = without_failed(better, self.root, catalog)
            decision = self._log(self._next_attempt(better))

    def _next_attempt(self, decision: Decision) -> Decision:
        n_logged = len(attempts(self.root, decision.identity.epoch))
        return replace(decision, attempt=n_logged, term=self._store.fence.term)

    def _when_there_is_room(self, write: Callable[[], object]) -> None:
        """Write, waiting for as long as the disk is full; a failed write leaves nothing."""
        tries = 0
        while True:
            try:
                write()
            except StoreFullError as full:
                tries, self.trouble = tries + 1, full.message
                level = logging.WARNING if tries == 1 else logging.INFO
                _logger.log(level, "waiting for room: tries=%d %s", tries, full.message)
                self._back_off(tries)
            else:
                return

    def _back_off(self, tries: int) -> None:
        self.wait(min(self.settings.backoff * 2 ** min(tries - 1, 8), 60 * SECOND) / 1e6)

    def _quarantine(
        self, decision: Decision, catalog: Catalog, execution: Execution, error: ExecutionError
    ) -> Decision:
        """Find the queries that take the epoch down, and decide to run it without them."""

        def probe(tried: Decision) -> ExecutionError | None:
            patient = Supervision(self._back_off)
            while True:
                try:
                    execution.execute(self._log(self._next_attempt(tried)))
                except ExecutionError as found:
                    if found.blames_query:
                        return found
                    patient.failed(found)  # a full disk says nothing about these queries
                else:
                    return None

        better = without_culprits(self.root, catalog, decision, probe)
        if better is None:
            raise error
        return self._log(self._next_attempt(better))

    def _commit(
        self,
        decision: Decision,
        catalog: Catalog,
        receipts: list[Receipt],
        seconds: dict[str, float],
    ) -> EpochStatistics:
        began = time.perf_counter()
        dropped = {
            **old_runs(self.manifest, catalog, self.delivery.consumed, decision),
            **expired(self.manifest, catalog, self.settings.keep_rejected, decision),
            **abandoned(self.manifest, catalog, decision),
        }
        verdicts = verdicts_of(decision, self.registry.population.generations)
        delta = compose(
            self.manifest,
            catalog,
            decision,
            receipts,
            term=self._store.fence.term,
            dropped=dropped,
            suspended={**self._still_suspended(), **verdicts},
        )
        statistics = measure(decision, receipts, self.manifest, delta, seconds)
        delta = replace(delta, facts={**delta.facts, "statistics": statistics.to_json()})
        failpoints.reach("commit.before")
        inline = inline_runs(receipts)
        self._when_there_is_room(lambda: self._store.commit(delta, inline))
        failpoints.reach("commit.after")
        self.trouble = ""
        seconds["commit"] = time.perf_counter() - began
        statistics = replace(statistics, seconds={**statistics.seconds, **seconds})
        self.statistics.append(statistics)
        self.work.add(decision.identity.epoch, receipts)
        return statistics

    def _still_suspended(self) -> dict[int, Mapping[str, Any]]:
        """Return the verdicts that hold, on queries that stand."""
        population = self.registry.population
        found = facts.suspended(self.manifest, population.generations)
        gone = set(population.missing(np.array(sorted(found), np.uint64)).tolist())
        return {qid: verdict for qid, verdict in found.items() if qid not in gone}

    def _tidy(self, catalog: Catalog) -> None:
        """Take a snapshot when one is due, and delete what nothing names any more."""
        if not self._store.snapshot_if_due() and self._tidied:
            return
        self._tidied = False
        self._store.collect_garbage()
        forget(self.root, keep=self.manifest.files())
        self.registry.forget_changes(least_taken(self.manifest, catalog))
        self.registry.forget_before(catalog.sequence)
        self.work.keep({each.number for each in catalog.plans()})
        for entry in self.root.list("epochs/"):
            if int(entry.name[7:19]) < self.manifest.epoch - 1:
                self.root.delete(entry.name)
        self._tidied = True


def _foreign_checkpoint(known: str, found: str) -> IdentityError:
    return IdentityError(
        "the checkpoint belongs to another streaming query than the root",
        detail=f"The root was written by query {known}; the checkpoint says {found}.",
        hint="Restore the root's directory `checkpoint` from a copy taken with the root, or "
        "start over with an empty root.",
    )


def _missing_epochs(last: int, found: int) -> IdentityError:
    return IdentityError(
        f"Spark asks for epoch {found}, but the last one in the root is {last}",
        detail="The epochs between them are in neither place.",
        hint="Restore the root from a copy that is as new as the checkpoint.",
    )


def _other_input(epoch: int, digest: str | None) -> IdentityError:
    known = f"It was {digest}." if digest else "The root no longer remembers its input."
    return IdentityError(
        f"epoch {epoch} is committed, and its input was not what Spark offers now",
        detail=known,
        hint="The checkpoint was replaced or is older than the root. Restore the directory "
        "`checkpoint` from a copy taken with the root, or start over with an empty root.",
    )
