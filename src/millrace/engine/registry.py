"""The registry: the durable log of what was declared and asked, and when.

A change is checked against the catalog, written as the next entry of the log, and only then
acknowledged; so what was acknowledged survives, and what was refused has changed nothing. A
call may bring many changes: they are one entry, all or none. Calls that come in while an entry is
being written share the next one (group commit), so many clients wait for one sync of the disk.

An epoch names the catalog it runs under by the number of changes it contains. Tasks read that
catalog, and the index files it names, from the root; `publish` writes them once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from millrace import failpoints
from millrace.engine.catalog import Catalog
from millrace.engine.population import Population, Qids
from millrace.engine.feeds import Family
from millrace.engine.publication import Publisher, together
from millrace.engine.registry_state import RegistryState, Tables, folded, restored, spelt
from millrace.errors import MillraceError, StoreError, UnknownNameError
from millrace.plan.bind import Functions
from millrace.state import container
from millrace.state.container import Container
from millrace.state.log import Log
from millrace.state.root import Root

CHANGES = "registry"
SNAPSHOTS = "registry-snapshots"

_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Request:
    """What one caller wants to be recorded."""

    changes: list[dict[str, Any]]
    tables: list[pa.RecordBatch]
    error: MillraceError | None = None
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
        request = _Request(list(changes), list(tables))
        with self._queue:
            self._waiting.append(request)
        with self._lock:
            if not request.done:
                with self._queue:
                    together, self._waiting = self._waiting, []
                self._commit(together)
        if request.error is not None:
            raise request.error
        return request.first_qids

    def _commit(self, requests: list[_Request]) -> None:
        """Log what all these callers want as one entry."""
        trial = self._state.trial()
        accepted = []
        for request in requests:
            request.done = True
            try:
                request.first_qids = trial.check(request.changes, request.tables)
            except MillraceError as error:
                request.error = error
            else:
                accepted.append(request)
        if accepted:
            try:
                self._write(accepted)
            except MillraceError as error:
                for request in accepted:
                    request.error = error
                return
            except BaseException:
                for request in accepted:
                    request.error = StoreError("the registry could not be written")
                raise

    def _write(self, requests: list[_Request]) -> None:
        failpoints.reach("register.before")
        self._check()
        changes, tables = _joined(requests)
        self._log.append(self._number + 1, container.pack({"changes": changes}, _packed(tables)))
        self._number += 1
        self._state.apply(changes, tables)
        failpoints.reach("register.after")
        self._tidy()

    def _tidy(self) -> None:
        """Take a snapshot when one is due; the change before it stands though this may fail."""
        try:
            if self._log.due(self._number):
                meta, sections = spelt(self._state)
                self._log.snapshot(self._number, container.pack(meta, sections))
                for entry in self._log.outdated():
                    self._root.delete(entry.name)
        except (StoreError, OSError) as error:
            _logger.warning("registry not tidied, later: %s", error)

    def publish(self, functions: Functions) -> Catalog:
        """Write the catalog and the index where tasks read them, once; return the catalog."""
        with self._lock:
            return self._publisher.publish(self._state, functions)

    def families_standing(self) -> list[str]:
        """Return the keys of all families."""
        return list(self._state.catalog.families)

    def members(self, family: str) -> list[int]:
        """Return the ids of a family's queries."""
        with self._lock:
            catalog = self._state.catalog
            stream = catalog.feed(catalog.families[family].feed).stream
            rows = self._state.population.standing(stream, catalog.families)
            return [qid for each in rows if each.key == family for qid in each.qids.tolist()]

    def ids_of(self, family: str) -> Qids:
        """Return the ids of a family's queries, ascending."""
        return np.array(sorted(self.members(family)), np.uint64)

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
            for stream in self._state.population.blocks:
                for each in self._state.population.standing(stream, self._state.catalog.families):
                    if qid in each.qids:
                        return each.feed
        raise UnknownNameError(f"query {qid} does not exist")

    def constants_of(self, family: str, qid: int) -> list[dict[str, Any]] | None:
        """Return the constants of a query, if it stands and belongs to that family."""
        known = self._state.catalog.families.get(family)
        if known is None:
            return None
        qids, rows = self.rows_of(known)
        at = np.flatnonzero(qids == qid)
        return rows.take(pa.array(at)).to_pylist() if at.size else None

    def forget_before(self, sequence: int) -> None:
        """Delete published catalogs, and index files, that no epoch can ask for any more."""
        for entry in self._root.list("catalogs/"):
            if int(entry.name.rpartition("/")[2]) < sequence:
                self._root.delete(entry.name)
        with self._lock:
            kept = self._publisher.files_in_use(self._state) | self._files_of_snapshots()
            kept |= self._files_of_catalogs()
            for entry in self._root.list("queries/"):
                if entry.name not in kept:
                    self._root.delete(entry.name)

    def _files_of_snapshots(self) -> set[str]:
        found: set[str] = set()
        for number in self._log.kept_snapshots():
            meta = Container.open(self._root, f"{SNAPSHOTS}/{number:012d}").meta
            found |= {name for files in meta["index"].values() for name in files}
        return found

    def _files_of_catalogs(self) -> set[str]:
        found: set[str] = set()
        for entry in self._root.list("catalogs/"):
            index = read_catalog(self._root, entry.name).index
            found |= {each.name for files in index.values() for each in files}
        return found


def read_catalog(root: Root, file: str) -> Catalog:
    """Read a published catalog."""
    return Catalog.from_json(Container.open(root, file).meta)


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
