"""The registry: the durable log of what was declared and asked, and when.

A change is checked against the catalog, written as the next entry of the log, and only then
acknowledged; so what was acknowledged survives, and what was refused has changed nothing. A
call may bring many changes: they are one entry, all or none. Calls that come in while an entry is
being written share the next one (group commit), so many clients wait for one sync of the disk.

An epoch names the catalog it runs under by the number of changes it contains. Tasks read that
catalog, and the index files it names, from the root; `publish` writes them once.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from millrace import failpoints
from millrace.engine import first_format
from millrace.engine.catalog import Catalog
from millrace.engine.feeds import Family
from millrace.engine.population import Population, Qids
from millrace.engine.publication import CATALOGS, QUERIES, Publisher, together
from millrace.engine.query_rows import BORN
from millrace.engine.registry_state import (
    RegistryState,
    Tables,
    folded,
    named_files,
    restored,
    spelt,
)
from millrace.engine.tables import COPIES, TABLES
from millrace.errors import CorruptionError, FencedError, StoreError, UnknownNameError
from millrace.plan.bind import Functions
from millrace.state import container
from millrace.state.container import Container
from millrace.state.lease import reading_registry
from millrace.state.log import Log
from millrace.state.names import numbered
from millrace.state.root import Root

CHANGES = "registry"
SNAPSHOTS = "registry-snapshots"
MOST_ENTRIES = 1_024

Room = Callable[[Sequence[Sequence[dict[str, Any]]]], object]
"""Says whether the last call's changes may come behind those of the calls before it."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Request:
    """What one caller wants to be recorded."""

    changes: list[dict[str, Any]]
    tables: list[pa.RecordBatch]
    error: Exception | None = None
    done: bool = False
    first_qids: list[int] = field(default_factory=list)


