"""A reader: what is committed and registered in a root, followed from another process.

    lease ─► newest snapshots ─► one commit, one entry of the registry after the other

Nothing is asked of the engine. What was read stays as it is while it is used: a manifest never
changes, and the list of queries is changed under a lock. A reader that has fallen so far behind
that files are gone begins again with the newest snapshots.

Cost: to open takes as long as an engine takes to open the root; to follow, a file for each commit
and each entry, 0.3 ms.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.engine import facts, first_format
from millrace.engine.catalog import Catalog
from millrace.engine.contents import repeated
from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.population import Population, Qids
from millrace.engine.publication import together
from millrace.engine.registry import CHANGES, SNAPSHOTS
from millrace.engine.registry_state import RegistryState, folded, read_tables, restored
from millrace.errors import CorruptionError, StoreError
from millrace.operators.typed_function import TypedFunction
from millrace.reading.answers import answers
from millrace.reading.query_list import QueryList
from millrace.reading.room import Room
from millrace.reading.window import Instant
from millrace.state.container import Container
from millrace.state.lease import Lease
from millrace.state.log import Log
from millrace.state.lookup import go_on
from millrace.state.manifest import Delta, Manifest, apply
from millrace.state.names import COMMITS, MissingError, number_of, numbered
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run_file import forget
from millrace.state.run_store import load_manifest, read_delta

LEASE_SECONDS = 60.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class News:
    """What has come since the last look: the epochs `(after, epoch]`, changes of the registry."""

    after: int
    epoch: int
    changes: int
    added: tuple[tuple[str, Piece], ...] | None = None
    """What each commit has added, and to which store; None if that is not known."""
    statistics: tuple[dict[str, Any], ...] = ()
    """Those of each epoch."""

    @property
    def committed(self) -> bool:
        """Whether an epoch was committed."""
        return self.epoch > self.after


class Reader:
    """Follows one root, for any number of threads; one of them at a time looks for news.

    `functions` are those that queries may call.
    """

    def __init__(self, root: Root, functions: Mapping[str, TypedFunction] | None = None) -> None:
        self.root, self.functions = root, functions or {}
        self.manifest = Manifest()
        self._lock = threading.RLock()
        self._following, self._leasing = threading.Lock(), threading.Lock()
        self._lease: Lease | None = None
        self._expired = False
        self._number = -1
        self._state = RegistryState()
        self._queries = QueryList()

    @property
    def catalog(self) -> Catalog:
        """Everything that is declared."""
        return self._state.catalog

    @property
    def number(self) -> int:
        """The last entry of the registry that was read."""
        return self._number

    @contextlib.contextmanager
    def registered(self) -> Iterator[tuple[Catalog, Population, QueryList]]:
        """Give what is registered, which does not change meanwhile."""
        with self._lock:
            yield self._state.catalog, self._state.population, self._queries

    def open(self) -> None:
        """Take a lease, and read what there is."""
        with self._following:
            self._open()

    def newest_epoch(self) -> int:
        """Return the newest epoch that the root holds, whether it was read or not."""
        return max(_newest(self.root, COMMITS), self.manifest.epoch)

    def _open(self) -> None:
        seconds = LEASE_SECONDS
        while True:
            lease = Lease.take(self.root, max(_newest(self.root, COMMITS), 0), seconds)
            manifest = load_manifest(self.root)
            number, state = _registry_log(self.root).load()
            queries = QueryList.of(state)
            try:
                until = max(manifest.epoch, 0)
                held = lease.renew(self.root, until, LEASE_SECONDS, registry=number)
                break
            except StoreError as error:  # on a machine that is busy, to read may take long
                _logger.info("root read too slowly, reading anew: %s", error)
                lease.release(self.root)
                seconds *= 2
        with self._lock:
            self.manifest, self._number, self._state = manifest, number, state
            self._queries = queries
        with self._leasing:
            self._drop_lease()
            self._lease = held

    def renew(self) -> tuple[int, int]:
        """Hold the lease for longer; to be called several times in its time, in any thread.

        Returns the epoch and the entry of the registry that are there, for `follow` to reach.
        """
        with self._leasing:
            if self._lease is None:
                return -1, -1
            try:
                self._lease = self._lease.renew(
                    self.root, max(self.manifest.epoch, 0), LEASE_SECONDS, registry=self._number
                )
            except StoreError as error:
                _logger.warning("lease not renewed, reading anew: %s", error)
                self._lease = None
                self._expired = True  # what was read may be gone; `follow` reads anew
        forget(self.root, keep=self.manifest.files())
        return _newest(self.root, COMMITS), _newest(self.root, SNAPSHOTS)

    def follow(self, *, epoch: int = -1, number: int = -1) -> News:
        """Read what was committed and registered since the last call.

        `epoch` and `number` are known to be there: if they are not found, what leads to them is
        gone, and is read anew.
        """
        with self._following:
            return self._followed(epoch, number)

    def _followed(self, epoch: int, number: int) -> News:
        after, before = self.manifest.epoch, self._number
        try:
            self._require_lease()
            self._follow_registry()
            deltas = self._follow_commits()
            self._require(epoch, number)
        except (MissingError, CorruptionError) as error:
            _logger.info("fallen behind, reading anew: %s", error)
            self._open()
            self._expired = False
            return News(after, self.manifest.epoch, self._number - before)
        added = tuple(
            (name, piece)
            for delta in deltas
            for name, runs in delta.added.items()
            for run in runs
            for piece in run
        )
        measured = tuple(delta.facts.get("statistics", {}) for delta in deltas)
        return News(after, self.manifest.epoch, self._number - before, added, measured)

    def close(self) -> None:
        """Give the lease up."""
        with self._leasing:
            self._drop_lease()

    def feed(self, name: str) -> FeedSpec | None:
        """Return a feed, if there is one of that name."""
        return self.catalog.feeds.get(name)

    def answers(
        self,
        feed: FeedSpec,
        qid: int | None,
        *,
        begin: Instant | None = None,
        end: Instant | None = None,
        last: int | None = None,
        most: int | None = None,
    ) -> pa.Table:
        """Return answers that are kept; if a file has just gone, those of the newest epoch.

        If there are more than `most` they are not read, and a `ReadLimitError` is raised.
        """
        window: dict[str, Any] = {"begin": begin, "end": end, "last": last}
        window["functions"] = self.functions
        try:
            return answers(self.root, self.manifest, feed, qid, **window, room=Room(most))
        except MissingError:
            self.follow()
            return answers(self.root, self.manifest, feed, qid, **window, room=Room(most))

    def table_rows(self, name: str) -> pa.Table:
        """Return the rows of a table as they were last changed."""
        with self._lock:
            self._state.catalog.table(name)
            return repeated(self._state.contents[name].current(self.root))

    def constants(self, family: Family) -> tuple[Qids, pa.Table]:
        """Return the ids of a family's queries, ascending, and their constants."""
        with self._lock:
            catalog, population = self._state.catalog, self._state.population
            standing = population.standing(catalog.feed(family.feed).stream, catalog.families)
            rows = together(each for each in standing if each.key == family.key)
        if not rows:
            return np.zeros(0, np.uint64), family.schema.empty_table()
        return rows[0].qids, pa.Table.from_batches([rows[0].parameters])

    def suspended(self) -> dict[int, Any]:
        """Return the queries that do not run, and why."""
        return dict(facts.suspended(self.manifest, self._state.population.generations))

    def _follow_commits(self) -> list[Delta]:
        manifest, deltas = self.manifest, list[Delta]()
        while True:
            try:
                delta = read_delta(self.root, manifest.epoch + 1)
            except MissingError:
                break
            manifest = apply(manifest, delta)
            deltas.append(delta)
        go_on(self.root, self.manifest.stores, manifest.stores)
        self.manifest = manifest
        return deltas

    def _follow_registry(self) -> None:
        while True:
            try:
                entry = Container.open(self.root, numbered(CHANGES, self._number + 1))
            except MissingError:
                break
            with self._lock:
                self._take(entry)
                self._number += 1

    def _require_lease(self) -> None:
        if self._expired:
            raise MissingError("what the lease held, which has ended, may be gone")

    def _require(self, epoch: int, number: int) -> None:
        if self._number < number or self.manifest.epoch < epoch:
            raise MissingError(f"commit {epoch} or entry {number} of the registry is gone")

    def _take(self, entry: Container) -> None:
        """Apply one entry of the registry to what is known, and to the list."""
        if any(first_format.is_first_change(each) for each in entry.meta["changes"]):
            self._state = folded(self._state, entry)
            self._queries = QueryList.of(self._state)
            return
        tables = read_tables(entry)
        for change in entry.meta["changes"]:
            before = self._state.catalog
            self._state.apply([change], tables)
            self._queries.change(change, before, self._state.catalog, tables)

    def _drop_lease(self) -> None:
        if self._lease is not None:
            self._lease.release(self.root)
            self._lease = None


def _newest(root: Root, prefix: str) -> int:
    numbers = (number_of(each.name) for each in root.list(f"{prefix}/"))
    return max((each for each in numbers if each is not None), default=-1)


def _registry_log(root: Root) -> Log[RegistryState]:
    return Log(root, RegistryState(), lambda file: restored(root, file), folded, CHANGES, SNAPSHOTS)