class Registry:
    """The catalog and the population as they are now, and the log behind them."""

    def __init__(
        self,
        root: Root,
        log: Log[RegistryState],
        number: int,
        state: RegistryState,
        check: Callable[[], None],
    ) -> None:
        self._root, self._log, self._number = root, log, number
        self._state, self._check = state, check
        self._publisher = Publisher(root)
        self._logged_entries = self._logged_bytes = self._snapshot_bytes = 0
        self._closed = False
        self._named: dict[str, set[str]] = {}  # by snapshots and catalogs
        self.marks: Callable[[], dict[str, Any]] = dict  # what is written into each change
        self.room: Room = lambda _: None  # raises if there is none for what comes
        self._waiting: list[_Request] = []
        self._queue = threading.Lock()
        self._lock = threading.RLock()

    @classmethod
    def open(cls, root: Root, check: Callable[[], None] = lambda: None) -> Self:
        """Read the registry of a root; an empty root has an empty one.

        `check` raises when another engine has taken the root; it is asked before each change.
        """
        log = Log(root, RegistryState(), lambda file: restored(root, file), folded, CHANGES,
                  SNAPSHOTS)  # fmt: skip
        number, state = log.load()
        return cls(root, log, number, state, check)

    @property
    def catalog(self) -> Catalog:
        """Everything in force now."""
        return self._state.catalog

    @property
    def number(self) -> int:
        """The number of the last entry of the log."""
        return self._number

    @property
    def population(self) -> Population:
        """Who stands now."""
        return self._state.population

    def record(
        self, changes: Iterable[dict[str, Any]], tables: Sequence[pa.RecordBatch] = ()
    ) -> list[int]:
        """Check and log changes, all or none; durable when it returns.

        A change that adds queries names the table of their constants by its place in `tables`.
        Returns the first query id of each such change.
        """
        marks = self.marks()
        request = _Request([{**change, **marks} for change in changes], list(tables))
        with self._queue:
            self._waiting.append(request)
        with self._lock:
            if not request.done:
                with self._queue:
                    group, self._waiting = self._waiting, []
                self._settle(group)
        if request.error is not None:
            raise request.error
        return request.first_qids

    def _settle(self, requests: list[_Request]) -> None:
        """Commit what callers want; whatever happens, each of them learns what became of it."""
        try:
            self._commit(requests)
        finally:
            for request in requests:
                if not request.done:
                    request.done = True
                    request.error = StoreError("the registry could not be written")

    def _commit(self, requests: list[_Request]) -> None:
        """Log what all these callers want as one entry."""
        trial = self._state.trial()
        accepted: list[_Request] = []
        for request in requests:
            try:
                self.room([*(each.changes for each in accepted), request.changes])
                request.first_qids = trial.check(request.changes, request.tables)
            except Exception as error:
                request.done, request.error = True, error
            else:
                accepted.append(request)
        if accepted:
            try:
                self._write(accepted)
            except Exception as error:
                for request in accepted:
                    request.error = error
            for request in accepted:
                request.done = True

    def _write(self, requests: list[_Request]) -> None:
        if self._closed:
            raise StoreError("the session is closed", hint="Open a new one.")
        failpoints.reach("register.before")
        self._check()
        changes, tables = _joined(requests)
        entry = container.pack({"changes": changes}, _packed(tables))
        self._append(entry)
        self._number += 1
        self._logged_entries += 1
        self._logged_bytes += sum(each.nbytes for each in entry)
        self._state.apply(changes, tables)
        failpoints.reach("register.after")
        self._tidy()

    def _append(self, entry: list[memoryview]) -> None:
        """Write the next entry; one that is there although writing it failed stands."""
        try:
            self._log.append(self._number + 1, entry)
        except FencedError:
            raise
        except (StoreError, OSError):
            self._log.append(self._number + 1, entry)  # to write the same again does nothing

    def _tidy(self) -> None:
        """Take a snapshot when one is due; the change before it stands though this may fail."""
        try:
            if self._worthwhile() and self._log.due(self._number):
                meta, sections = spelt(self._state)
                packed = container.pack(meta, sections)
                self._log.snapshot(self._number, packed)
                self._snapshot_bytes = sum(each.nbytes for each in packed)
                self._logged_bytes = self._logged_entries = 0
                if not reading_registry(self._root, time.time()):
                    for entry in self._log.outdated():
                        self._root.delete(entry.name)
        except (StoreError, OSError) as error:
            _logger.warning("registry not tidied, later: %s", error)

    def _worthwhile(self) -> bool:
        """Say whether enough was logged since the last snapshot to pay for another one.

        Rows that no index file holds yet are written into every snapshot.
        """
        much = 2 * self._logged_bytes >= self._snapshot_bytes
        return much or self._logged_entries >= MOST_ENTRIES

    def publish(self, functions: Functions) -> Catalog:
        """Write the catalog and the index where tasks read them, once; return the catalog."""
        with self._lock:
            return self._publisher.publish(self._state, functions)

    def family_sizes(self) -> dict[tuple[str, str], int]:
        """Count the standing queries of each family, by feed and key."""
        found: dict[tuple[str, str], int] = {}
        with self._lock:
            catalog, population = self._state.catalog, self._state.population
            for stream in population.blocks:
                for each in population.standing(stream, catalog.families):
                    place = each.feed, each.key
                    found[place] = found.get(place, 0) + each.qids.size
        return found

    def published(self, file: str, functions: Functions) -> Catalog:
        """Return the catalog that a logged decision names."""
        with self._lock:
            return self._publisher.read(file, functions)

    def close(self) -> None:
        """Write nothing more; what is being written is waited for."""
        with self._lock:
            self._closed = True
        self.await_merge()

    def await_merge(self) -> None:
        """Wait for index files that are being merged beside the epochs."""
        self._publisher.await_merge()

    def ids_of(self, family: Family) -> Qids:
        """Return the ids of a family's queries, ascending."""
        with self._lock:
            stream = self._state.catalog.feed(family.feed).stream
            return np.sort(self._state.population.members(stream, {family.key}))

    def ids_of_feed(self, feed: str) -> Qids:
        """Return the ids of all queries of a feed."""
        with self._lock:
            stream = self._state.catalog.feed(feed).stream
            keys = set(self._state.catalog.families_of(feed))
            return self._state.population.members(stream, keys)

    def grouped(self, by: Callable[[str], str]) -> dict[str, Qids]:
        """Return the ids of all queries, by what a function makes of the names of their feeds."""
        with self._lock:
            return self._state.population.grouped(self._state.catalog.families, by)

    def strangers(self, family: Family, qids: Qids) -> Qids:
        """Return those ids that stand for no query of a family."""
        with self._lock:
            return self._state.population.strangers(qids, family.key)

    def rows_of(self, family: Family) -> tuple[Qids, pa.Table]:
        """Return the ids of a family's queries, ascending, and their constants."""
        with self._lock:
            stream = self._state.catalog.feed(family.feed).stream
            standing = self._state.population.standing(stream, self._state.catalog.families)
            rows = together(each for each in standing if each.key == family.key)
        if not rows:
            return np.zeros(0, np.uint64), family.schema.empty_table()
        return rows[0].qids, pa.Table.from_batches([rows[0].parameters])

    def feed_of(self, qid: int) -> str:
        """Return the feed of a query."""
        with self._lock:
            found = self._state.population.find(qid)
            if found is None:
                raise UnknownNameError(f"query {qid} does not exist")
            return self._state.catalog.families[found[0]].feed

    def constants_of(self, family: str, qid: int) -> list[dict[str, Any]] | None:
        """Return the constants of a query, if it stands and belongs to that family."""
        with self._lock:
            found = self._state.population.find(qid)
        return [found[1]] if found is not None and found[0] == family else None

    def family_of(self, qid: int) -> str | None:
        """Return the key of a query's family; None if it does not stand."""
        with self._lock:
            found = self._state.population.find(qid)
        return None if found is None else found[0]

    def table_rows(self, name: str) -> tuple[int, pa.Table]:
        """Return the number of a table's last change, and its rows with their copies."""
        with self._lock:
            self._state.catalog.table(name)
            contents = self._state.contents[name]
            return contents.version, contents.current(self._root)

    def table_sizes(self) -> dict[str, int]:
        """Return how many rows each table has."""
        with self._lock:
            contents = self._state.contents
            return {name: contents[name].count(self._root) for name in self._state.catalog.tables}

    def index_bytes(self) -> dict[str, int]:
        """Return how large the index over each stream is."""
        with self._lock:
            population = self._state.population
            return {stream: population.index_bytes(stream) for stream in population.blocks}

    def family_rows(self, feed: str) -> pa.Table:
        """Return the queries that a feed's plan runs: their ids, and their parameters `p0`, …."""
        return self.member_rows(feed).drop_columns([BORN, COPIES])

    def member_rows(self, feed: str) -> pa.Table:
        """Return the queries that a feed's plan runs, with the changes that brought them."""
        with self._lock:
            return self._state.contents[feed].current(self._root)

    def forget_changes(self, taken: Mapping[str, int]) -> None:
        """Name no longer the changes of tables up to those that all their plans have taken."""
        with self._lock:
            for name, contents in self._state.contents.items():
                contents.forget(taken.get(name, contents.version))

    def forget_before(self, sequence: int) -> None:
        """Delete published catalogs, and files they named, that no epoch can ask for any more.

        `sequence` is that of the last committed epoch. A file of queries or of a table goes if it
        is older, and neither what stands, a kept snapshot nor a published catalog names it; a file
        that is not older may be named by a catalog that is about to be published, also by an
        engine that has taken over. While a merge is being written, or somebody begins to read the
        registry, all stay.
        """
        self._check()
        if reading_registry(self._root, time.time()):
            return
        for entry in self._root.list(f"{CATALOGS}/"):
            if _sequence_of(entry.name) < sequence:
                self._root.delete(entry.name)
        with self._lock:
            if self._publisher.writing:
                return
            kept = self._publisher.files_in_use(self._state) | self._named_in_root()
            for entry in [*self._root.list(f"{QUERIES}/"), *self._root.list(f"{TABLES}/")]:
                if _sequence_of(entry.name) < sequence and entry.name not in kept:
                    self._root.delete(entry.name)

    def _named_in_root(self) -> set[str]:
        """Return the files that snapshots and catalogs name; a damaged one names nothing.

        Each is read once: they do not change.
        """
        snapshots = [numbered(SNAPSHOTS, each) for each in self._log.kept_snapshots()]
        catalogs = [entry.name for entry in self._root.list(f"{CATALOGS}/")]
        names, known = [*snapshots, *catalogs], self._named
        self._named = {each: known[each] for each in names if each in known}
        for name in names:
            if name not in known:
                with contextlib.suppress(CorruptionError):
                    self._named[name] = named_files(Container.open(self._root, name).meta)
        return set().union(*self._named.values())


def read_catalog(root: Root, file: str) -> Catalog:
    """Read a published catalog; one of the first form names no index."""
    meta = Container.open(root, file).meta
    if first_format.is_first_catalog(meta):
        return first_format.restored(meta)[0]
    return Catalog.from_json(meta)


def _sequence_of(name: str) -> int:
    """Return the number of changes that a catalog or an index file was made after."""
    return int(name.partition("/")[2][:12])


def _joined(requests: list[_Request]) -> tuple[list[dict[str, Any]], Tables]:
    """Put the changes of several callers behind each other, their tables renumbered."""
    changes: list[dict[str, Any]] = []
    tables: list[pa.RecordBatch] = []
    for request in requests:
        for change in request.changes:
            moved = {"rows": change["rows"] + len(tables)} if "rows" in change else {}
            changes.append({**change, **moved})
        tables += request.tables
    return changes, tables


def _packed(tables: Tables) -> Iterable[tuple[str, Any]]:
    for number, table in enumerate(tables):
        yield f"rows/{number}", table.serialize()
        yield f"schema/{number}", table.schema.serialize()
